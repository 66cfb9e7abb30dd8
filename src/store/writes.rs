//! Whether the far tier keeps what it is told. One that answers every question may refuse every
//! write: its user lacks a permission, its memory or its disk is full, it is a read-only copy.
//!
//! That is no reason not to ask it, so it is no business of the [`Breaker`](super::breaker::Breaker),
//! whose count each answer begins anew. Writes are spared in the same way, and the operator is told.

use tokio::time::Instant;

use super::breaker::{MAX_FAILURES, PAUSE, REPORT_INTERVAL};
use crate::lock::Mutex;

/// How writes went.
#[derive(Default)]
pub(super) struct WriteBreaker(Mutex<WriteBreakerState>);

#[derive(Default)]
struct WriteBreakerState {
    /// Why the last write failed, if nothing was asked since.
    last_failure: Option<&'static str>,
    /// How many questions in a row were answered after a write that failed.
    refusals: u32,
    /// When the next write is let through, while they are refused.
    retry_at: Option<Instant>,
    /// When this was told of last.
    reported_at: Option<Instant>,
    /// Whether these failures were told of, so that their end is news.
    is_reported: bool,
}

impl WriteBreaker {
    /// Whether something may be written now. While writes are refused, one may after each pause.
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

    /// One failed, for this reason.
    pub(super) fn record_failure(&self, why: &'static str) {
        self.with_state(|state| state.last_failure = Some(why));
    }

    /// One was kept. Says whether it was told that none is.
    pub(super) fn record_success(&self) -> bool {
        self.with_state(|state| {
            state.reset();
            std::mem::take(&mut state.is_reported)
        })
    }

    /// A question was answered. Says why writes fail, where that is to be told: the tier is there, so
    /// it refuses them.
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

    /// A question was not answered: why writes fail is the same, and told of as that.
    pub(super) fn record_read_failure(&self) {
        self.with_state(WriteBreakerState::reset);
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut WriteBreakerState) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl WriteBreakerState {
    /// Nothing has failed.
    fn reset(&mut self) {
        self.last_failure = None;
        self.refusals = 0;
        self.retry_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told after so many writes that fail, each with an answer to a question behind it.
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
        assert!(!writes.record_success(), "it takes so many in a row");
        assert_eq!(told(&writes, MAX_FAILURES - 1), [""; 0]);
        assert_eq!(told(&writes, MAX_FAILURES), ["why"]);
        assert!(writes.record_success());
        assert!(!writes.record_success());
        // Those that come and go are told of now and then.
        assert_eq!(told(&writes, MAX_FAILURES), [""; 0]);
        assert!(
            !writes.record_success(),
            "what was not told has no end to tell"
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
