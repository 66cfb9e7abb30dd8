//! Clearing of old tool results, applied at each request point of the history.
//!
//! The proxy sees the whole history with every request. Applying the rule only to the newest
//! request would move the cut at nearly every call and break the provider's prompt cache each time.
//! So the rule is applied in order at every point at which the history once was a request. The cut
//! advances only when the rule fires. Cleared results stay cleared, a longer history only adds to
//! them, and no memory is needed.

use crate::conversation::Conversation;
use crate::pruning::placeholder::Placeholder;
use crate::pruning::tool_result::{CallClip, ClearDecision, ToolResult, list_results};
use crate::recall::RecallLink;
use crate::units::tokens::Tokens;
use std::ops::Range;
use std::sync::Arc;

/// The clearing rule's numbers and exceptions. Decisions depend on these and the history alone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PruneRule {
    /// Newest results up to this sum of tokens are not cleared.
    pub protect: Tokens,
    /// Results are cleared only if clearing frees more tokens than this.
    pub minimum: Tokens,
    /// User messages needed before anything is cleared.
    pub user_turns: u32,
    /// Tools whose results are never cleared.
    pub exempt_tools: Vec<String>,
    /// Keeps results that report a failure: agents learn from them.
    pub keep_errors: bool,
    /// Results that stay for what they say. `None` under `standard`, whose rule is literal.
    pub kept_words: Option<KeptWords>,
    /// Whether overlong contents in the call of a cleared result are clipped.
    pub clips_calls: bool,
    /// Kind of placeholder that replaces a cleared result.
    pub placeholder: Placeholder,
    /// Link of the last line of each placeholder, if cleared results can be recalled.
    pub recall: Option<Arc<RecallLink>>,
}

/// Results that the rule never clears: those in which the user speaks, and rules that the agent loaded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeptWords {
    /// Files of rules and skills stay up to this sum, the oldest first.
    pub instructions: Tokens,
    /// Names of files of rules, in addition to the usual ones.
    pub rule_files: Vec<String>,
}

/// Tool results of a conversation and the progress of clearing them.
///
/// Invariants: the rule has decided on all results before `cleared_end`. If there are results, `sums[k]` is
/// the original size of the first `k`, and `frees_sums[k]` what clearing frees of them. `text_sums[k]` is the part
/// of the latter that is text of results.
#[derive(Debug, Default)]
pub struct PruneState {
    results: Vec<ToolResult>,
    sums: Vec<Tokens>,
    frees_sums: Vec<Tokens>,
    text_sums: Vec<Tokens>,
    ingested: usize,
    cleared_end: usize,
    clearable_end: usize,
    /// The results before this index are in replaced history; clearing them frees nothing.
    replaced_end: usize,
    /// Number of results that were cleared and then restored because a later result refers to them.
    /// Used only by tests, which compare it with the oracle's count.
    pub restored: usize,
}

/// Results that count as cleared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Clearing {
    /// Those that were cleared so far.
    Past,
    /// Those that a clearing up to the limit would have cleared.
    UpToLimit,
}

impl PruneState {
    /// Creates the state before the first message. Without a rule, nothing is ever cleared.
    pub fn new(conversation: &Conversation<'_>, rule: Option<&PruneRule>) -> Self {
        let Some(rule) = rule else {
            return Self::default();
        };
        let results = list_results(conversation, rule);
        Self {
            sums: Tokens::prefix_sums(results.iter().map(|result| result.tokens)),
            frees_sums: Tokens::prefix_sums(results.iter().map(|result| result.frees)),
            text_sums: Tokens::prefix_sums(results.iter().map(|it| it.frees - it.non_text)),
            results,
            ..Self::default()
        }
    }

    /// Returns all results with their decisions.
    pub fn results(&self) -> &[ToolResult] {
        &self.results
    }

    /// Returns the cleared results.
    pub fn cleared(&self) -> impl Iterator<Item = &ToolResult> {
        self.results.iter().filter(|result| result.decision == ClearDecision::Cleared)
    }

    /// Returns the calls whose arguments are clipped, each with the message of its result.
    pub(crate) fn clipped_calls(&self) -> impl Iterator<Item = (usize, CallClip)> {
        let decided = self.cleared_by(Clearing::Past).iter();
        decided.filter_map(|result| Some((result.message, result.clip?)))
    }

    /// Returns the messages in which a client shows pictures of results that were passed.
    pub(crate) fn left_pictures(&self) -> impl Iterator<Item = usize> {
        let decided = self.cleared_by(Clearing::Past).iter();
        decided.filter(|it| it.pictures > Tokens::ZERO).map(|it| it.message + 1)
    }

    /// Returns the original size of all results.
    pub(crate) fn total_tokens(&self) -> Tokens {
        self.sums.last().copied().unwrap_or_default()
    }

    pub(crate) fn is_cleared(&self, message: usize) -> bool {
        let at = self.results.binary_search_by_key(&message, |it| it.message);
        let result = at.ok().and_then(|at| self.results.get(at));
        result.is_some_and(|result| result.decision == ClearDecision::Cleared)
    }

    /// Whether the result at `message` is still present and would be cleared with all results up to
    /// the limit.
    pub(crate) fn is_clearable(&self, message: usize) -> bool {
        let at = self.results.binary_search_by_key(&message, |it| it.message);
        let at = at.ok().filter(|at| self.waiting().contains(at));
        let result = at.and_then(|at| self.results.get(at));
        result.is_some_and(|result| result.frees > Tokens::ZERO)
    }

    /// Returns the tokens that clearing frees of results that were cleared so far, without those in replaced
    /// history.
    pub(crate) fn freed(&self) -> Tokens {
        self.frees_of(self.replaced_end..self.cleared_end)
    }

    /// Tokens that clearing up to the limit would free, without results in replaced history.
    pub(crate) fn clearable_tokens(&self) -> Tokens {
        self.frees_of(self.waiting())
    }

    /// Returns the results that clearing up to the limit would clear, without those in replaced history.
    fn waiting(&self) -> Range<usize> {
        self.cleared_end.max(self.replaced_end)..self.clearable_end
    }

    /// Returns what clearing frees of the results with these numbers.
    fn frees_of(&self, results: Range<usize>) -> Tokens {
        Tokens::sum_of(&self.frees_sums, results)
    }

    /// Returns the results that are cleared, or would be by clearing up to the limit.
    fn cleared_by(&self, clearing: Clearing) -> &[ToolResult] {
        let end = match clearing {
            Clearing::Past => self.cleared_end,
            Clearing::UpToLimit => self.clearable_end,
        };
        self.results.get(..end).unwrap_or_default()
    }

    pub(crate) fn frees_in(&self, clearing: Clearing, messages: Range<usize>) -> Tokens {
        let results = self.cleared_by(clearing);
        let before = |message| results.partition_point(|result| result.message < message);
        self.frees_of(before(messages.start)..before(messages.end))
    }

    /// Returns the tokens that clearing would free if only the newest `protect` tokens of the results so far
    /// stayed, without results in replaced history.
    pub(crate) fn clearable_beyond(&self, protect: Tokens) -> Tokens {
        let sums = self.sums.get(..=self.ingested);
        let total = self.sums.get(self.ingested).copied().unwrap_or_default();
        let end = sums.map_or(0, |sums| sums.partition_point(|&before| total - before > protect));
        self.frees_of(self.cleared_end.max(self.replaced_end)..end)
    }

    /// Returns the first message that clearing up to the limit would change.
    pub(crate) fn first_clearable(&self) -> Option<usize> {
        let mut waiting = self.results.get(self.waiting())?.iter();
        let first = waiting.find(|result| result.frees > Tokens::ZERO);
        first.map(|result| result.clip.map_or(result.message, |clip| clip.message))
    }

    /// Text tokens that clearing up to the limit would free. The rule's numbers count text of results only, so that
    /// kept and freed sizes stay in proportion however many images and arguments there are.
    pub fn clearable_text_tokens(&self) -> Tokens {
        Tokens::sum_of(&self.text_sums, self.cleared_end..self.clearable_end)
    }

    /// Whether the rule would fire now, at the current limit.
    pub(crate) fn would_fire(&self, rule: &PruneRule, user_turns: u32) -> bool {
        user_turns >= rule.user_turns && self.clearable_text_tokens() > rule.minimum
    }

    /// Marks all messages before `message` as replaced.
    pub(crate) fn mark_summarised(&mut self, message: usize) {
        self.replaced_end = self.replaced_end.max(self.results_before(message));
    }

    /// Clears the results before `message`, as a record did.
    pub(crate) fn clear_before(&mut self, message: usize) {
        let upto = self.results_before(message);
        self.clearable_end = self.clearable_end.max(upto);
        self.clear_up_to(upto);
    }

    fn results_before(&self, message: usize) -> usize {
        self.results.partition_point(|result| result.message < message)
    }

    /// Returns the message before which all results have been decided on.
    pub fn cleared_before(&self) -> usize {
        self.cleared_end
            .checked_sub(1)
            .and_then(|last| self.results.get(last))
            .map_or(0, |r| r.message + 1)
    }

    /// Adds the results among the first `messages` messages, and pins the results that they refer
    /// to.
    pub(crate) fn ingest_until(&mut self, messages: usize) {
        while let Some(next) = self.results.get(self.ingested).filter(|r| r.message < messages) {
            if let Some(pinned) = next.points_at {
                self.pin(pinned);
            }
            self.ingested += 1;
        }
    }

    /// Extends the clearable results up to the newest `protect` tokens, never into the newest
    /// batch.
    pub(crate) fn extend_clearable(&mut self, protect: Tokens) {
        let newest = self.ingested.checked_sub(1).and_then(|last| self.results.get(last));
        let Some(newest) = newest.map(|last| last.batch_first) else {
            return;
        };
        let total = self.sums.get(self.ingested).copied().unwrap_or_default();
        // The result whose size takes the sum from the newest past `protect` is clearable too.
        while self.clearable_end < newest
            && self.sums.get(self.clearable_end).is_some_and(|&before| total - before > protect)
        {
            self.clearable_end += 1;
        }
    }

    pub(crate) fn clear_all_clearable(&mut self) {
        self.clear_up_to(self.clearable_end);
    }

    fn clear_up_to(&mut self, upto: usize) {
        for result in self.results.get_mut(self.cleared_end..upto).unwrap_or_default() {
            // A result may be too short for a placeholder, and its call overlong.
            if result.own_frees() > Tokens::ZERO {
                result.decision = ClearDecision::Cleared;
            }
        }
        self.cleared_end = self.cleared_end.max(upto);
    }

    /// Records why each retained result was kept (for `longhaul explain`).
    pub(crate) fn assign_retention_reasons(&mut self, rule: &PruneRule, user_turns: u32) {
        let waits = if user_turns < rule.user_turns {
            ClearDecision::TooFewTurns
        } else {
            ClearDecision::BelowMinimum
        };
        let newest = self.results.last().map_or(0, |last| last.batch_first);
        for (at, result) in self.results.iter_mut().enumerate() {
            if result.decision == ClearDecision::Protected {
                if at >= newest {
                    result.decision = ClearDecision::NewestBatch;
                } else if at >= self.cleared_end && at < self.clearable_end {
                    result.decision = waits;
                }
            }
        }
    }

    /// Keeps a result for good, and restores it if it was cleared.
    fn pin(&mut self, at: usize) {
        let Some(result) = self.results.get_mut(at) else {
            return;
        };
        let (frees, text) = (result.frees, result.frees - result.non_text);
        self.restored += usize::from(result.decision == ClearDecision::Cleared);
        (result.frees, result.non_text, result.clip) = (Tokens::ZERO, Tokens::ZERO, None);
        result.pictures = Tokens::ZERO;
        for (sums, less) in [(&mut self.frees_sums, frees), (&mut self.text_sums, text)] {
            sums.iter_mut().skip(at + 1).for_each(|sum| *sum -= less);
        }
        if matches!(result.decision, ClearDecision::Cleared | ClearDecision::Protected) {
            result.decision = ClearDecision::Pinned;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
