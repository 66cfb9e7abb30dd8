//! Cache marks that move to the text in place of the messages that carried them.

use crate::conversation::Conversation;
use crate::json::span::Span;
use std::ops::Range;

impl<'a> Conversation<'a> {
    /// Adds the values of cache marks, each with the index of its message, in ascending order.
    #[must_use]
    pub(crate) fn with_cache_marks(mut self, cache_marks: Vec<(usize, Span)>) -> Self {
        self.cache_marks = cache_marks;
        self
    }

    /// Whether a message carries a cache mark.
    pub(crate) fn has_cache_marks(&self) -> bool {
        !self.cache_marks.is_empty() || self.parts.iter().any(|part| part.cache_mark.is_some())
    }

    /// Returns the value of the last cache mark in a run of messages.
    ///
    /// One mark stands for all marks of the run: the provider allows few, and demands that those
    /// with a longer lifetime come first. The last one has the shortest.
    pub(crate) fn last_cache_mark(&self, messages: Range<usize>) -> Option<&'a str> {
        let before = self
            .cache_marks
            .partition_point(|(at, _)| *at < messages.end);
        let (at, mark) = self.cache_marks.get(before.checked_sub(1)?)?;
        messages.contains(at).then(|| mark.slice(self.body))
    }
}
