//! How much thought a request grants its model.

use super::Conversation;
use crate::rewrite::scan::{NotJson, Scanner};
use crate::rewrite::tokens::Tokens;

impl Conversation<'_> {
    /// Whether it grants so many tokens of thought or more, by Anthropic's `thinking.budget_tokens` or
    /// OpenRouter's `reasoning.max_tokens`. The output that is asked for has to be more than those, or
    /// the provider refuses the request.
    pub fn may_think(&self, output: Tokens) -> bool {
        let grants = |name: &str, value: &str| {
            let tokens = value.parse::<u64>();
            matches!(name, "budget_tokens" | "max_tokens")
                && tokens.is_ok_and(|tokens| tokens >= u64::from(output.get()))
        };
        let mut wishes = self.envelope().thinking.iter();
        wishes.any(|(_, wish)| {
            let wish = wish.slice(self.body());
            let mut is_enough = false;
            let read = Scanner::new(wish).object(|scanner, key| {
                let value = scanner.value()?.slice(wish);
                is_enough |= grants(&key.decode(wish), value);
                Ok::<(), NotJson>(())
            });
            // What is no object grants no number of them.
            read.is_ok() && is_enough
        })
    }
}
