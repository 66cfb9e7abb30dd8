//! Circuit breaker for the durable store: after several failures in a row, it is not called.

use std::time::Duration;

use tokio::time::Instant;

use parking_lot::Mutex;

/// Failures in a row that open the breaker. A single one may be a lost packet.
pub(super) const MAX_FAILURES: u32 = 3;
/// Pause after which an open breaker lets one call through. Such a call costs one request its
/// deadline at worst, which goes unnoticed once a second.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// Time after a reported outage in which no other is reported. A store at the edge of its capacity
/// fails and recovers every few seconds.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_mins(5);

/// Circuit breaker in front of the durable store.
#[derive(Default)]
pub(super) struct ReadBreaker(Mutex<ReadBreakerState>);

#[derive(Clone, Copy, Debug, Default)]
struct ReadBreakerState {
    failures: u32,
    /// When an open breaker lets the next call through.
    retry_at: Option<Instant>,
    /// When an outage was last reported.
    reported_at: Option<Instant>,
    /// Whether the current outage was reported, so that its end is reported too.
    is_reported: bool,
}

/// Change of state after a call, as far as it is to be reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BreakerTransition {
    /// The durable store is used again.
    Recovered,
    /// No change, or an outage soon after a reported one.
    Unreported,
    /// The durable store is not called any more.
    Opened,
}

impl ReadBreaker {
    /// Whether a call may be made now. An open breaker lets one through after each pause.
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

    /// Whether the breaker is open.
    pub(super) fn is_open(&self) -> bool {
        self.0.lock().retry_at.is_some()
    }

    /// Records an answered call.
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

    /// Records a failed call.
    pub(super) fn record_failure(&self) -> BreakerTransition {
        let now = Instant::now();
        let mut state = self.0.lock();
        state.failures = state.failures.saturating_add(1);
        if state.retry_at.is_none() && state.failures < MAX_FAILURES {
            return BreakerTransition::Unreported;
        }
        state.retry_at = Some(now + PAUSE);
        // An outage that began too soon after another to be reported is reported if it lasts.
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
                "it is reported once"
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
            assert!(!breaker.allows_call(), "not reported, and still not called");
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
