//! User messages without an answer, at any point of a conversation.

use crate::conversation::{Conversation, Role};

impl Conversation<'_> {
    /// Returns the first user message among the first `upto` messages that none of them answers. A
    /// trailing assistant prefill is not an answer.
    pub(crate) fn first_unanswered(&self, upto: usize) -> Option<usize> {
        let before = self.unanswered_runs.partition_point(|wait| wait.start < upto);
        let newest = self.unanswered_runs.get(before.checked_sub(1)?)?;
        (newest.end >= self.without_prefill(upto)).then_some(newest.start)
    }

    /// Returns the result before the unanswered user message at `unanswered`, which the model has not
    /// seen either. Instructions may stand between the two. Returns `None` if no result does.
    pub(super) fn unseen_result_before(&self, unanswered: usize) -> Option<usize> {
        let before = self.messages().get(..unanswered)?;
        let last = before.iter().rposition(|it| !it.role.is_instruction())?;
        before.get(last)?.role.is_tool_result().then_some(last)
    }

    /// Returns `upto`, less one if the last of these messages is an assistant prefill. The model
    /// continues a prefill, an assistant message without calls.
    pub(crate) fn without_prefill(&self, upto: usize) -> usize {
        let last = upto.checked_sub(1);
        let begins = last.filter(|&last| {
            let message = self.messages().get(last);
            message.is_some_and(|it| it.role == Role::Assistant && it.calls.is_empty())
        });
        begins.unwrap_or(upto)
    }
}
