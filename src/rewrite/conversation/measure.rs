//! What runs of messages cost, from the sums of all prefixes.

use super::Conversation;
use crate::rewrite::tokens::Tokens;
use std::ops::Range;

impl Conversation<'_> {
    /// The plain estimate of what a run of messages costs.
    pub fn tokens_of(&self, messages: Range<usize>) -> Tokens {
        let upto = |end: usize| {
            self.prefix_tokens
                .get(end.min(self.messages.len()))
                .copied()
        };
        upto(messages.end).unwrap_or_default() - upto(messages.start).unwrap_or_default()
    }

    /// What stands before the message at `from` whatever is made of the rest: the head and the tools,
    /// rounded up so that small changes in them move nothing, and the first messages where they are
    /// kept. The steps are fine: what is counted and is not there brings every break forward.
    pub fn fixed_tokens_before(&self, from: usize) -> Tokens {
        let head = self.tokens_of(0..self.head_len());
        (head + self.params().tool_tokens).round_up_to_eighth()
            + self.tokens_of(self.head_len()..from)
    }

    /// Where the shortest run begins that ends with `messages` and costs at least `tokens`; `None`
    /// where all of them cost less.
    pub(in crate::rewrite) fn suffix_start(
        &self,
        messages: Range<usize>,
        tokens: Tokens,
    ) -> Option<usize> {
        let starts = self.prefix_tokens.get(messages.clone())?;
        let end = self.prefix_tokens.get(messages.end).copied()?;
        let before = starts.partition_point(|&start| end - start >= tokens);
        Some(messages.start + before.checked_sub(1)?)
    }
}
