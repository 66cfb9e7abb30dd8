//! Whether the far tier is asked at all: not while it has just failed several times.

use std::time::Duration;

use tokio::time::Instant;

use crate::lock::Mutex;

/// So many failures in a row open it: one may be a lost packet.
pub(super) const FAILURES: u32 = 3;
/// How long nothing is asked then. After that one call is let through, which costs one request its
/// deadline at the worst; once a second, nobody notices.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// How long after an outage was told of no other is. A tier at the edge of what it can do goes off and
/// comes back every few seconds.
pub(super) const QUIET: Duration = Duration::from_mins(5);

/// A breaker in front of the far tier.
#[derive(Default)]
pub(super) struct Breaker(Mutex<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    failures: u32,
    /// When the next call is let through, while it is open.
    opens: Option<Instant>,
    /// When an outage was told of last.
    told: Option<Instant>,
    /// Whether this is the outage that was told of, so that its end is news.
    is_told: bool,
}

/// What a call that ended has changed, where that is to be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turned {
    /// The far tier is used again.
    Back,
    /// Nothing, or nothing new: an outage soon after another is not told of.
    Not,
    /// The far tier is not asked any more.
    Off,
}

impl Breaker {
    /// Whether a call may be made now. While the breaker is open, one may after each pause.
    pub(super) fn lets_through(&self) -> bool {
        let mut state = self.0.lock();
        match state.opens {
            None => true,
            Some(opens) if Instant::now() < opens => false,
            Some(_) => {
                state.opens = Some(Instant::now() + PAUSE);
                true
            }
        }
    }

    /// Whether it is open.
    pub(super) fn is_open(&self) -> bool {
        self.0.lock().opens.is_some()
    }

    /// A call was answered.
    pub(super) fn answered(&self) -> Turned {
        let mut state = self.0.lock();
        let before = std::mem::take(&mut *state);
        state.told = before.told;
        if before.is_told {
            Turned::Back
        } else {
            Turned::Not
        }
    }

    /// A call was not answered.
    pub(super) fn failed(&self) -> Turned {
        let now = Instant::now();
        let mut state = self.0.lock();
        state.failures = state.failures.saturating_add(1);
        if state.opens.is_none() && state.failures < FAILURES {
            return Turned::Not;
        }
        state.opens = Some(now + PAUSE);
        // One that was kept quiet at its beginning is told of if it lasts.
        if state.is_told || state.told.is_some_and(|told| now < told + QUIET) {
            return Turned::Not;
        }
        state.is_told = true;
        state.told = Some(now);
        Turned::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_failures_in_a_row_and_lets_one_call_through_after_each_pause() {
        let breaker = Breaker::default();
        assert_eq!(breaker.failed(), Turned::Not);
        assert_eq!(breaker.answered(), Turned::Not);
        for _ in 1..FAILURES {
            assert_eq!(breaker.failed(), Turned::Not);
            assert!(breaker.lets_through());
        }
        assert_eq!(breaker.failed(), Turned::Off);
        for _ in 0..3 {
            assert!(!breaker.lets_through());
            tokio::time::advance(PAUSE).await;
            assert!(breaker.lets_through());
            assert!(!breaker.lets_through(), "one at a time");
            assert_eq!(breaker.failed(), Turned::Not, "it is told once");
        }
        tokio::time::advance(PAUSE).await;
        assert!(breaker.lets_through());
        assert_eq!(breaker.answered(), Turned::Back);
        assert!(breaker.lets_through() && breaker.lets_through());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_comes_and_goes_is_told_of_now_and_then_each_time_with_its_end() {
        let breaker = Breaker::default();
        let fails = || (0..FAILURES).map(|_| breaker.failed()).last().unwrap();
        assert_eq!(fails(), Turned::Off);
        assert_eq!(breaker.answered(), Turned::Back);
        for _ in 0..3 {
            assert_eq!(fails(), Turned::Not);
            assert!(!breaker.lets_through(), "quiet, and still not asked");
            assert_eq!(breaker.answered(), Turned::Not);
        }
        assert_eq!(fails(), Turned::Not);
        tokio::time::advance(QUIET).await;
        assert_eq!(breaker.failed(), Turned::Off, "it lasts");
        assert_eq!(breaker.failed(), Turned::Not);
        assert_eq!(breaker.answered(), Turned::Back);
    }
}
