//! A message while its members are read.

use crate::conversation::{Content, ContentPart, PartKind, Role};
use crate::dialect::chat_completions::bound_thinking;
use crate::json::scanner::Literal;
use crate::units::tokens::Tokens;
use std::ops::Range;

/// A partially read message.
pub(super) struct MessageDraft {
    pub(super) role: Option<Role>,
    pub(super) content: Content,
    pub(super) tool_call_id: Option<Literal>,
    pub(super) name: Option<Literal>,
    pub(super) has_reasoning: bool,
    pub(super) reasoning_chars: u32,
    /// The part of `reasoning_chars` that stays without bound thinking.
    unbound_chars: u32,
    /// Whether any reasoning is bound.
    is_bound: bool,
    pub(super) refusal_chars: u32,
    pub(super) parts: Range<usize>,
    pub(super) calls: Range<usize>,
}

impl MessageDraft {
    /// Creates a draft whose parts and calls begin at these indices.
    pub(super) fn new(part: usize, call: usize) -> Self {
        Self {
            role: None,
            content: Content::Absent,
            tool_call_id: None,
            name: None,
            has_reasoning: false,
            reasoning_chars: 0,
            unbound_chars: 0,
            is_bound: false,
            refusal_chars: 0,
            parts: part..part,
            calls: call..call,
        }
    }

    /// Adds reasoning, spelt `raw`. Some providers return the same reasoning under several keys and
    /// require it back that way, so the longest counts.
    pub(super) fn add_reasoning(&mut self, raw: &str) {
        let chars = char_count(raw);
        self.has_reasoning = true;
        self.reasoning_chars = self.reasoning_chars.max(chars);
        if bound_thinking::is_bound(raw) {
            self.is_bound = true;
        } else {
            self.unbound_chars = self.unbound_chars.max(chars);
        }
    }

    /// Returns the estimate of the bound thinking, in members of the message or among its `parts`.
    pub(super) fn bound_thinking(&self, parts: &[ContentPart]) -> Option<Tokens> {
        let bound: Tokens = parts
            .iter()
            .filter(|part| part.kind == PartKind::Thinking)
            .map(|part| part.tokens)
            .sum();
        let is_bound = self.is_bound || parts.iter().any(|part| part.kind == PartKind::Thinking);
        let chars = self.reasoning_chars - self.unbound_chars;
        is_bound.then(|| bound + Tokens::estimate_chars(chars))
    }
}

/// Returns the number of Unicode characters of `text`, at most `u32::MAX`.
pub(super) fn char_count(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}
