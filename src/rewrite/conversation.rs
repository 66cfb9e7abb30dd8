//! A conversation as read: its messages as spans of the body, and the shape they make together.
//!
//! Nothing here knows a dialect's keys; [`chat_completions`](super::chat_completions) fills it in.

mod batches;
mod measure;
mod open;
mod reasoning;
mod thinking;
mod waiting;

use super::recall::{MessageMemo, ParsedMessage};
use super::scan::Literal;
use super::span::Span;
use super::tokens::Tokens;
pub use batches::Batch;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Who speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// The model.
    Assistant,
    /// The operator of the agent, in newer spelling.
    Developer,
    /// A result of a legacy `function_call`.
    Function,
    /// A role we do not know: kept, never touched.
    Other,
    /// The operator of the agent.
    System,
    /// A result of a tool call.
    Tool,
    /// The person, or the agent in their name.
    User,
}

impl Role {
    /// System and developer messages, which instruct and are never rewritten at the head.
    pub fn is_instruction(self) -> bool {
        matches!(self, Self::Developer | Self::System)
    }

    /// The person's side.
    pub fn is_user(self) -> bool {
        self == Self::User
    }

    /// Its name in logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::Developer => "developer",
            Self::Function => "function result",
            Self::Other => "other",
            Self::System => "system",
            Self::Tool => "tool result",
            Self::User => "user",
        }
    }

    /// Results of calls, of either generation.
    pub fn is_tool_result(self) -> bool {
        matches!(self, Self::Function | Self::Tool)
    }
}

/// What a message holds under `content`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Content {
    /// No such key.
    Absent,
    /// `null`.
    Null,
    /// An array of parts; the parts themselves are asked of the conversation.
    Parts(Span),
    /// A string.
    Text(Literal),
}

impl Content {
    /// Where it stands, if it is there and not null.
    pub fn span(self) -> Option<Span> {
        match self {
            Self::Absent | Self::Null => None,
            Self::Parts(span) => Some(span),
            Self::Text(literal) => Some(literal.span()),
        }
    }
}

/// What a part of a content array is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PartKind {
    /// Sound, by reference or inline.
    Audio,
    /// A document, by reference or inline.
    File,
    /// A picture, by reference or inline.
    Image,
    /// Anything else: what is yet to come.
    Other,
    /// Text.
    Text,
    /// Moving pictures, by reference or inline.
    Video,
}

/// One part of a content array.
#[derive(Clone, Copy, Debug)]
pub struct ContentPart {
    /// What it is.
    pub kind: PartKind,
    /// The whole part.
    pub span: Span,
    /// Its text, if it has one.
    pub text: Option<Literal>,
    /// The value of its `cache_control`, if it has one.
    pub cache_control: Option<Span>,
    /// The plain estimate of what it costs; nothing for text, which counts with its message.
    pub tokens: Tokens,
}

/// One call that an assistant message makes.
#[derive(Clone, Copy, Debug)]
pub struct ToolCall {
    /// Its id; none for a legacy `function_call`.
    pub id: Option<Literal>,
    /// The tool's name.
    pub name: Option<Literal>,
    /// Its arguments, as the literal that holds them.
    pub arguments: Option<Literal>,
}

/// One message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The whole object.
    pub span: Span,
    /// Who speaks.
    pub role: Role,
    /// What it says.
    pub content: Content,
    /// The id of the call that it answers.
    pub tool_call_id: Option<Literal>,
    /// Its `name`.
    pub name: Option<Literal>,
    /// Whether it carries the model's own reasoning, signed or plain.
    pub has_reasoning: bool,
    /// The plain estimate of its text parts, joined.
    pub text_tokens: Tokens,
    /// The plain estimate of all that it costs.
    pub tokens: Tokens,
    pub(super) parts: Range<usize>,
    pub(super) calls: Range<usize>,
    /// What its bytes are remembered as, where they are.
    pub(super) cached: Option<Arc<ParsedMessage>>,
}

/// Under which key a request limits its output; upstreams differ in which of them they know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutputKey {
    /// `max_completion_tokens`.
    MaxCompletionTokens,
    /// `max_tokens`.
    MaxTokens,
}

impl OutputKey {
    /// Its spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
        }
    }
}

/// The output that a request asks for: the number and where it stands, so that it can be lowered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutputLimit {
    /// The key that it stands under.
    pub key: OutputKey,
    /// The number literal.
    pub span: Span,
    /// Its value, in tokens.
    pub tokens: Tokens,
}

/// What stands around the messages of a request.
#[derive(Clone, Debug, Default)]
pub struct RequestParams {
    /// The `model`, if it is a string.
    pub model: Option<Literal>,
    /// Whether the reply is asked for as a stream.
    pub streaming: bool,
    /// `max_completion_tokens`, else `max_tokens`.
    pub output_limit: Option<OutputLimit>,
    /// The plain estimate of tool and function schemas.
    pub tool_tokens: Tokens,
    /// `prompt_cache_key`, if it is a string.
    pub prompt_cache_key: Option<Literal>,
    /// Keys and values that say who may serve the request, and on whose behalf.
    pub routing: Vec<(Literal, Span)>,
    /// Keys and values that say whether and how much the model reasons.
    pub thinking: Vec<(Literal, Span)>,
}

/// A request body, read.
///
/// Invariant: the spans of `messages` ascend and do not overlap.
#[derive(Debug)]
pub struct Conversation<'a> {
    body: &'a str,
    params: RequestParams,
    messages: Vec<Message>,
    parts: Vec<ContentPart>,
    calls: Vec<ToolCall>,
    batches: Vec<Batch>,
    boundaries: Vec<usize>,
    /// Where turns go on after the model's reasoning.
    reasoning_runs: Vec<Range<usize>>,
    /// What the first so many messages cost.
    prefix_tokens: Vec<Tokens>,
    /// Where user messages wait for an answer.
    unanswered_runs: Vec<Range<usize>>,
}

impl<'a> Conversation<'a> {
    /// Takes what a dialect found and works out batches and boundaries.
    pub(super) fn new(
        body: &'a str,
        envelope: RequestParams,
        messages: Vec<Message>,
        parts: Vec<ContentPart>,
        calls: Vec<ToolCall>,
    ) -> Self {
        let mut read = Self {
            body,
            params: envelope,
            reasoning_runs: reasoning::runs(&messages),
            unanswered_runs: waiting::runs(&messages),
            messages,
            parts,
            calls,
            batches: Vec::new(),
            boundaries: Vec::new(),
            prefix_tokens: Vec::new(),
        };
        let mut sum = Tokens::ZERO;
        read.prefix_tokens.reserve_exact(read.messages.len() + 1);
        read.prefix_tokens.push(sum);
        read.prefix_tokens
            .extend(read.messages.iter().map(|message| {
                sum += message.tokens;
                sum
            }));
        read.batches = read.find_batches();
        read.boundaries = read.find_boundaries();
        read
    }

    /// The body it was read from.
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// What stands around the messages.
    pub fn params(&self) -> &RequestParams {
        &self.params
    }

    /// The model asked for; empty if none was named.
    pub fn model(&self) -> Cow<'a, str> {
        self.params
            .model
            .map_or(Cow::Borrowed(""), |model| model.decode(self.body))
    }

    /// The output that it asks for, if it says how much.
    pub fn output_tokens(&self) -> Option<Tokens> {
        self.params.output_limit.map(|output| output.tokens)
    }

    /// All messages, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The message at `at`, if there is one.
    pub fn message(&self, at: usize) -> Option<&Message> {
        self.messages.get(at)
    }

    /// The parts of a message's content array; none for a string.
    pub fn parts(&self, message: &Message) -> &[ContentPart] {
        self.parts.get(message.parts.clone()).unwrap_or_default()
    }

    /// Whether no message has a part other than text.
    pub fn is_text_only(&self) -> bool {
        self.parts.iter().all(|part| part.kind == PartKind::Text)
    }

    /// The calls that a message makes.
    pub fn calls(&self, message: &Message) -> &[ToolCall] {
        self.calls.get(message.calls.clone()).unwrap_or_default()
    }

    /// The text of a message: its string, or its text parts joined.
    pub fn text(&self, message: &Message) -> Cow<'a, str> {
        match message.content {
            Content::Absent | Content::Null => Cow::Borrowed(""),
            Content::Text(literal) => literal.decode(self.body),
            Content::Parts(_) => {
                let mut texts = self
                    .parts(message)
                    .iter()
                    .filter(|part| part.kind == PartKind::Text)
                    .filter_map(|part| part.text);
                match (texts.next(), texts.next()) {
                    (None, _) => Cow::Borrowed(""),
                    (Some(only), None) => only.decode(self.body),
                    (Some(first), Some(second)) => Cow::Owned(
                        [first, second]
                            .into_iter()
                            .chain(texts)
                            .map(|text| text.decode(self.body))
                            .collect(),
                    ),
                }
            }
        }
    }

    /// Batches of tool results, in order.
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// How many leading system and developer messages there are.
    pub fn head_len(&self) -> usize {
        self.boundaries.first().copied().unwrap_or_default()
    }

    /// The lengths of the prefixes that end between two units, ascending, from the head on: where
    /// history may be cut. The whole is one of them unless it ends in the middle of a unit.
    pub fn boundaries(&self) -> &[usize] {
        &self.boundaries
    }

    /// Where the newest unit of the first `upto` messages begins, or the first user message among them
    /// that nobody has answered yet. The beginning of an answer is part of the unit before it.
    pub(super) fn newest_unit(&self, upto: usize) -> usize {
        let end = self.without_prefill(upto);
        let before = self.boundaries.partition_point(|&cut| cut < end);
        let newest = before
            .checked_sub(1)
            .and_then(|at| self.boundaries.get(at))
            .copied()
            .unwrap_or(end);
        newest.min(self.first_unanswered(upto).unwrap_or(upto))
    }

    /// The plain estimate of what the whole request costs.
    pub fn tokens(&self) -> Tokens {
        self.params.tool_tokens + self.tokens_of(0..self.messages.len())
    }

    /// The lengths of the prefixes that were requests: up to each user message, and up to each
    /// result from the one on that completed its batch. Ascending.
    pub fn request_points(&self) -> impl Iterator<Item = usize> + '_ {
        self.request_points_after(0)
    }

    /// Those of them past this length, without a look at what is before it.
    pub fn request_points_after(&self, past: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self
            .batches
            .partition_point(|batch| batch.results.end <= past);
        let batches = self.batches.get(first..).unwrap_or_default();
        let mut batches = batches.iter().peekable();
        (past + 1..=self.messages.len()).filter(move |&end| {
            while batches.next_if(|batch| batch.results.end < end).is_some() {}
            match self.messages.get(end - 1).map(|last| last.role) {
                Some(Role::User) => true,
                Some(Role::Function | Role::Tool) => batches
                    .peek()
                    .and_then(|batch| batch.complete_at)
                    .is_some_and(|complete_at| complete_at <= end),
                _ => false,
            }
        })
    }

    fn find_boundaries(&self) -> Vec<usize> {
        let leading = self.messages.iter();
        let head = leading.take_while(|it| it.role.is_instruction()).count();
        let mut boundaries = Vec::with_capacity(self.messages.len() - head + 1);
        boundaries.push(head);
        let mut batches = self.batches.iter().peekable();
        for end in head + 1..=self.messages.len() {
            while batches.next_if(|batch| batch.results.end < end).is_some() {}
            // The one that the last message is in, if that is a result.
            let batch = batches.peek();
            let Some(last) = self.messages.get(end - 1) else {
                break;
            };
            let next = self.messages.get(end).map(|message| message.role);
            let closed = match last.role {
                Role::Assistant if !last.calls.is_empty() => false,
                Role::Assistant => last.has_content(),
                Role::Function | Role::Tool => batch
                    .is_some_and(|batch| batch.results.end == end && batch.complete_at.is_some()),
                Role::User => next != Some(Role::User),
                Role::Developer | Role::Other | Role::System => true,
            };
            if closed && !next.is_some_and(Role::is_tool_result) {
                boundaries.push(end);
            }
        }
        boundaries
    }
}

impl Message {
    /// What was worked out of it before, where that is remembered.
    pub(super) fn memo(&self) -> Option<&MessageMemo> {
        self.cached.as_deref().map(ParsedMessage::memo)
    }

    /// Whether anything is said at all: an empty assistant message closes nothing.
    fn has_content(&self) -> bool {
        match self.content {
            Content::Absent | Content::Null => false,
            Content::Parts(_) => !self.parts.is_empty(),
            Content::Text(literal) => literal.chars() > 0,
        }
    }
}

#[cfg(test)]
mod tests;
