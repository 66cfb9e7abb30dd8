//! Clearing old tool results: the rule, replayed as a fold over the history's request points.
//!
//! A proxy sees the whole history each time. Asking the rule afresh each time would move the cut at
//! nearly every call and break the provider's prompt cache with it. So it is asked at every point
//! at which the history once was a request, in order, and the cut advances only where it fires:
//! what was cleared stays cleared, a longer history only adds, and no memory is needed.

use super::arguments::ToolArguments;
use super::conversation::{Batch, Content, Conversation, Message};
use super::placeholder::{self, Placeholder, PlaceholderText};
use super::tokens::Tokens;
use super::wording;
use std::collections::HashMap;

/// The rule's numbers and exceptions: functions of the history alone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PruneRule {
    /// The newest results up to so many tokens in sum are not cleared.
    pub protect: Tokens,
    /// Results are cleared only if that frees more than this.
    pub minimum: Tokens,
    /// And not before there are so many user messages.
    pub user_turns: u32,
    /// Tools whose results are never cleared.
    pub exempt_tools: Vec<String>,
    /// Keep results that report a failure: agents learn from them.
    pub keep_errors: bool,
    /// What stands in place of a cleared result.
    pub placeholder: Placeholder,
}

/// What becomes of a tool result, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// Its content is replaced.
    Cleared,
    /// Nothing in it.
    Empty,
    /// Reports a failure, and those are kept.
    Error,
    /// Of a tool that is never cleared.
    Exempt,
    /// Old enough, but what would be freed is not yet worth a change.
    BelowMinimum,
    /// Of the newest batch.
    NewestBatch,
    /// A later result points at it, or it points at an earlier one.
    Pinned,
    /// A placeholder already.
    Placeholder,
    /// Among the newest tokens.
    Protected,
    /// A placeholder would not shorten it.
    NotShorter,
    /// Old enough, but there are too few user messages.
    TooFewTurns,
}

/// One tool result, as the fold sees it.
#[derive(Clone, Debug)]
pub struct ToolResult {
    /// Where it stands among the messages.
    pub message: usize,
    /// Its raw size.
    pub tokens: Tokens,
    /// What becomes of it.
    pub fate: Fate,
    /// What clearing it frees.
    pub frees: Tokens,
    /// Of that, what is no text: its pictures above all.
    non_text: Tokens,
    /// What would stand for it.
    pub placeholder: PlaceholderText,
    /// The earlier result that it points at.
    points_at: Option<usize>,
    /// The first result of its batch.
    batch_first: usize,
}

/// The tool results of a conversation and how far they are cleared.
///
/// Invariant: results before `cut` have had their fate decided by the rule firing; `sums[k]` is the
/// raw size of the first `k`.
#[derive(Debug)]
pub struct PruneState {
    results: Vec<ToolResult>,
    sums: Vec<Tokens>,
    ingested: usize,
    cleared_end: usize,
    clearable_end: usize,
    clearable: Tokens,
    /// Of what waits, what is no text. The rule's numbers are of text: what is kept and what is freed
    /// are then in proportion, however many pictures come with it.
    clearable_non_text: Tokens,
    /// Of what waits, what stands behind a summary.
    clearable_summarised: Tokens,
    freed: Tokens,
    /// Results of messages before this one stand behind a summary: they free nothing.
    summarised_until: usize,
    /// Results that were cleared and then restored, because a later one points at them. It decides
    /// nothing: tests hold it to the oracle's count.
    pub restored: usize,
}

impl PruneState {
    /// A fold that stands before the first message; without a rule it never clears anything.
    pub fn new(conversation: &Conversation<'_>, rule: Option<&PruneRule>) -> Self {
        let results = rule
            .map(|rule| list_results(conversation, rule))
            .unwrap_or_default();
        let mut sum = Tokens::ZERO;
        let mut sums = vec![sum];
        sums.extend(results.iter().map(|result| {
            sum += result.tokens;
            sum
        }));
        Self {
            results,
            sums,
            ingested: 0,
            cleared_end: 0,
            clearable_end: 0,
            clearable: Tokens::ZERO,
            clearable_non_text: Tokens::ZERO,
            clearable_summarised: Tokens::ZERO,
            freed: Tokens::ZERO,
            summarised_until: 0,
            restored: 0,
        }
    }

    /// All results, with their fates.
    pub fn results(&self) -> &[ToolResult] {
        &self.results
    }

    /// Those that are cleared.
    pub fn cleared(&self) -> impl Iterator<Item = &ToolResult> {
        self.results
            .iter()
            .filter(|result| result.fate == Fate::Cleared)
    }

    /// The raw size of all results.
    pub(super) fn total_tokens(&self) -> Tokens {
        self.sums.last().copied().unwrap_or_default()
    }

    /// Whether the result at `message` is cleared.
    pub(super) fn is_cleared(&self, message: usize) -> bool {
        let at = self.results.binary_search_by_key(&message, |it| it.message);
        let result = at.ok().and_then(|at| self.results.get(at));
        result.is_some_and(|result| result.fate == Fate::Cleared)
    }

    /// Whether the result at `message` would be cleared with those up to the limit, and still stands.
    pub(super) fn is_clearable(&self, message: usize) -> bool {
        let at = self.results.binary_search_by_key(&message, |it| it.message);
        let waiting = at
            .ok()
            .filter(|at| (self.cleared_end..self.clearable_end).contains(at));
        let result = waiting.and_then(|at| self.results.get(at));
        result.is_some_and(|result| {
            result.frees > Tokens::ZERO && result.message >= self.summarised_until
        })
    }

    /// What clearing has freed, of what still stands.
    pub fn freed_tokens(&self) -> Tokens {
        self.freed
    }

    /// What clearing up to the limit would free, of what still stands.
    pub fn clearable_tokens(&self) -> Tokens {
        self.clearable - self.clearable_summarised
    }

    /// Of what clearing up to the limit would free, the text: what the rule's minimum counts.
    pub fn clearable_text_tokens(&self) -> Tokens {
        self.clearable - self.clearable_non_text
    }

    /// What asking the rule would find now, its limit where it has been moved to.
    pub fn would_fire(&self, rule: &PruneRule, user_turns: u32) -> bool {
        user_turns >= rule.user_turns && self.clearable_text_tokens() > rule.minimum
    }

    /// A summary stands for all messages before this one from here on.
    pub fn mark_summarised(&mut self, message: usize) {
        let before = |end| self.results.partition_point(|result| result.message < end);
        for at in before(self.summarised_until)..before(message) {
            let Some(result) = self.results.get(at) else {
                break;
            };
            if result.fate == Fate::Cleared {
                self.freed -= result.frees;
            }
            if (self.cleared_end..self.clearable_end).contains(&at) {
                self.clearable_summarised += result.frees;
            }
        }
        self.summarised_until = self.summarised_until.max(message);
    }

    /// Clears the results before `message`, as a record says was done.
    pub fn clear_before(&mut self, message: usize) {
        let upto = self
            .results
            .partition_point(|result| result.message < message);
        while self.clearable_end < upto {
            self.extend_clearable_by_one();
        }
        if upto > self.cleared_end {
            self.clear_up_to(upto);
        }
    }

    /// The message before which all results have been decided on.
    pub fn cleared_before(&self) -> usize {
        self.cleared_end
            .checked_sub(1)
            .and_then(|last| self.results.get(last))
            .map_or(0, |r| r.message + 1)
    }

    /// Takes in the results among the first `messages` messages, and the pins that they bring.
    pub fn ingest_until(&mut self, messages: usize) {
        while let Some(next) = self
            .results
            .get(self.ingested)
            .filter(|r| r.message < messages)
        {
            if let Some(pinned) = next.points_at {
                self.pin(pinned);
            }
            self.ingested += 1;
        }
    }

    /// Moves the limit of what may be cleared: past `protect` tokens, before the newest batch.
    pub fn extend_clearable(&mut self, protect: Tokens) {
        let newest = self
            .ingested
            .checked_sub(1)
            .and_then(|last| self.results.get(last));
        let Some(newest) = newest.map(|last| last.batch_first) else {
            return;
        };
        let total = self.sums.get(self.ingested).copied().unwrap_or_default();
        // The result at which the sum from the newest exceeds `protect` is a candidate itself.
        while self.clearable_end < newest
            && self
                .sums
                .get(self.clearable_end)
                .is_some_and(|&before| total - before > protect)
        {
            self.extend_clearable_by_one();
        }
    }

    /// One more result may be cleared.
    fn extend_clearable_by_one(&mut self) {
        if let Some(result) = self.results.get(self.clearable_end) {
            self.clearable += result.frees;
            self.clearable_non_text += result.non_text;
            if result.message < self.summarised_until {
                self.clearable_summarised += result.frees;
            }
        }
        self.clearable_end += 1;
    }

    /// Clears all that may be cleared.
    pub fn clear_all_clearable(&mut self) {
        self.clear_up_to(self.clearable_end);
    }

    fn clear_up_to(&mut self, upto: usize) {
        for result in self
            .results
            .get_mut(self.cleared_end..upto)
            .unwrap_or_default()
        {
            if result.frees > Tokens::ZERO {
                self.clearable -= result.frees;
                self.clearable_non_text -= result.non_text;
                result.fate = Fate::Cleared;
                if result.message >= self.summarised_until {
                    self.freed += result.frees;
                } else {
                    self.clearable_summarised -= result.frees;
                }
            }
        }
        self.cleared_end = self.cleared_end.max(upto);
    }

    /// Says of each result that stays why it does.
    pub fn assign_retention_reasons(&mut self, rule: &PruneRule, user_turns: u32) {
        let waits = if user_turns < rule.user_turns {
            Fate::TooFewTurns
        } else {
            Fate::BelowMinimum
        };
        let newest = self.results.last().map_or(0, |last| last.batch_first);
        for (at, result) in self.results.iter_mut().enumerate() {
            if result.fate == Fate::Protected {
                if at >= newest {
                    result.fate = Fate::NewestBatch;
                } else if at >= self.cleared_end && at < self.clearable_end {
                    result.fate = waits;
                }
            }
        }
    }

    /// Keeps a result for good, and restores it if it was cleared.
    fn pin(&mut self, at: usize) {
        let Some(result) = self.results.get_mut(at) else {
            return;
        };
        let (frees, beside) = (result.frees, result.non_text);
        if (self.cleared_end..self.clearable_end).contains(&at) {
            self.clearable -= frees;
            self.clearable_non_text -= beside;
            if result.message < self.summarised_until {
                self.clearable_summarised -= frees;
            }
        }
        if result.fate == Fate::Cleared {
            if result.message >= self.summarised_until {
                self.freed -= frees;
            }
            self.restored += 1;
        }
        (result.frees, result.non_text) = (Tokens::ZERO, Tokens::ZERO);
        if matches!(result.fate, Fate::Cleared | Fate::Protected) {
            result.fate = Fate::Pinned;
        }
    }
}

/// Lists a conversation's tool results, each with what clearing it would free.
fn list_results(conversation: &Conversation<'_>, rule: &PruneRule) -> Vec<ToolResult> {
    let sizes = conversation.batches().iter().map(|it| it.results.len());
    let mut results: Vec<ToolResult> = Vec::with_capacity(sizes.sum());
    let mut reads = LatestReads::new(conversation);
    for batch in conversation.batches() {
        let batch_first = results.len();
        for message in batch.results.clone() {
            let points_at = reads.observe(conversation, batch, message, results.len());
            let mut result = evaluate_result(conversation, batch, message, rule);
            result.points_at = points_at;
            result.batch_first = batch_first;
            // Without it nobody would see, in what we forward, what the earlier read is kept for.
            if points_at.is_some() && result.fate == Fate::Protected {
                result.fate = Fate::Pinned;
                (result.frees, result.non_text) = (Tokens::ZERO, Tokens::ZERO);
            }
            results.push(result);
        }
    }
    results
}

/// What clearing one result would free, or why it is never cleared.
fn evaluate_result(
    conversation: &Conversation<'_>,
    batch: &Batch,
    at: usize,
    rule: &PruneRule,
) -> ToolResult {
    let mut result = ToolResult {
        message: at,
        tokens: Tokens::ZERO,
        fate: Fate::Empty,
        frees: Tokens::ZERO,
        non_text: Tokens::ZERO,
        placeholder: PlaceholderText::default(),
        points_at: None,
        batch_first: 0,
    };
    let Some(message) = conversation.message(at) else {
        return result;
    };
    result.tokens = message.text_tokens;
    if matches!(message.content, Content::Absent | Content::Null) {
        return result;
    }
    let call = conversation.call_for_result(batch, at);
    let tool = call.and_then(|call| call.name).or(message.name);
    let tool = tool
        .map(|name| name.decode(conversation.body()))
        .unwrap_or_default();
    result.placeholder = rule
        .placeholder
        .text_for(conversation, call, &tool, message.text_tokens);
    let gain = result.tokens - result.placeholder.max_tokens();
    result.fate = if result.tokens == Tokens::ZERO && conversation.text(message).is_empty() {
        Fate::Empty
    } else if rule.exempt_tools.iter().any(|exempt| *exempt == tool) {
        Fate::Exempt
    } else if placeholder::is_placeholder(conversation, message) {
        Fate::Placeholder
    } else if gain == Tokens::ZERO || !result.placeholder.shortens(conversation, message) {
        Fate::NotShorter
    } else if rule.keep_errors && wording::reports_failure(&conversation.text(message)) {
        Fate::Error
    } else {
        let parts = conversation.parts(message).iter();
        result.non_text = parts.map(|part| part.tokens).sum();
        result.frees = gain + result.non_text;
        Fate::Protected
    };
    result
}

/// The latest full read of each thing, kept only where some result points at an earlier one.
struct LatestReads {
    pointers: Vec<usize>,
    latest: HashMap<(String, String), usize>,
}

impl LatestReads {
    fn new(conversation: &Conversation<'_>) -> Self {
        let results = conversation
            .batches()
            .iter()
            .flat_map(|batch| batch.results.clone());
        let pointers = results.filter(|&at| is_pointer(conversation, at)).collect();
        Self {
            pointers,
            latest: HashMap::new(),
        }
    }

    /// Takes in the result at message `at`, number `index` of all; says which one it points at.
    fn observe(
        &mut self,
        conversation: &Conversation<'_>,
        batch: &Batch,
        at: usize,
        index: usize,
    ) -> Option<usize> {
        if self.pointers.is_empty() {
            return None;
        }
        let call = conversation.call_for_result(batch, at)?;
        let tool = call.name?.decode(conversation.body()).into_owned();
        let arguments = ToolArguments::decode(conversation, call);
        let thing = arguments.primary()?.to_owned();
        if self.pointers.binary_search(&at).is_ok() {
            return self.latest.get(&(tool, thing)).copied();
        }
        self.latest.insert((tool, thing), index);
        None
    }
}

/// Whether a result only points at an earlier one, from its notes if that was asked before.
fn is_pointer(conversation: &Conversation<'_>, at: usize) -> bool {
    conversation.message(at).is_some_and(|message| {
        let look = || points_at_earlier_read(conversation, message);
        let notes = message.memo();
        notes.map_or_else(look, |notes| *notes.is_reference.get_or_init(look))
    })
}

fn points_at_earlier_read(conversation: &Conversation<'_>, message: &Message) -> bool {
    let may = match message.content {
        Content::Absent | Content::Null => false,
        Content::Parts(_) => true,
        Content::Text(text) => wording::may_point_at_earlier_read(message.text_tokens, || {
            text.raw(conversation.body())
        }),
    };
    may && wording::points_at_earlier_read(message.text_tokens, || conversation.text(message))
}

#[cfg(test)]
pub(super) mod tests;
