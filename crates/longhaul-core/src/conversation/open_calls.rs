//! Calls of one assistant message, matched with results as those arrive.

use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// The id that matches calls with results; `None` for a legacy `function_call`.
type CallId<'a> = Option<Cow<'a, str>>;

/// Calls stored inline; most messages make no more.
pub(super) const INLINE_CALLS: usize = 4;

/// Calls sorted by id; calls that share an id keep their order.
///
/// Invariant: `answered`, at the first index of each run of equal ids, holds the number of answered
/// calls in that run.
pub(super) struct OpenCalls<'a> {
    calls: SmallVec<[(CallId<'a>, usize); INLINE_CALLS]>,
    answered: SmallVec<[usize; INLINE_CALLS]>,
    unanswered: usize,
}

impl<'a> OpenCalls<'a> {
    pub(super) fn new(ids: impl Iterator<Item = CallId<'a>>) -> Self {
        let mut calls: SmallVec<_> = ids.enumerate().map(|(at, id)| (id, at)).collect();
        calls.sort_unstable();
        Self { answered: smallvec![0; calls.len()], unanswered: calls.len(), calls }
    }

    pub(super) fn all_answered(&self) -> bool {
        self.unanswered == 0
    }

    /// Returns the call that a result with these ids belongs to: the first with one of the ids,
    /// answered or not. Marks the first unanswered call with one of the ids as answered: if two
    /// calls share an id, a second result answers the second call.
    pub(super) fn resolve(&mut self, ids: [Option<CallId<'_>>; 2]) -> Option<usize> {
        let runs = ids.map(|id| self.run_start(&id?));
        let runs = runs.iter().flatten().copied();
        let waiting = runs.clone().filter_map(|run| Some((self.first_open_in_run(run)?, run)));
        let place = runs.filter_map(|run| self.first_in_run(run)).min();
        if let Some((_, run)) = waiting.min() {
            self.mark_answered(run);
        }
        place
    }

    fn run_start(&self, id: &CallId<'_>) -> Option<usize> {
        let start = self.calls.partition_point(|(known, _)| known < id);
        self.calls.get(start).filter(|(known, _)| known == id)?;
        Some(start)
    }

    fn first_in_run(&self, run: usize) -> Option<usize> {
        self.calls.get(run).map(|(_, at)| *at)
    }

    fn first_open_in_run(&self, run: usize) -> Option<usize> {
        let (id, at) = self.calls.get(run + self.answered.get(run)?)?;
        (self.calls.get(run)?.0 == *id).then_some(*at)
    }

    /// Marks the call that [`Self::first_open_in_run`] returns as answered.
    fn mark_answered(&mut self, run: usize) {
        if let Some(answered) = self.answered.get_mut(run) {
            *answered += 1;
            self.unanswered -= 1;
        }
    }
}
