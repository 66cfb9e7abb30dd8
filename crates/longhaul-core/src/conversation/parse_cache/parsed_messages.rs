//! The parse of one message: a function of its bytes alone, independent of its position.

use crate::collections::two_generation_cache::ShardedCache;
use crate::conversation::parse_cache::{CacheEntry, Fingerprint, MessageMemo};
use crate::conversation::{Content, ContentPart, Message, Pieces, ToolCall};
use crate::json::scanner::Literal;
use crate::json::span::Span;
use std::ops::Range;
use std::sync::Arc;

/// Parsed messages in one generation. With some 510 bytes each, both generations take 34 MB.
/// Messages have 3 KB on average, so that one generation holds a session of a hundred windows.
pub(super) const GENERATION_MESSAGES: usize = 32_768;
/// Maximum messages that one body adds, so that a single body does not displace those of all callers.
/// Later requests add the rest of a longer history.
pub(super) const MAX_STORED: usize = GENERATION_MESSAGES / 4;
/// Maximum parts and calls of one message together. A message with more is parsed each time. Also the
/// maximum messages of a joined message: the memo of a longer one is not kept.
pub(super) const MAX_MEMBERS: usize = 16;

pub(super) type ParsedMessages = ShardedCache<Arc<ParsedMessage>>;

/// The parse of one message. Spans are relative to the start of the message; ranges of parts and
/// calls begin at zero.
#[derive(Debug)]
pub(crate) struct ParsedMessage {
    pub(super) fingerprint: Fingerprint,
    /// The message, with spans relative to its start.
    pub(super) message: Message,
    parts: Box<[ContentPart]>,
    calls: Box<[ToolCall]>,
    /// Values derived from the message.
    pub(super) memo: MessageMemo,
}

impl ParsedMessage {
    pub(super) fn new(
        fingerprint: Fingerprint,
        message: &Message,
        parts: &[ContentPart],
        calls: &[ToolCall],
    ) -> Self {
        let back = Shift::to_origin(message.span);
        Self {
            fingerprint,
            message: back.message(message, 0..parts.len(), 0..calls.len()),
            parts: parts.iter().map(|part| back.part(part)).collect(),
            calls: calls.iter().map(|call| back.call(call)).collect(),
            memo: MessageMemo::default(),
        }
    }

    /// Returns the length of the message, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.message.span.len()
    }

    /// Returns the message at position `start`; appends its parts and calls.
    pub(crate) fn append_at(self: Arc<Self>, start: u32, to: &mut Pieces) -> Message {
        let there = Shift::by(start);
        let Pieces { parts, calls, .. } = to;
        let (part, call) = (parts.len(), calls.len());
        // Most messages have neither, and extending a list by nothing takes two calls.
        if !self.parts.is_empty() {
            parts.extend(self.parts.iter().map(|part| there.part(part)));
        }
        if !self.calls.is_empty() {
            calls.extend(self.calls.iter().map(|call| there.call(call)));
        }
        let mut message = there.message(&self.message, part..parts.len(), call..calls.len());
        message.cached = Some(CacheEntry::Parsed(self));
        message
    }
}

/// Distance by which spans are shifted: bytes, modulo 2³².
#[derive(Clone, Copy)]
pub(super) struct Shift(u32);

impl Shift {
    pub(super) fn by(bytes: u32) -> Self {
        Self(bytes)
    }

    /// Returns the shift that moves `span` to the start of its text.
    pub(super) fn to_origin(span: Span) -> Self {
        Self(span.start_u32().wrapping_neg())
    }

    pub(super) fn span(self, span: Span) -> Span {
        span.shifted(self.0)
    }

    fn literal(self, literal: Option<Literal>) -> Option<Literal> {
        literal.map(|literal| literal.shifted(self.0))
    }

    pub(super) fn part(self, part: &ContentPart) -> ContentPart {
        ContentPart {
            kind: part.kind,
            span: self.span(part.span),
            text: self.literal(part.text),
            cache_mark: part.cache_mark.map(|mark| self.span(mark)),
            tokens: part.tokens,
        }
    }

    pub(super) fn call(self, call: &ToolCall) -> ToolCall {
        ToolCall {
            id: self.literal(call.id),
            name: self.literal(call.name),
            arguments: self.literal(call.arguments),
        }
    }

    #[inline]
    pub(super) fn message(
        self,
        message: &Message,
        parts: Range<usize>,
        calls: Range<usize>,
    ) -> Message {
        Message {
            span: self.span(message.span),
            content: match message.content {
                Content::Absent => Content::Absent,
                Content::Parts(span) => Content::Parts(self.span(span)),
                Content::Text(literal) => Content::Text(literal.shifted(self.0)),
            },
            tool_call_id: self.literal(message.tool_call_id),
            name: self.literal(message.name),
            parts,
            calls,
            ..message.clone()
        }
    }
}
