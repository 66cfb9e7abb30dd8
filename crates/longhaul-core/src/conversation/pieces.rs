//! The messages that a reader finds in a body, with what belongs to them.

use crate::conversation::containers::Container;
use crate::conversation::{ContentPart, Message, ToolCall};
use crate::json::span::Span;

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
