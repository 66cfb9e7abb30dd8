//! Runs of messages: their sizes, turns that continue after the model's reasoning, and unanswered user messages.

use crate::conversation::{Conversation, Message, Role};
use crate::dialect::thinking_binding::ThinkingBinding;
use crate::units::tokens::Tokens;
use std::ops::Range;

/// Returns the runs from a message that `begins` one up to the next that `ends` runs, ascending.
pub(super) fn runs(
    messages: &[Message],
    begins: impl Fn(&Message) -> bool,
    ends: impl Fn(&Message) -> bool,
) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut first = None;
    for (at, message) in messages.iter().enumerate() {
        if ends(message) {
            runs.extend(first.take().map(|first| first..at));
        } else if begins(message) {
            first = first.or(Some(at));
        }
    }
    runs.extend(first.map(|first| first..messages.len()));
    runs
}

impl Conversation<'_> {
    /// Counts the items or blocks of reasoning of the message at `at`.
    pub(crate) fn reasoning_items(&self, at: usize) -> usize {
        let Some(message) = self.message(at).filter(|it| it.has_reasoning) else {
            return 0;
        };
        self.dialect().reasoning_items(self.body(), message)
    }

    /// Whether any message carries reasoning.
    pub fn has_reasoning(&self) -> bool {
        !self.reasoning_runs.is_empty()
    }

    /// Returns at most the size of the reasoning in `messages` that a provider may bind to the bytes before it. Zero
    /// if the model binds none.
    pub(crate) fn bound_reasoning(&self, messages: Range<usize>) -> Tokens {
        if !self.has_reasoning() || self.thinking_binding() == ThinkingBinding::Never {
            return Tokens::ZERO;
        }
        let messages = self.messages().get(messages).unwrap_or_default().iter();
        let thought = messages.filter(|it| it.has_reasoning);
        thought.map(|it| it.bound_thinking.unwrap_or(it.tokens)).sum()
    }

    /// Returns the messages from the first with reasoning to the end of its turn, if the message at
    /// `at` is among them.
    pub(crate) fn reasoning_run(&self, at: usize) -> Option<&Range<usize>> {
        let run = self.reasoning_runs.partition_point(|run| run.end <= at);
        self.reasoning_runs.get(run).filter(|run| run.contains(&at))
    }

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

    /// Returns the plain estimate of a run of messages.
    pub fn tokens_of(&self, messages: Range<usize>) -> Tokens {
        let upto = |end: usize| self.prefix_tokens.get(end.min(self.messages().len())).copied();
        upto(messages.end).unwrap_or_default() - upto(messages.start).unwrap_or_default()
    }

    /// Estimates the tokens before the message at `from` that no rewrite removes: the head, the
    /// tools and the retained first messages.
    ///
    /// Head and tools are rounded up, so that small changes in them do not change the result. The
    /// rounding steps are fine, because each token that is counted but not present makes every
    /// prompt-cache break come earlier.
    pub(crate) fn fixed_tokens_before(&self, from: usize) -> Tokens {
        let head = self.tokens_of(0..self.head_len());
        (head + self.params().tool_tokens).round_up_to_eighth()
            + self.tokens_of(self.head_len()..from)
    }

    /// Returns the start of the shortest run that ends with `messages` and has at least `tokens`.
    /// Returns `None` if all of `messages` together have fewer.
    pub(crate) fn suffix_start(&self, messages: Range<usize>, tokens: Tokens) -> Option<usize> {
        let starts = self.prefix_tokens.get(messages.clone())?;
        let end = self.prefix_tokens.get(messages.end).copied()?;
        let before = starts.partition_point(|&start| end - start >= tokens);
        Some(messages.start + before.checked_sub(1)?)
    }
}
