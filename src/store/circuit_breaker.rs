//! Circuit breaker for calls to the durable store: after several failures in a row, it is not
//! called.

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
const REPORT_INTERVAL: Duration = Duration::from_mins(5);

#[derive(Default)]
pub(super) struct CircuitBreaker(Mutex<BreakerState>);

#[derive(Default)]
struct BreakerState {
    failures: u32,
    /// When an open breaker lets the next call through.
    retry_at: Option<Instant>,
    /// When an outage was last reported.
    reported_at: Option<Instant>,
    /// Whether the current outage was reported, so that its end is reported too.
    is_reported: bool,
}

impl CircuitBreaker {
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

    pub(super) fn is_open(&self) -> bool {
        self.0.lock().retry_at.is_some()
    }

    /// Records an answered call. Returns whether it ends a reported outage.
    pub(super) fn record_success(&self) -> bool {
        let mut state = self.0.lock();
        (state.failures, state.retry_at) = (0, None);
        std::mem::take(&mut state.is_reported)
    }

    /// Records a call that failed at `now`. Returns whether to report an outage.
    pub(super) fn record_failure(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        state.failures = state.failures.saturating_add(1);
        if state.retry_at.is_none() && state.failures < MAX_FAILURES {
            return false;
        }
        state.retry_at = state.retry_at.max(Some(now + PAUSE));
        // An outage that began too soon after another to be reported is reported if it lasts.
        let is_quiet = state.is_reported
            || state.reported_at.is_some_and(|reported| now < reported + REPORT_INTERVAL);
        if !is_quiet {
            state.is_reported = true;
            state.reported_at = Some(now);
        }
        !is_quiet
    }

    /// Closes the breaker, because its failures have another cause. A reported outage still counts
    /// as reported.
    pub(super) fn forget_failures(&self) {
        let mut state = self.0.lock();
        (state.failures, state.retry_at) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_allows_one_call_per_pause() {
        let breaker = CircuitBreaker::default();
        assert!(!breaker.record_failure(Instant::now()));
        assert!(!breaker.record_success());
        for _ in 1..MAX_FAILURES {
            assert!(!breaker.record_failure(Instant::now()));
            assert!(breaker.allows_call());
        }
        assert!(breaker.record_failure(Instant::now()));
        for _ in 0..3 {
            assert!(!breaker.allows_call());
            tokio::time::advance(PAUSE).await;
            assert!(breaker.allows_call());
            assert!(!breaker.allows_call(), "one at a time");
            assert!(!breaker.record_failure(Instant::now()), "it is reported once");
        }
        tokio::time::advance(PAUSE).await;
        assert!(breaker.allows_call());
        assert!(breaker.record_success());
        assert!(breaker.allows_call() && breaker.allows_call());
    }

    #[tokio::test(start_paused = true)]
    async fn recurring_outage_is_reported_at_intervals_with_its_end() {
        let breaker = CircuitBreaker::default();
        let fails =
            || (0..MAX_FAILURES).map(|_| breaker.record_failure(Instant::now())).last().unwrap();
        assert!(fails());
        assert!(breaker.record_success());
        for _ in 0..3 {
            assert!(!fails());
            assert!(!breaker.allows_call(), "not reported, and still not called");
            assert!(!breaker.record_success());
        }
        assert!(!fails());
        tokio::time::advance(REPORT_INTERVAL).await;
        assert!(breaker.record_failure(Instant::now()), "it lasts");
        assert!(!breaker.record_failure(Instant::now()));
        assert!(breaker.record_success());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_another_cause_close_the_breaker_but_end_no_outage() {
        let breaker = CircuitBreaker::default();
        for _ in 0..MAX_FAILURES {
            breaker.record_failure(Instant::now());
        }
        breaker.forget_failures();
        assert!(breaker.allows_call() && breaker.allows_call());
        assert!(breaker.record_success(), "its end is still to be reported");
    }
}
