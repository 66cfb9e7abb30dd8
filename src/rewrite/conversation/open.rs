//! The calls of one assistant message while their results come in.

use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// What calls and results are matched by; none for a legacy `function_call`.
type CallId<'a> = Option<Cow<'a, str>>;

/// Calls that most messages make no more of.
pub(super) const INLINE_CALLS: usize = 4;

/// Calls in the order of their ids, those that share one in their own order.
///
/// Invariant: at the first of each run of equal ids stands how many of the run were answered.
pub(super) struct OpenCalls<'a> {
    calls: SmallVec<[(CallId<'a>, usize); INLINE_CALLS]>,
    answered: SmallVec<[usize; INLINE_CALLS]>,
    unanswered: usize,
}

impl<'a> OpenCalls<'a> {
    /// All of them are waiting for their answer.
    pub(super) fn new(ids: impl Iterator<Item = CallId<'a>>) -> Self {
        let mut calls: SmallVec<_> = ids.enumerate().map(|(at, id)| (id, at)).collect();
        calls.sort_unstable();
        Self {
            answered: smallvec![0; calls.len()],
            unanswered: calls.len(),
            calls,
        }
    }

    /// Whether none is left without an answer.
    pub(super) fn all_answered(&self) -> bool {
        self.unanswered == 0
    }

    /// The call that a result with these ids tells of: the first of theirs, answered or not. Taken off
    /// those that wait is the first of theirs that does: where two share an id, a second answer is for the
    /// second of them.
    pub(super) fn resolve(&mut self, ids: [Option<CallId<'_>>; 2]) -> Option<usize> {
        let runs = ids.map(|id| self.run_start(&id?));
        let runs = runs.iter().flatten().copied();
        let waiting = runs
            .clone()
            .filter_map(|run| Some((self.first_open_in_run(run)?, run)));
        let place = runs.filter_map(|run| self.first_in_run(run)).min();
        if let Some((_, run)) = waiting.min() {
            self.mark_answered(run);
        }
        place
    }

    /// Where the run of an id begins, if there is one.
    fn run_start(&self, id: &CallId<'_>) -> Option<usize> {
        let start = self.calls.partition_point(|(known, _)| known < id);
        self.calls.get(start).filter(|(known, _)| known == id)?;
        Some(start)
    }

    /// The first call of a run, answered or not.
    fn first_in_run(&self, run: usize) -> Option<usize> {
        self.calls.get(run).map(|(_, at)| *at)
    }

    /// The first call of a run that waits for its answer.
    fn first_open_in_run(&self, run: usize) -> Option<usize> {
        let (id, at) = self.calls.get(run + self.answered.get(run)?)?;
        (self.calls.get(run)?.0 == *id).then_some(*at)
    }

    /// The call that [`Self::waiting`] tells of is answered: it is asked for no more.
    fn mark_answered(&mut self, run: usize) {
        if let Some(answered) = self.answered.get_mut(run) {
            *answered += 1;
            self.unanswered -= 1;
        }
    }
}
