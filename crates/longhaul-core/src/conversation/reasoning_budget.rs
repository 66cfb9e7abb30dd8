//! The reasoning budget that a request grants its model.

use crate::conversation::Conversation;
use crate::json::scanner::{NotJson, Scanner};
use crate::units::tokens::Tokens;

impl Conversation<'_> {
    /// Whether the request grants at least `output` reasoning tokens, by Anthropic's
    /// `thinking.budget_tokens` or OpenRouter's `reasoning.max_tokens`. The provider refuses a
    /// request whose output limit does not exceed that budget.
    pub fn grants_reasoning_tokens(&self, output: Tokens) -> bool {
        let grants = |name: &str, value: &str| {
            let tokens = value.parse::<u64>();
            matches!(name, "budget_tokens" | "max_tokens")
                && tokens.is_ok_and(|tokens| tokens > 0 && tokens >= u64::from(output.get()))
        };
        let is_off = |name: &str, value: &str| {
            matches!(
                (name, value),
                ("enabled", "false") | ("type", "\"disabled\"")
            )
        };
        let mut wishes = self.params().thinking.iter();
        wishes.any(|(_, wish)| {
            let wish = wish.slice(self.body());
            let (mut is_enough, mut off) = (false, false);
            let read = Scanner::new(wish).object(|scanner, key| {
                let (name, value) = (key.decode(wish), scanner.value()?.slice(wish));
                is_enough |= grants(&name, value);
                off |= is_off(&name, value);
                Ok::<(), NotJson>(())
            });
            // A value that is not an object grants no number of tokens.
            read.is_ok() && is_enough && !off
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    #[test]
    fn what_is_granted_for_thought_counts_where_thought_is_not_switched_off() {
        for (wish, output, may) in [
            (
                r#""thinking":{"type":"enabled","budget_tokens":5000}"#,
                5_000,
                true,
            ),
            (
                r#""thinking":{"type":"enabled","budget_tokens":5000}"#,
                5_001,
                false,
            ),
            (
                r#""thinking":{"type":"disabled","budget_tokens":5000}"#,
                1,
                false,
            ),
            (r#""reasoning":{"max_tokens":5000}"#, 5_000, true),
            (r#""reasoning":{"max_tokens":0}"#, 0, false),
            (
                r#""reasoning":{"enabled":false,"max_tokens":5000}"#,
                1,
                false,
            ),
            (r#""reasoning":{"effort":"high"}"#, 0, false),
            (r#""reasoning_effort":"high""#, 0, false),
        ] {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}],{wish}}}"#);
            let conversation = read(body.as_bytes()).unwrap();
            assert_eq!(
                conversation.grants_reasoning_tokens(Tokens::new(output)),
                may,
                "{wish} {output}"
            );
        }
    }
}
