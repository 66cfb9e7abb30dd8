//! Token estimates of runs of messages, from prefix sums.

use crate::conversation::Conversation;
use crate::units::tokens::Tokens;
use std::ops::Range;

impl Conversation<'_> {
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
