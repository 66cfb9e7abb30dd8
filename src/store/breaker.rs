//! Whether the far tier is asked at all: not while it has just failed several times.

use std::time::Duration;

use tokio::time::Instant;

use crate::lock::Mutex;

/// So many failures in a row open it: one may be a lost packet.
pub(super) const MAX_FAILURES: u32 = 3;
/// How long nothing is asked then. After that one call is let through, which costs one request its
/// deadline at the worst; once a second, nobody notices.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// How long after an outage was told of no other is. A tier at the edge of what it can do goes off and
/// comes back every few seconds.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_mins(5);

/// A breaker in front of the far tier.
#[derive(Default)]
pub(super) struct ReadBreaker(Mutex<ReadBreakerState>);

#[derive(Clone, Copy, Debug, Default)]
struct ReadBreakerState {
    failures: u32,
    /// When the next call is let through, while it is open.
    retry_at: Option<Instant>,
    /// When an outage was told of last.
    reported_at: Option<Instant>,
    /// Whether this is the outage that was told of, so that its end is news.
    is_reported: bool,
}

/// What a call that ended has changed, where that is to be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BreakerTransition {
    /// The far tier is used again.
    Recovered,
    /// Nothing, or nothing new: an outage soon after another is not told of.
    Unreported,
    /// The far tier is not asked any more.
    Opened,
}

impl ReadBreaker {
    /// Whether a call may be made now. While the breaker is open, one may after each pause.
    pub(super) fn allows_call(&self) -> bool {
        let mut state = self.0.lock();
        match state.retry_at {
            None => true,
            Some(opens) if Instant::now() < opens => false,
            Some(_) => {
                state.retry_at = Some(Instant::now() + PAUSE);
                true
            }
        }
    }

    /// Whether it is open.
    pub(super) fn is_open(&self) -> bool {
        self.0.lock().retry_at.is_some()
    }

    /// A call was answered.
    pub(super) fn record_success(&self) -> BreakerTransition {
        let mut state = self.0.lock();
        let before = std::mem::take(&mut *state);
        state.reported_at = before.reported_at;
        if before.is_reported {
            BreakerTransition::Recovered
        } else {
            BreakerTransition::Unreported
        }
    }

    /// A call was not answered.
    pub(super) fn record_failure(&self) -> BreakerTransition {
        let now = Instant::now();
        let mut state = self.0.lock();
        state.failures = state.failures.saturating_add(1);
        if state.retry_at.is_none() && state.failures < MAX_FAILURES {
            return BreakerTransition::Unreported;
        }
        state.retry_at = Some(now + PAUSE);
        // One that was kept quiet at its beginning is told of if it lasts.
        if state.is_reported
            || state
                .reported_at
                .is_some_and(|told| now < told + REPORT_INTERVAL)
        {
            return BreakerTransition::Unreported;
        }
        state.is_reported = true;
        state.reported_at = Some(now);
        BreakerTransition::Opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_failures_in_a_row_and_lets_one_call_through_after_each_pause() {
        let breaker = ReadBreaker::default();
        assert_eq!(breaker.record_failure(), BreakerTransition::Unreported);
        assert_eq!(breaker.record_success(), BreakerTransition::Unreported);
        for _ in 1..MAX_FAILURES {
            assert_eq!(breaker.record_failure(), BreakerTransition::Unreported);
            assert!(breaker.allows_call());
        }
        assert_eq!(breaker.record_failure(), BreakerTransition::Opened);
        for _ in 0..3 {
            assert!(!breaker.allows_call());
            tokio::time::advance(PAUSE).await;
            assert!(breaker.allows_call());
            assert!(!breaker.allows_call(), "one at a time");
            assert_eq!(
                breaker.record_failure(),
                BreakerTransition::Unreported,
                "it is told once"
            );
        }
        tokio::time::advance(PAUSE).await;
        assert!(breaker.allows_call());
        assert_eq!(breaker.record_success(), BreakerTransition::Recovered);
        assert!(breaker.allows_call() && breaker.allows_call());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_comes_and_goes_is_told_of_now_and_then_each_time_with_its_end() {
        let breaker = ReadBreaker::default();
        let fails = || {
            (0..MAX_FAILURES)
                .map(|_| breaker.record_failure())
                .last()
                .unwrap()
        };
        assert_eq!(fails(), BreakerTransition::Opened);
        assert_eq!(breaker.record_success(), BreakerTransition::Recovered);
        for _ in 0..3 {
            assert_eq!(fails(), BreakerTransition::Unreported);
            assert!(!breaker.allows_call(), "quiet, and still not asked");
            assert_eq!(breaker.record_success(), BreakerTransition::Unreported);
        }
        assert_eq!(fails(), BreakerTransition::Unreported);
        tokio::time::advance(REPORT_INTERVAL).await;
        assert_eq!(
            breaker.record_failure(),
            BreakerTransition::Opened,
            "it lasts"
        );
        assert_eq!(breaker.record_failure(), BreakerTransition::Unreported);
        assert_eq!(breaker.record_success(), BreakerTransition::Recovered);
    }
}
