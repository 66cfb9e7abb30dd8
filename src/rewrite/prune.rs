//! Clearing old tool results: the rule, replayed as a fold over the history's request points.
//!
//! A proxy sees the whole history each time. Asking the rule afresh each time would move the cut at
//! nearly every call and break the provider's prompt cache with it. So it is asked at every point
//! at which the history once was a request, in order, and the cut advances only where it fires:
//! what was cleared stays cleared, a longer history only adds, and no memory is needed.

use super::arguments::Arguments;
use super::conversation::{Batch, Content, Conversation, Message};
use super::placeholder::{self, Placeholder, StandIn};
use super::tokens::Tokens;
use super::wording;
use std::collections::HashMap;

/// The rule's numbers and exceptions: functions of the history alone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
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
    Few,
    /// Of the newest batch.
    Newest,
    /// A later result points at it, or it points at an earlier one.
    Pinned,
    /// A placeholder already.
    Placeholder,
    /// Among the newest tokens.
    Protected,
    /// A placeholder would not shorten it.
    Short,
    /// Old enough, but there are too few user messages.
    Turns,
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
    beside: Tokens,
    /// What would stand for it.
    pub placeholder: StandIn,
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
pub struct Fold {
    results: Vec<ToolResult>,
    sums: Vec<Tokens>,
    arrived: usize,
    cut: usize,
    limit: usize,
    waiting: Tokens,
    /// Of what waits, what is no text. The rule's numbers are of text: what is kept and what is freed
    /// are then in proportion, however many pictures come with it.
    beside: Tokens,
    /// Of what waits, what stands behind a summary.
    hidden: Tokens,
    freed: Tokens,
    /// Results of messages before this one stand behind a summary: they free nothing.
    visible_from: usize,
    /// Results that were cleared and then restored, because a later one points at them. It decides
    /// nothing: tests hold it to the oracle's count.
    pub restored: usize,
}

impl Fold {
    /// A fold that stands before the first message; without a rule it never clears anything.
    pub fn new(conversation: &Conversation<'_>, rule: Option<&Rule>) -> Self {
        let results = rule
            .map(|rule| list(conversation, rule))
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
            arrived: 0,
            cut: 0,
            limit: 0,
            waiting: Tokens::ZERO,
            beside: Tokens::ZERO,
            hidden: Tokens::ZERO,
            freed: Tokens::ZERO,
            visible_from: 0,
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
    pub(super) fn tokens(&self) -> Tokens {
        self.sums.last().copied().unwrap_or_default()
    }

    /// Whether the result at `message` is cleared.
    pub(super) fn clears(&self, message: usize) -> bool {
        let at = self.results.binary_search_by_key(&message, |it| it.message);
        let result = at.ok().and_then(|at| self.results.get(at));
        result.is_some_and(|result| result.fate == Fate::Cleared)
    }

    /// Whether the result at `message` would be cleared with those up to the limit, and still stands.
    pub(super) fn waits(&self, message: usize) -> bool {
        let at = self.results.binary_search_by_key(&message, |it| it.message);
        let waiting = at.ok().filter(|at| (self.cut..self.limit).contains(at));
        let result = waiting.and_then(|at| self.results.get(at));
        result.is_some_and(|result| {
            result.frees > Tokens::ZERO && result.message >= self.visible_from
        })
    }

    /// What clearing has freed, of what still stands.
    pub fn freed(&self) -> Tokens {
        self.freed
    }

    /// What clearing up to the limit would free, of what still stands.
    pub fn waiting(&self) -> Tokens {
        self.waiting - self.hidden
    }

    /// Of what clearing up to the limit would free, the text: what the rule's minimum counts.
    pub fn waiting_text(&self) -> Tokens {
        self.waiting - self.beside
    }

    /// What asking the rule would find now, its limit where it has been moved to.
    pub fn would_fire(&self, rule: &Rule, user_turns: u32) -> bool {
        user_turns >= rule.user_turns && self.waiting_text() > rule.minimum
    }

    /// A summary stands for all messages before this one from here on.
    pub fn hide_before(&mut self, message: usize) {
        let before = |end| self.results.partition_point(|result| result.message < end);
        for at in before(self.visible_from)..before(message) {
            let Some(result) = self.results.get(at) else {
                break;
            };
            if result.fate == Fate::Cleared {
                self.freed -= result.frees;
            }
            if (self.cut..self.limit).contains(&at) {
                self.hidden += result.frees;
            }
        }
        self.visible_from = self.visible_from.max(message);
    }

    /// Clears the results before `message`, as a record says was done.
    pub fn clear_before(&mut self, message: usize) {
        let upto = self
            .results
            .partition_point(|result| result.message < message);
        while self.limit < upto {
            self.extend_limit();
        }
        if upto > self.cut {
            self.clear_up_to(upto);
        }
    }

    /// The message before which all results have been decided on.
    pub fn cleared_before(&self) -> usize {
        self.cut
            .checked_sub(1)
            .and_then(|last| self.results.get(last))
            .map_or(0, |r| r.message + 1)
    }

    /// Takes in the results among the first `messages` messages, and the pins that they bring.
    pub fn arrive(&mut self, messages: usize) {
        while let Some(next) = self
            .results
            .get(self.arrived)
            .filter(|r| r.message < messages)
        {
            if let Some(pinned) = next.points_at {
                self.pin(pinned);
            }
            self.arrived += 1;
        }
    }

    /// Moves the limit of what may be cleared: past `protect` tokens, before the newest batch.
    pub fn reach(&mut self, protect: Tokens) {
        let newest = self
            .arrived
            .checked_sub(1)
            .and_then(|last| self.results.get(last));
        let Some(newest) = newest.map(|last| last.batch_first) else {
            return;
        };
        let total = self.sums.get(self.arrived).copied().unwrap_or_default();
        // The result at which the sum from the newest exceeds `protect` is a candidate itself.
        while self.limit < newest
            && self
                .sums
                .get(self.limit)
                .is_some_and(|&before| total - before > protect)
        {
            self.extend_limit();
        }
    }

    /// One more result may be cleared.
    fn extend_limit(&mut self) {
        if let Some(result) = self.results.get(self.limit) {
            self.waiting += result.frees;
            self.beside += result.beside;
            if result.message < self.visible_from {
                self.hidden += result.frees;
            }
        }
        self.limit += 1;
    }

    /// Clears all that may be cleared.
    pub fn advance(&mut self) {
        self.clear_up_to(self.limit);
    }

    fn clear_up_to(&mut self, upto: usize) {
        for result in self.results.get_mut(self.cut..upto).unwrap_or_default() {
            if result.frees > Tokens::ZERO {
                self.waiting -= result.frees;
                self.beside -= result.beside;
                result.fate = Fate::Cleared;
                if result.message >= self.visible_from {
                    self.freed += result.frees;
                } else {
                    self.hidden -= result.frees;
                }
            }
        }
        self.cut = self.cut.max(upto);
    }

    /// Says of each result that stays why it does.
    pub fn explain(&mut self, rule: &Rule, user_turns: u32) {
        let waits = if user_turns < rule.user_turns {
            Fate::Turns
        } else {
            Fate::Few
        };
        let newest = self.results.last().map_or(0, |last| last.batch_first);
        for (at, result) in self.results.iter_mut().enumerate() {
            if result.fate == Fate::Protected {
                if at >= newest {
                    result.fate = Fate::Newest;
                } else if at >= self.cut && at < self.limit {
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
        let (frees, beside) = (result.frees, result.beside);
        if (self.cut..self.limit).contains(&at) {
            self.waiting -= frees;
            self.beside -= beside;
            if result.message < self.visible_from {
                self.hidden -= frees;
            }
        }
        if result.fate == Fate::Cleared {
            if result.message >= self.visible_from {
                self.freed -= frees;
            }
            self.restored += 1;
        }
        (result.frees, result.beside) = (Tokens::ZERO, Tokens::ZERO);
        if matches!(result.fate, Fate::Cleared | Fate::Protected) {
            result.fate = Fate::Pinned;
        }
    }
}

/// Lists a conversation's tool results, each with what clearing it would free.
fn list(conversation: &Conversation<'_>, rule: &Rule) -> Vec<ToolResult> {
    let sizes = conversation.batches().iter().map(|it| it.results.len());
    let mut results: Vec<ToolResult> = Vec::with_capacity(sizes.sum());
    let mut reads = Reads::of(conversation);
    for batch in conversation.batches() {
        let batch_first = results.len();
        for message in batch.results.clone() {
            let points_at = reads.note(conversation, batch, message, results.len());
            let mut result = weigh(conversation, batch, message, rule);
            result.points_at = points_at;
            result.batch_first = batch_first;
            // Without it nobody would see, in what we forward, what the earlier read is kept for.
            if points_at.is_some() && result.fate == Fate::Protected {
                result.fate = Fate::Pinned;
                (result.frees, result.beside) = (Tokens::ZERO, Tokens::ZERO);
            }
            results.push(result);
        }
    }
    results
}

/// What clearing one result would free, or why it is never cleared.
fn weigh(conversation: &Conversation<'_>, batch: &Batch, at: usize, rule: &Rule) -> ToolResult {
    let mut result = ToolResult {
        message: at,
        tokens: Tokens::ZERO,
        fate: Fate::Empty,
        frees: Tokens::ZERO,
        beside: Tokens::ZERO,
        placeholder: StandIn::default(),
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
    let call = conversation.call_of(batch, at);
    let tool = call.and_then(|call| call.name).or(message.name);
    let tool = tool
        .map(|name| name.decode(conversation.body()))
        .unwrap_or_default();
    result.placeholder = rule
        .placeholder
        .of(conversation, call, &tool, message.text_tokens);
    let gain = result.tokens - result.placeholder.tokens();
    result.fate = if result.tokens == Tokens::ZERO && conversation.text(message).is_empty() {
        Fate::Empty
    } else if rule.exempt_tools.iter().any(|exempt| *exempt == tool) {
        Fate::Exempt
    } else if placeholder::is_one(conversation, message) {
        Fate::Placeholder
    } else if gain == Tokens::ZERO || !result.placeholder.shortens(conversation, message) {
        Fate::Short
    } else if rule.keep_errors && wording::reports_failure(&conversation.text(message)) {
        Fate::Error
    } else {
        let parts = conversation.parts(message).iter();
        result.beside = parts.map(|part| part.tokens).sum();
        result.frees = gain + result.beside;
        Fate::Protected
    };
    result
}

/// The latest full read of each thing, kept only where some result points at an earlier one.
struct Reads {
    pointers: Vec<usize>,
    latest: HashMap<(String, String), usize>,
}

impl Reads {
    fn of(conversation: &Conversation<'_>) -> Self {
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
    fn note(
        &mut self,
        conversation: &Conversation<'_>,
        batch: &Batch,
        at: usize,
        index: usize,
    ) -> Option<usize> {
        if self.pointers.is_empty() {
            return None;
        }
        let call = conversation.call_of(batch, at)?;
        let tool = call.name?.decode(conversation.body()).into_owned();
        let arguments = Arguments::of(conversation, call);
        let thing = arguments.main()?.to_owned();
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
        let notes = message.notes();
        notes.map_or_else(look, |notes| *notes.points.get_or_init(look))
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
