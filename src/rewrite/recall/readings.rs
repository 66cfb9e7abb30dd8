//! What one message was read as: a function of its bytes alone, wherever it stands.

use super::{Fingerprint, MessageMemo};
use crate::rewrite::conversation::{Content, ContentPart, Message, ToolCall};
use crate::rewrite::generations::ShardedCache;
use crate::rewrite::scan::Literal;
use crate::rewrite::span::Span;
use std::sync::Arc;

/// Readings in one generation. The one before is kept beside it, and what of that is used moves on:
/// with some 400 bytes each, 26 MB are taken by both. Messages have 3 KB on average, so that one
/// holds a session of a hundred windows.
pub(super) const GENERATION_MESSAGES: usize = 32_768;
/// Parts and calls of one message at the most: what has more is read each time.
pub(super) const MAX_MEMBERS: usize = 16;

/// The readings of messages that were met.
pub(super) type ParsedMessages = ShardedCache<u64, Arc<ParsedMessage>>;

/// What a message was read as; its spans count from its own beginning, its parts and calls from its
/// own first.
#[derive(Debug)]
pub(in crate::rewrite) struct ParsedMessage {
    fingerprint: Fingerprint,
    message: Message,
    parts: Box<[ContentPart]>,
    calls: Box<[ToolCall]>,
    memo: MessageMemo,
}

impl ParsedMessage {
    pub(super) fn new(
        print: Fingerprint,
        message: &Message,
        parts: &[ContentPart],
        calls: &[ToolCall],
    ) -> Self {
        let back = Shift::to_origin(message.span);
        Self {
            fingerprint: print,
            message: Message {
                parts: 0..parts.len(),
                calls: 0..calls.len(),
                ..back.message(message)
            },
            parts: parts.iter().map(|part| back.part(part)).collect(),
            calls: calls.iter().map(|call| back.call(call)).collect(),
            memo: MessageMemo::default(),
        }
    }

    /// What was worked out of its message.
    pub(in crate::rewrite) fn memo(&self) -> &MessageMemo {
        &self.memo
    }

    /// The hash of its message.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Its message, as if that stood at the beginning of a text.
    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// How many bytes its message has.
    pub(super) fn len(&self) -> usize {
        self.message.span.len()
    }

    /// The message as it reads from `start` on; its parts and calls go behind those there are.
    pub(super) fn append_at(
        self: Arc<Self>,
        start: u32,
        parts: &mut Vec<ContentPart>,
        calls: &mut Vec<ToolCall>,
    ) -> Message {
        let there = Shift(start);
        let (part, call) = (parts.len(), calls.len());
        parts.extend(self.parts.iter().map(|part| there.part(part)));
        calls.extend(self.calls.iter().map(|call| there.call(call)));
        let message = there.message(&self.message);
        Message {
            parts: part..parts.len(),
            calls: call..calls.len(),
            cached: Some(self),
            ..message
        }
    }
}

/// How far spans move: bytes, modulo 2³².
#[derive(Clone, Copy)]
struct Shift(u32);

impl Shift {
    fn to_origin(span: Span) -> Self {
        Self(span.start_u32().wrapping_neg())
    }

    fn span(self, span: Span) -> Span {
        span.shifted(self.0)
    }

    fn literal(self, literal: Option<Literal>) -> Option<Literal> {
        literal.map(|literal| literal.shifted(self.0))
    }

    fn part(self, part: &ContentPart) -> ContentPart {
        ContentPart {
            kind: part.kind,
            span: self.span(part.span),
            text: self.literal(part.text),
            cache_control: part.cache_control.map(|mark| self.span(mark)),
            tokens: part.tokens,
        }
    }

    fn call(self, call: &ToolCall) -> ToolCall {
        ToolCall {
            id: self.literal(call.id),
            name: self.literal(call.name),
            arguments: self.literal(call.arguments),
        }
    }

    fn message(self, message: &Message) -> Message {
        Message {
            span: self.span(message.span),
            content: match message.content {
                Content::Absent => Content::Absent,
                Content::Null => Content::Null,
                Content::Parts(span) => Content::Parts(self.span(span)),
                Content::Text(literal) => Content::Text(literal.shifted(self.0)),
            },
            tool_call_id: self.literal(message.tool_call_id),
            name: self.literal(message.name),
            ..message.clone()
        }
    }
}
