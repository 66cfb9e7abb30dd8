//! What the user said that nobody has answered, at any point of a conversation.

use super::{Conversation, Message, Role};
use std::ops::Range;

/// From each user message that is the first behind an answer of the model's, up to the next answer.
/// Ascending.
pub(super) fn runs(messages: &[Message]) -> Vec<Range<usize>> {
    let mut waits = Vec::new();
    let mut first = None;
    for (at, message) in messages.iter().enumerate() {
        match message.role {
            Role::Assistant => waits.extend(first.take().map(|first| first..at)),
            Role::User => first = first.or(Some(at)),
            Role::Developer | Role::Function | Role::Other | Role::System | Role::Tool => {}
        }
    }
    waits.extend(first.map(|first| first..messages.len()));
    waits
}

impl Conversation<'_> {
    /// The first user message among the first `upto` messages that none of these answers; the
    /// beginning of an answer is none.
    pub(in crate::rewrite) fn first_unanswered(&self, upto: usize) -> Option<usize> {
        let before = self
            .unanswered_runs
            .partition_point(|wait| wait.start < upto);
        let newest = self.unanswered_runs.get(before.checked_sub(1)?)?;
        (newest.end >= self.without_prefill(upto)).then_some(newest.start)
    }

    /// How many of the first `upto` messages there are without the beginning of an answer, which the
    /// model is asked to go on with: an assistant message without calls behind all others.
    pub(in crate::rewrite) fn without_prefill(&self, upto: usize) -> usize {
        let last = upto.checked_sub(1);
        let begins = last.filter(|&last| {
            let message = self.messages.get(last);
            message.is_some_and(|it| it.role == Role::Assistant && it.calls.is_empty())
        });
        begins.unwrap_or(upto)
    }
}
