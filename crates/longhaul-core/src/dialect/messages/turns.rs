//! Conversion of the blocks of one wire message to messages.
//!
//! Each result and each reminder is a message, and so is each run of the user's own blocks.

use super::block::{Block, BlockKind};
use super::reader::RequestReader;
use crate::conversation::containers::Container;
use crate::conversation::parse_cache::CacheEntry;
use crate::conversation::{Content, Message, PartKind, Role};
use crate::dialect::body_reader::MESSAGE_OVERHEAD_TOKENS;
use crate::json::span::Span;
use crate::units::tokens::Tokens;
use std::ops::Range;

/// A wire message, as it was read.
pub(super) struct WireMessage {
    pub(super) span: Span,
    pub(super) role: Role,
    pub(super) content: Content,
    /// Blocks of an array.
    pub(super) blocks: Vec<Block>,
    pub(super) parts: Range<usize>,
    pub(super) calls: Range<usize>,
}

impl RequestReader<'_> {
    pub(super) fn push_wire_message(&mut self, wire: &WireMessage) {
        let is_split =
            |block: &Block| matches!(block.kind, BlockKind::Reminder | BlockKind::Result);
        if !wire.role.is_user() || !wire.blocks.iter().any(is_split) {
            return self.push_whole(wire);
        }
        let first = self.pieces.messages.len();
        for run in wire.blocks.chunk_by(|one, next| !is_split(one) && !is_split(next)) {
            self.push_run(run);
        }
        self.pieces
            .containers
            .push(Container { span: wire.span, messages: first..self.pieces.messages.len() });
    }

    fn push_whole(&mut self, wire: &WireMessage) {
        let text_chars = self.text_chars(wire.content, &wire.parts);
        let chars = wire.blocks.iter().map(|block| block.chars);
        let chars = match wire.content {
            Content::Text(text) => text.chars(),
            Content::Absent | Content::Parts(_) => chars.fold(0, u32::saturating_add),
        };
        let mut message = self.message(wire.span, wire.role, wire.content, wire.parts.clone());
        message.text_tokens = Tokens::estimate_chars(text_chars);
        message.tokens += Tokens::estimate_chars(chars);
        message.calls = wire.calls.clone();
        self.push(message, &wire.blocks);
    }

    /// Stores a result, a reminder, or a run of the user's own blocks.
    fn push_run(&mut self, run: &[Block]) {
        let cached = match run {
            [block] => block.message.clone(),
            _ => None,
        };
        let build = || {
            Some(Message {
                cached: CacheEntry::of_joined(run.iter().map(Block::cache_entry)),
                ..self.message_of(run)?
            })
        };
        if let Some(message) = cached.or_else(build) {
            self.push(message, run);
        }
    }

    /// Builds the message of a result, a reminder, or a run of the user's own blocks. Returns `None`
    /// without a block.
    pub(super) fn message_of(&self, run: &[Block]) -> Option<Message> {
        let (first, last) = (run.first()?, run.last()?);
        let span = first.span.extended_to(last.span);
        let parts = first.parts.start..last.parts.end;
        let (role, content) = match first.kind {
            BlockKind::Reminder => (Role::System, Content::Parts(span)),
            BlockKind::Result => (Role::Tool, first.content),
            BlockKind::Call | BlockKind::Part => (Role::User, Content::Parts(span)),
        };
        let chars = run.iter().map(|block| block.chars);
        let chars = Tokens::estimate_chars(chars.fold(0, u32::saturating_add));
        let mut message = self.message(span, role, content, parts);
        message.tool_call_id = first.tool_use_id.filter(|_| role == Role::Tool);
        message.is_error = first.is_error;
        message.is_fixed = first.is_fixed;
        message.text_tokens = chars;
        message.tokens += chars;
        Some(message)
    }

    /// Builds a message whose size is that of its parts other than text.
    fn message(&self, span: Span, role: Role, content: Content, parts: Range<usize>) -> Message {
        let own = self.pieces.parts.get(parts.clone()).unwrap_or_default();
        let thinking = own.iter().filter(|part| part.kind == PartKind::Thinking);
        let has_reasoning = thinking.clone().next().is_some();
        let is_bound = has_reasoning && role == Role::Assistant;
        Message {
            content,
            has_reasoning,
            bound_thinking: is_bound.then(|| thinking.map(|part| part.tokens).sum()),
            tokens: MESSAGE_OVERHEAD_TOKENS + own.iter().map(|part| part.tokens).sum(),
            parts,
            ..Message::empty(span, role)
        }
    }

    fn push(&mut self, message: Message, blocks: &[Block]) {
        let at = self.pieces.messages.len();
        let marks = blocks.iter().flat_map(|block| &block.cache_marks);
        self.pieces.cache_marks.extend(marks.map(|mark| (at, *mark)));
        self.pieces.messages.push(message);
    }
}
