//! Whether the far tier keeps what it is told. One that answers every question may refuse every
//! write: its user lacks a permission, its memory or its disk is full, it is a read-only copy.
//!
//! That is no reason not to ask it, so it is no business of the [`Breaker`](super::breaker::Breaker),
//! whose count each answer begins anew. Writes are spared in the same way, and the operator is told.

use tokio::time::Instant;

use super::breaker::{FAILURES, PAUSE, QUIET};
use crate::lock::Mutex;

/// How writes went.
#[derive(Default)]
pub(super) struct Writes(Mutex<State>);

#[derive(Default)]
struct State {
    /// Why the last write failed, if nothing was asked since.
    failed: Option<&'static str>,
    /// How many questions in a row were answered after a write that failed.
    refusals: u32,
    /// When the next write is let through, while they are refused.
    opens: Option<Instant>,
    /// When this was told of last.
    told: Option<Instant>,
    /// Whether these failures were told of, so that their end is news.
    is_told: bool,
}

impl Writes {
    /// Whether something may be written now. While writes are refused, one may after each pause.
    pub(super) fn lets_through(&self) -> bool {
        let now = Instant::now();
        self.with(|state| match state.opens {
            None => true,
            Some(opens) if now < opens => false,
            Some(_) => {
                state.opens = Some(now + PAUSE);
                true
            }
        })
    }

    /// One failed, for this reason.
    pub(super) fn failed(&self, why: &'static str) {
        self.with(|state| state.failed = Some(why));
    }

    /// One was kept. Says whether it was told that none is.
    pub(super) fn kept(&self) -> bool {
        self.with(|state| {
            state.begin_anew();
            std::mem::take(&mut state.is_told)
        })
    }

    /// A question was answered. Says why writes fail, where that is to be told: the tier is there, so
    /// it refuses them.
    pub(super) fn answered(&self) -> Option<&'static str> {
        let now = Instant::now();
        self.with(|state| {
            let why = state.failed.take()?;
            state.refusals = state.refusals.saturating_add(1);
            if state.refusals < FAILURES {
                return None;
            }
            state.opens.get_or_insert(now + PAUSE);
            let is_quiet = state.is_told || state.told.is_some_and(|told| now < told + QUIET);
            if is_quiet {
                return None;
            }
            state.is_told = true;
            state.told = Some(now);
            Some(why)
        })
    }

    /// A question was not answered: why writes fail is the same, and told of as that.
    pub(super) fn unanswered(&self) {
        self.with(State::begin_anew);
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl State {
    /// Nothing has failed.
    fn begin_anew(&mut self) {
        self.failed = None;
        self.refusals = 0;
        self.opens = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told after so many writes that fail, each with an answer to a question behind it.
    fn told(writes: &Writes, times: u32) -> Vec<&'static str> {
        let round = |_| {
            writes.failed("why");
            writes.answered()
        };
        (0..times).filter_map(round).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn writes_that_fail_between_answers_are_told_of_once_and_so_is_their_end() {
        let writes = Writes::default();
        assert!(!writes.kept());
        assert_eq!(told(&writes, FAILURES - 1), [""; 0]);
        assert!(!writes.kept(), "it takes so many in a row");
        assert_eq!(told(&writes, FAILURES - 1), [""; 0]);
        assert_eq!(told(&writes, FAILURES), ["why"]);
        assert!(writes.kept());
        assert!(!writes.kept());
        // Those that come and go are told of now and then.
        assert_eq!(told(&writes, FAILURES), [""; 0]);
        assert!(!writes.kept(), "what was not told has no end to tell");
        tokio::time::advance(QUIET).await;
        assert_eq!(told(&writes, 2 * FAILURES), ["why"]);
    }

    #[tokio::test(start_paused = true)]
    async fn while_writes_are_refused_one_is_tried_after_each_pause() {
        let writes = Writes::default();
        told(&writes, FAILURES - 1);
        assert!(writes.lets_through());
        told(&writes, 1);
        for _ in 0..3 {
            assert!(!writes.lets_through());
            tokio::time::advance(PAUSE).await;
            assert!(writes.lets_through());
            assert!(!writes.lets_through(), "one at a time");
            told(&writes, 1);
        }
        writes.kept();
        assert!(writes.lets_through() && writes.lets_through());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tier_that_is_away_refuses_nothing() {
        let writes = Writes::default();
        for _ in 0..2 * FAILURES {
            writes.failed("why");
        }
        assert_eq!(writes.answered(), None, "it is back");
        for _ in 0..2 * FAILURES {
            assert_eq!(told(&writes, 1), [""; 0]);
            writes.unanswered();
        }
    }
}
