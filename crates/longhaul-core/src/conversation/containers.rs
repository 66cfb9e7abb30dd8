//! Objects of the body that hold several messages.
//!
//! Some dialects return several tool results in one object, along with the user's own words. Each block
//! or run of blocks is then a [`Message`] of its own, and the object is their container.

use crate::conversation::{Conversation, Message};
use crate::json::span::Span;
use std::ops::Range;

/// An object that holds several messages, as elements of one array.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    /// The whole object.
    pub(crate) span: Span,
    /// Indices of its messages; never empty.
    pub(crate) messages: Range<usize>,
}

impl<'a> Conversation<'a> {
    /// Returns the container of the message at `at`, or `None` if that message is an object of its
    /// own.
    pub(crate) fn container(&self, at: usize) -> Option<&Container> {
        let behind =
            self.pieces.containers.partition_point(|container| container.messages.end <= at);
        let container = self.pieces.containers.get(behind)?;
        container.messages.contains(&at).then_some(container)
    }

    /// Returns the bytes of a container before its first message.
    pub(crate) fn container_start(&self, container: &Container) -> &'a str {
        let first = self.message(container.messages.start).map(|message| message.span.start());
        self.between(container.span.start(), first.unwrap_or_default())
    }

    /// Returns the bytes of a container after its last message.
    pub(crate) fn container_end(&self, container: &Container) -> &'a str {
        let last = container.messages.end.checked_sub(1);
        let last = last.and_then(|last| self.message(last)).map(end);
        self.between(last.unwrap_or(usize::MAX), container.span.end())
    }

    /// Returns the span of the object that holds the message at `at`: its container, or itself.
    pub(crate) fn object_span(&self, at: usize) -> Option<Span> {
        let container = self.container(at).map(|container| container.span);
        container.or_else(|| self.message(at).map(|message| message.span))
    }

    /// Returns the offset after the message at `at`, and the bytes that close its object there. The bytes
    /// are empty if the object ends with the message.
    pub(crate) fn object_end(&self, at: usize) -> Option<(usize, &'a str)> {
        let own = self.message(at).map(end)?;
        Some(match self.container(at) {
            Some(container) if container.messages.end == at + 1 => (container.span.end(), ""),
            Some(container) => (own, self.container_end(container)),
            None => (own, ""),
        })
    }

    fn between(&self, start: usize, end: usize) -> &'a str {
        self.body.get(start..end).unwrap_or_default()
    }
}

fn end(message: &Message) -> usize {
    message.span.end()
}
