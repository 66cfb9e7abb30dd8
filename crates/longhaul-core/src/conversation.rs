//! A parsed conversation: its messages as spans of the body, and the structure they form.
//!
//! This module names no dialect's keys; each [`Dialect`] fills in these types.

mod agent_summary;
mod batches;
mod bound_thinking;
pub(crate) mod cache_marks;
pub(crate) mod containers;
pub(crate) mod cut_rules;
pub mod images;
pub mod parse_cache;
mod request_params;
mod role;
pub(crate) mod rule_files;
mod runs;
pub mod tool_arguments;
pub mod tool_schemas;

use crate::conversation::containers::Container;
use crate::conversation::parse_cache::{CacheEntry, MessageMemo};
use crate::dialect::Dialect;
use crate::json::scanner::Literal;
use crate::json::span::Span;
use crate::units::tokens::Tokens;
pub use batches::Batch;
pub(super) use cut_rules::{CutRules, NeighbourLink};
pub use request_params::{HistoryKeeper, OutputLimit, PathParams, RequestParams};
pub use role::Role;
use runs::runs;
use std::borrow::Cow;
use std::ops::Range;

/// The content of a message.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Content {
    /// The key is missing, or its value is `null`.
    #[default]
    Absent,
    /// An array of parts; [`Conversation::parts`] returns the parts themselves.
    Parts(Span),
    /// A string.
    Text(Literal),
}

impl Content {
    /// Returns the span of the value, or `None` if it is missing or null.
    pub fn span(self) -> Option<Span> {
        match self {
            Self::Absent => None,
            Self::Parts(span) => Some(span),
            Self::Text(literal) => Some(literal.span()),
        }
    }

    /// Returns the number of characters of text: of the string, or of the text among `parts`, the
    /// message's parts.
    pub(super) fn text_chars(self, parts: &[ContentPart]) -> u32 {
        if let Self::Text(text) = self {
            return text.chars();
        }
        let texts = parts.iter().filter(|part| part.kind == PartKind::Text);
        let texts = texts.filter_map(|part| part.text);
        texts.map(Literal::chars).fold(0, u32::saturating_add)
    }
}

/// The kind of a part of a content array.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PartKind {
    /// Audio, by reference or inline.
    Audio,
    /// A document, by reference or inline.
    File,
    /// An image, by reference or inline.
    Image,
    /// Any other kind, including kinds that do not exist yet.
    Other,
    /// An inline image that only another image may replace.
    Screenshot,
    /// Text.
    Text,
    /// Signed or encrypted thinking of the model.
    Thinking,
    /// Video, by reference or inline.
    Video,
}

/// A part of a content array.
#[derive(Clone, Copy, Debug)]
pub struct ContentPart {
    /// The kind of content.
    pub kind: PartKind,
    /// The whole part.
    pub span: Span,
    /// The text, if the part has one.
    pub text: Option<Literal>,
    /// The value of the cache mark, if the part has one.
    pub cache_mark: Option<Span>,
    /// Plain estimate of the part; zero for text, which counts with its message.
    pub tokens: Tokens,
}

impl ContentPart {
    pub(super) fn from_text(text: Literal) -> Self {
        let (kind, tokens) = (PartKind::Text, Tokens::ZERO);
        Self { kind, span: text.span(), text: Some(text), cache_mark: None, tokens }
    }

    /// Creates a part without text that longhaul does not read.
    pub(super) fn opaque(span: Span, tokens: Tokens) -> Self {
        Self { kind: PartKind::Other, span, text: None, cache_mark: None, tokens }
    }
}

/// A tool call of an assistant message.
#[derive(Clone, Copy, Debug)]
pub struct ToolCall {
    /// The call id; `None` for a legacy `function_call`.
    pub id: Option<Literal>,
    /// The tool's name.
    pub name: Option<Literal>,
    /// The arguments, as the string literal or the object that holds them.
    pub arguments: Option<Literal>,
}

/// A message.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The whole object.
    pub span: Span,
    /// The author.
    pub role: Role,
    /// The value of `content`.
    pub content: Content,
    /// The id of the tool call that this message is the result of.
    pub tool_call_id: Option<Literal>,
    /// The value of `name`.
    pub name: Option<Literal>,
    /// Whether the message carries the model's own reasoning, signed or plain.
    pub has_reasoning: bool,
    /// Plain estimate of the thinking that the provider may bind to all bytes before it; `None` if
    /// the message has none. `Dialect::bound_thinking` finds that thinking.
    pub bound_thinking: Option<Tokens>,
    /// Whether the request states that this result is an error.
    pub is_error: bool,
    /// Whether the upstream needs the content as it is, so that nothing may replace it alone.
    pub is_fixed: bool,
    /// Tie between the message and its neighbours.
    pub(super) binding: NeighbourLink,
    /// Plain estimate of the text parts, joined.
    pub text_tokens: Tokens,
    /// Plain estimate of the whole message.
    pub tokens: Tokens,
    pub(super) parts: Range<usize>,
    pub(super) calls: Range<usize>,
    pub(super) cached: Option<CacheEntry>,
}

/// The messages of a body, their parts and their calls.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) messages: Vec<Message>,
    pub(crate) parts: Vec<ContentPart>,
    pub(crate) calls: Vec<ToolCall>,
    /// Objects that hold several messages, ascending. Empty if each message is an object of its own.
    pub(crate) containers: Vec<Container>,
    /// Values of cache marks, each with the index of its message, ascending. Empty if the dialect
    /// does not move marks.
    pub(crate) cache_marks: Vec<(usize, Span)>,
}

impl Pieces {
    /// Returns the number of messages, parts and calls together.
    pub(crate) fn len(&self) -> usize {
        self.messages.len() + self.parts.len() + self.calls.len()
    }

    pub(crate) fn parts_of(&self, message: &Message) -> &[ContentPart] {
        self.parts.get(message.parts.clone()).unwrap_or_default()
    }

    pub(crate) fn calls_of(&self, message: &Message) -> &[ToolCall] {
        self.calls.get(message.calls.clone()).unwrap_or_default()
    }
}

/// A parsed request body.
///
/// Invariant: the spans of the messages ascend and do not overlap.
#[derive(Debug)]
pub struct Conversation<'a> {
    dialect: Dialect,
    body: &'a str,
    params: RequestParams,
    pieces: Pieces,
    batches: Vec<Batch>,
    boundaries: Vec<usize>,
    has_bound_thinking: bool,
    /// Runs from the first message of a turn that carries reasoning to the end of the turn.
    reasoning_runs: Vec<Range<usize>>,
    /// Plain estimate of each prefix, by its number of messages.
    prefix_tokens: Vec<Tokens>,
    /// Runs from the first user message after an assistant message up to the next assistant message.
    unanswered_runs: Vec<Range<usize>>,
}

impl<'a> Conversation<'a> {
    /// Builds a conversation from the pieces that a dialect read. Finds batches, and boundaries where
    /// `rules` allow them.
    pub(super) fn new(
        dialect: Dialect,
        body: &'a str,
        params: RequestParams,
        pieces: Pieces,
        rules: &CutRules,
    ) -> Self {
        let is_user = |it: &Message| it.role.is_user();
        let mut read = Self {
            dialect,
            body,
            params,
            reasoning_runs: runs(&pieces.messages, |it| it.has_reasoning, is_user),
            unanswered_runs: runs(&pieces.messages, is_user, |it| it.role == Role::Assistant),
            has_bound_thinking: pieces.messages.iter().any(|it| it.bound_thinking.is_some()),
            prefix_tokens: Tokens::prefix_sums(pieces.messages.iter().map(|it| it.tokens)),
            pieces,
            batches: Vec::new(),
            boundaries: Vec::new(),
        };
        read.batches = read.find_batches();
        read.boundaries = read.find_boundaries(rules);
        read
    }

    /// Returns the dialect of the body.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the request body.
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// Returns the parameters other than the messages.
    pub fn params(&self) -> &RequestParams {
        &self.params
    }

    /// Adds what the path of the request states.
    pub(crate) fn with_path(mut self, path: PathParams) -> Self {
        self.params.streaming |= path.streams;
        self.params.path = Some(path);
        self
    }

    /// Returns the requested model; empty if the request names none.
    pub fn model(&self) -> Cow<'a, str> {
        let path = self.params.path.as_ref().filter(|path| !path.model.is_empty());
        if let Some(path) = path {
            return path.model.clone().into();
        }
        self.params.model.map_or(Cow::Borrowed(""), |model| model.decode(self.body))
    }

    /// Whether the provider keeps the history. The messages are then only its newest part, and every
    /// change to them would be stored.
    pub fn is_stateful(&self) -> bool {
        self.params.history == HistoryKeeper::Provider
    }

    /// Returns the requested output limit, if the request has one.
    pub fn output_tokens(&self) -> Option<Tokens> {
        self.params.output_limit.map(|output| output.tokens)
    }

    /// Whether the request grants at least `output` reasoning tokens. The provider refuses a
    /// request whose output limit does not exceed that budget.
    pub fn grants_reasoning_tokens(&self, output: Tokens) -> bool {
        let granted = self.params.reasoning_budget;
        granted > Tokens::ZERO && granted >= output
    }

    /// Returns the minimum output limit that the provider accepts and that leaves an answer: the dialect's
    /// minimum, and more than the granted reasoning.
    pub fn least_output(&self) -> Tokens {
        let beyond = self.params.reasoning_budget + Tokens::new(1);
        self.dialect.facts().min_output.max(beyond)
    }

    /// Returns all messages, in order.
    pub fn messages(&self) -> &[Message] {
        &self.pieces.messages
    }

    /// Returns the message at index `at`, if there is one.
    pub fn message(&self, at: usize) -> Option<&Message> {
        self.messages().get(at)
    }

    /// Returns the parts of a message's content array; empty if the content is a string.
    pub fn parts(&self, message: &Message) -> &[ContentPart] {
        self.pieces.parts_of(message)
    }

    /// Whether every part of every message is text or thinking.
    pub fn is_text_only(&self) -> bool {
        let is_text = |kind| matches!(kind, PartKind::Text | PartKind::Thinking);
        self.pieces.parts.iter().all(|part| is_text(part.kind))
    }

    /// Returns the tool calls of a message.
    pub fn calls(&self, message: &Message) -> &[ToolCall] {
        self.pieces.calls_of(message)
    }

    /// Returns the texts of a message: its string, or those of its text parts.
    pub(crate) fn texts(&self, message: &Message) -> impl Iterator<Item = Literal> {
        let (only, parts) = match message.content {
            Content::Absent => (None, &[][..]),
            Content::Parts(_) => (None, self.parts(message)),
            Content::Text(text) => (Some(text), &[][..]),
        };
        let parts = parts.iter().filter(|part| part.kind == PartKind::Text);
        only.into_iter().chain(parts.filter_map(|part| part.text))
    }

    /// Returns the text of a message: its string, or its text parts joined.
    pub fn text(&self, message: &Message) -> Cow<'a, str> {
        let mut texts = self.texts(message).map(|text| text.decode(self.body));
        let first = texts.next().unwrap_or_default();
        texts.fold(first, |all, text| all + text)
    }

    pub(super) fn text_hash(&self, message: &Message) -> [u8; 32] {
        let hash = || blake3::hash(self.text(message).as_bytes()).into();
        message.memo().map_or_else(hash, |memo| *memo.text_hash.get_or_init(hash))
    }

    /// Returns the batches of tool results, in order.
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Returns the number of messages at the start that no rewrite touches: the leading system and
    /// developer messages, and everything that the dialect pins.
    pub fn head_len(&self) -> usize {
        self.boundaries.first().copied().unwrap_or_default()
    }

    /// Returns the number of leading system and developer messages.
    pub fn instructions_len(&self) -> usize {
        let leading = self.messages().iter();
        leading.take_while(|it| it.role.is_instruction()).count()
    }

    /// Returns the lengths of the prefixes that end between two units, ascending, from the head on.
    /// History may be cut at these points. The whole length is included unless the conversation
    /// ends inside a unit.
    pub fn boundaries(&self) -> &[usize] {
        &self.boundaries
    }

    /// Returns the start of the unanswered part of the first `upto` messages.
    ///
    /// - Without an unanswered user message, the newest unit. A trailing assistant prefill belongs to
    ///   the unit before it.
    /// - Otherwise the first such message, or the unit whose results stand before it.
    pub(super) fn newest_unit(&self, upto: usize) -> usize {
        let mut end = self.without_prefill(upto);
        // Reminders after a result belong to the result: the model has seen neither.
        while end > self.head_len() + 1
            && self.message(end - 1).is_some_and(|it| it.role.is_instruction())
        {
            end -= 1;
        }
        let newest = self.last_boundary_before(end).unwrap_or(end);
        let Some(unanswered) = self.first_unanswered(upto) else {
            return newest;
        };
        let unseen = self.unseen_result_before(unanswered);
        let unit = unseen.and_then(|result| self.last_boundary_before(result));
        newest.min(unit.unwrap_or(unanswered))
    }

    fn last_boundary_before(&self, end: usize) -> Option<usize> {
        let before = self.boundaries.partition_point(|&cut| cut < end);
        self.boundaries.get(before.checked_sub(1)?).copied()
    }

    /// Returns the plain estimate of the whole request.
    pub fn tokens(&self) -> Tokens {
        self.params.tool_tokens + self.tokens_of(0..self.messages().len())
    }

    /// Returns the lengths of the prefixes that were sent as requests, ascending. A prefix is one
    /// if it ends with a user message, or with a result once its batch is complete.
    pub fn request_points(&self) -> impl Iterator<Item = usize> + '_ {
        self.request_points_after(0)
    }

    /// Returns the request points greater than `past`, without scanning the messages before it.
    pub(crate) fn request_points_after(&self, past: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.batches.partition_point(|batch| batch.results.end <= past);
        let batches = self.batches.get(first..).unwrap_or_default();
        let mut batches = batches.iter().peekable();
        (past + 1..=self.messages().len()).filter(move |&end| {
            match self.messages().get(end - 1).map(|last| last.role) {
                Some(Role::User) => true,
                Some(Role::Function | Role::Tool) => {
                    while batches.next_if(|batch| batch.results.end < end).is_some() {}
                    let batch = batches.peek().and_then(|batch| batch.complete_at);
                    batch.is_some_and(|complete_at| complete_at <= end)
                }
                _ => false,
            }
        })
    }

    fn find_boundaries(&self, rules: &CutRules) -> Vec<usize> {
        let head = self.instructions_len().max(rules.pinned);
        let mut boundaries = Vec::with_capacity(self.messages().len() - head + 1);
        boundaries.push(head);
        let mut batches = self.batches.iter().peekable();
        for end in head + 1..=self.messages().len() {
            let Some(last) = self.messages().get(end - 1) else {
                break;
            };
            let next = self.messages().get(end).map(|message| message.role);
            let closed = match last.role {
                Role::Assistant if !last.calls.is_empty() => false,
                Role::Assistant => last.has_content(),
                Role::Function | Role::Tool => {
                    while batches.next_if(|batch| batch.results.end < end).is_some() {}
                    let batch = batches.peek();
                    batch.is_some_and(|it| it.results.end == end && it.complete_at.is_some())
                }
                Role::User => next != Some(Role::User),
                Role::Developer | Role::Other | Role::System => true,
            };
            let is_joined = rules.joined.get(end).copied().unwrap_or_default();
            if closed && !is_joined && !next.is_some_and(Role::is_tool_result) {
                boundaries.push(end);
            }
        }
        boundaries
    }
}

impl Message {
    /// Creates a message that has neither content nor a size yet.
    pub(super) fn empty(span: Span, role: Role) -> Self {
        Self { span, role, ..Self::default() }
    }

    /// Returns the cached values derived from this message, if it is cached.
    pub(super) fn memo(&self) -> Option<&MessageMemo> {
        self.cached.as_ref().map(CacheEntry::memo)
    }

    /// Whether this is a tool result whose content may be replaced.
    pub(crate) fn is_replaceable_result(&self) -> bool {
        self.role.is_tool_result() && !self.is_fixed
    }

    /// Whether the content is not empty. An empty assistant message does not close a unit.
    fn has_content(&self) -> bool {
        match self.content {
            Content::Absent => false,
            Content::Parts(_) => !self.parts.is_empty(),
            Content::Text(literal) => literal.chars() > 0,
        }
    }
}

#[cfg(test)]
mod tests;
