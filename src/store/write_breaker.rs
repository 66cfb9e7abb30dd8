//! Circuit breaker for writes to the durable store. A store that answers every read may refuse
//! every write: its user lacks a permission, its memory or its disk is full, or it is a read-only
//! replica.
//!
//! Such a store must still be read, so the breaker for reads cannot detect this: each answered read
//! resets its count. Writes are skipped in the same way, and the operator is notified.

use tokio::time::Instant;

use crate::store::read_breaker::{MAX_FAILURES, PAUSE, REPORT_INTERVAL};
use parking_lot::Mutex;

/// Circuit breaker for writes.
#[derive(Default)]
pub(super) struct WriteBreaker(Mutex<WriteBreakerState>);

#[derive(Default)]
struct WriteBreakerState {
    /// Reason of the last failed write, if no read has ended since.
    last_failure: Option<&'static str>,
    /// Number of reads in a row that were answered after a failed write.
    refusals: u32,
    /// When the next write is let through, while writes are refused.
    retry_at: Option<Instant>,
    /// When refused writes were last reported.
    reported_at: Option<Instant>,
    /// Whether the current failures were reported, so that their end is reported too.
    is_reported: bool,
}

impl WriteBreaker {
    /// Whether a write may be made now. While writes are refused, one is let through after each
    /// pause.
    pub(super) fn allows_call(&self) -> bool {
        let now = Instant::now();
        self.with_state(|state| match state.retry_at {
            None => true,
            Some(opens) if now < opens => false,
            Some(_) => {
                state.retry_at = Some(now + PAUSE);
                true
            }
        })
    }

    /// Records a failed write with its reason.
    pub(super) fn record_failure(&self, why: &'static str) {
        self.with_state(|state| state.last_failure = Some(why));
    }

    /// Records a successful write. Returns whether failing writes had been reported.
    pub(super) fn record_success(&self) -> bool {
        self.with_state(|state| {
            state.reset();
            std::mem::take(&mut state.is_reported)
        })
    }

    /// Records an answered read. Returns why writes fail, if that is to be reported: the store
    /// answers reads, so it refuses the writes.
    pub(super) fn record_read_success(&self) -> Option<&'static str> {
        let now = Instant::now();
        self.with_state(|state| {
            let why = state.last_failure.take()?;
            state.refusals = state.refusals.saturating_add(1);
            if state.refusals < MAX_FAILURES {
                return None;
            }
            state.retry_at.get_or_insert(now + PAUSE);
            let is_quiet = state.is_reported
                || state
                    .reported_at
                    .is_some_and(|told| now < told + REPORT_INTERVAL);
            if is_quiet {
                return None;
            }
            state.is_reported = true;
            state.reported_at = Some(now);
            Some(why)
        })
    }

    /// Records a failed read. Writes fail for the same reason then, and the outage is reported
    /// instead.
    pub(super) fn record_read_failure(&self) {
        self.with_state(WriteBreakerState::reset);
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut WriteBreakerState) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl WriteBreakerState {
    /// Forgets all failures.
    fn reset(&mut self) {
        self.last_failure = None;
        self.refusals = 0;
        self.retry_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is reported after `times` failed writes, each followed by an answered read.
    fn told(writes: &WriteBreaker, times: u32) -> Vec<&'static str> {
        let round = |_| {
            writes.record_failure("why");
            writes.record_read_success()
        };
        (0..times).filter_map(round).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn writes_that_fail_between_answers_are_told_of_once_and_so_is_their_end() {
        let writes = WriteBreaker::default();
        assert!(!writes.record_success());
        assert_eq!(told(&writes, MAX_FAILURES - 1), [""; 0]);
        assert!(
            !writes.record_success(),
            "fewer failures in a row than needed"
        );
        assert_eq!(told(&writes, MAX_FAILURES - 1), [""; 0]);
        assert_eq!(told(&writes, MAX_FAILURES), ["why"]);
        assert!(writes.record_success());
        assert!(!writes.record_success());
        // Failures that come and go are reported only now and then.
        assert_eq!(told(&writes, MAX_FAILURES), [""; 0]);
        assert!(
            !writes.record_success(),
            "the end of unreported failures is not reported"
        );
        tokio::time::advance(REPORT_INTERVAL).await;
        assert_eq!(told(&writes, 2 * MAX_FAILURES), ["why"]);
    }

    #[tokio::test(start_paused = true)]
    async fn while_writes_are_refused_one_is_tried_after_each_pause() {
        let writes = WriteBreaker::default();
        told(&writes, MAX_FAILURES - 1);
        assert!(writes.allows_call());
        told(&writes, 1);
        for _ in 0..3 {
            assert!(!writes.allows_call());
            tokio::time::advance(PAUSE).await;
            assert!(writes.allows_call());
            assert!(!writes.allows_call(), "one at a time");
            told(&writes, 1);
        }
        writes.record_success();
        assert!(writes.allows_call() && writes.allows_call());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tier_that_is_away_refuses_nothing() {
        let writes = WriteBreaker::default();
        for _ in 0..2 * MAX_FAILURES {
            writes.record_failure("why");
        }
        assert_eq!(writes.record_read_success(), None, "it is back");
        for _ in 0..2 * MAX_FAILURES {
            assert_eq!(told(&writes, 1), [""; 0]);
            writes.record_read_failure();
        }
    }
}
