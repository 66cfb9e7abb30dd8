//! Whether a provider binds thinking to the bytes before it, as far as a request shows.

use crate::conversation::Conversation;
use crate::json::scanner::{NotJson, Scanner};

/// Families of Anthropic's models.
const FAMILIES: [&str; 5] = ["fable", "haiku", "mythos", "opus", "sonnet"];
/// Newest version without binding: the models bind from 5.1 on.
const LAST_UNBOUND: (u32, u32) = (5, 0);

/// Newest version whose only thinking has a fixed budget.
const LAST_MANUAL: (u32, u32) = (4, 5);

/// Parts of names of models by other makers, who bind no thinking. Some of them refuse a call without the
/// thinking before it.
const OTHER_MAKERS: [&str; 11] = [
    "codex", "deepseek", "gemini", "glm", "gpt", "grok", "kimi", "llama", "minimax", "mistral",
    "qwen",
];

/// Whether `model` names a model of a maker other than Anthropic.
fn is_of_other_maker(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    OTHER_MAKERS.iter().any(|maker| name.contains(maker))
}

/// Binding of thinking to the bytes before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ThinkingBinding {
    /// By the client's request, the provider drops thinking that no longer fits.
    Dropped,
    /// By the client's request, the provider refuses such thinking.
    Enforced,
    /// The model binds no thinking.
    Never,
    /// The model may bind thinking, and the provider may refuse it.
    Possible,
}

/// The option of a request that controls thinking.
#[derive(Default)]
struct ThinkingOption {
    /// Whether the thinking has a fixed budget. The models that bind thinking have no such mode.
    is_manual: bool,
    has_binding: bool,
    drops: bool,
}

impl Conversation<'_> {
    /// Whether the newest turn has to begin with its thinking: the thinking has a fixed budget, or the
    /// model has no other kind.
    pub(crate) fn turns_begin_with_thinking(&self) -> bool {
        let is_manual = |version| version <= LAST_MANUAL;
        self.thinking_option().is_manual || claude_version(&self.model()).is_some_and(is_manual)
    }

    /// Whether the request enables thinking, or sets its options.
    pub fn asks_for_thinking(&self) -> bool {
        !self.params().thinking.is_empty()
    }

    fn thinking_option(&self) -> ThinkingOption {
        let mut option = ThinkingOption::default();
        for (_, value) in &self.params().thinking {
            // An option of another shape shows nothing.
            _ = option.read(&mut Scanner::new(value.slice(self.body())));
        }
        option
    }

    /// Returns the binding that the request's option and the model's name show.
    pub fn thinking_binding(&self) -> ThinkingBinding {
        let option = self.thinking_option();
        if option.drops {
            return ThinkingBinding::Dropped;
        }
        if option.has_binding {
            return ThinkingBinding::Enforced;
        }
        match claude_version(&self.model()) {
            Some(version) if version > LAST_UNBOUND => ThinkingBinding::Possible,
            Some(_) => ThinkingBinding::Never,
            None if option.is_manual || is_of_other_maker(&self.model()) => ThinkingBinding::Never,
            None => ThinkingBinding::Possible,
        }
    }
}

impl ThinkingOption {
    fn read(&mut self, scanner: &mut Scanner<'_>) -> Result<(), NotJson> {
        if scanner.peek() != Some(b'{') {
            return Ok(());
        }
        scanner.object(|scanner, key| {
            match &*key.decode(scanner.text()) {
                "type" => {
                    let value = scanner.value()?;
                    self.is_manual |= value.slice(scanner.text()) == r#""enabled""#;
                }
                "block_binding" if scanner.peek() == Some(b'{') => {
                    self.has_binding = true;
                    scanner.object(|scanner, key| {
                        let is_behaviour =
                            &*key.decode(scanner.text()) == "prefix_mismatch_behavior";
                        let value = scanner.value()?.slice(scanner.text());
                        self.drops |= is_behaviour && value == r#""drop_block""#;
                        Ok::<(), NotJson>(())
                    })?;
                }
                _ => scanner.skip()?,
            }
            Ok::<(), NotJson>(())
        })?;
        Ok(())
    }
}

/// Returns the version in the name of a Claude model; `None` if the name shows none. The version
/// follows the family; in the names of older models it precedes the family.
fn claude_version(model: &str) -> Option<(u32, u32)> {
    let name = model.to_ascii_lowercase();
    let words: Vec<&str> = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .collect();
    let family = words.iter().position(|word| FAMILIES.contains(word));
    let claude = words.iter().position(|word| *word == "claude");
    let after = |at: usize| version(words.get(at + 1..).unwrap_or_default());
    family.and_then(after).or_else(|| claude.and_then(after))
}

/// Reads a version from the words that begin with it. A longer number is a date.
fn version(words: &[&str]) -> Option<(u32, u32)> {
    let number = |at: usize| {
        let word = words.get(at).filter(|word| word.len() <= 2)?;
        word.parse::<u32>().ok()
    };
    Some((number(0)?, number(1).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    fn check(model: &str, option: &str, expect: ThinkingBinding) {
        let body = format!(r#"{{"model":"{model}",{option}"messages":[]}}"#);
        let conversation = Dialect::read_any(body.as_bytes()).unwrap();
        assert_eq!(conversation.thinking_binding(), expect, "{body}");
    }

    #[test]
    fn model_name_determines_thinking_binding() {
        use ThinkingBinding::{Never, Possible};
        for (model, expect) in [
            ("claude-opus-5-5", Possible),
            ("anthropic/claude-opus-5.5", Possible),
            ("us.anthropic.claude-sonnet-5-5-20261001-v1:0", Possible),
            ("claude-fable-5-1@20261001", Possible),
            ("claude-mythos-6", Possible),
            ("claude-opus-5", Never),
            ("claude-opus-5-20260801", Never),
            ("claude-sonnet-4@20250514", Never),
            ("claude-haiku-4-5-20251001", Never),
            ("anthropic/claude-3.7-sonnet:thinking", Never),
            ("claude-3-5-sonnet-20241022", Never),
            ("our-alias", Possible),
            ("claude-opus-latest", Possible),
        ] {
            check(model, "", expect);
        }
    }

    #[test]
    fn a_turn_begins_with_thinking_of_a_fixed_budget() {
        let begins = |model: &str, option: &str| {
            let body = format!(r#"{{"model":"{model}",{option}"messages":[]}}"#);
            let conversation = Dialect::read_any(body.as_bytes()).unwrap();
            conversation.turns_begin_with_thinking()
        };
        let manual = r#""thinking":{"type":"enabled","budget_tokens":2000},"#;
        let adaptive = r#""thinking":{"type":"adaptive"},"#;
        assert!(begins("our-alias", manual));
        assert!(begins("claude-opus-4-6", manual));
        assert!(begins(
            "anthropic/claude-sonnet-4.5",
            r#""reasoning":{"effort":"low"},"#
        ));
        assert!(!begins("claude-opus-4-6", adaptive));
        assert!(!begins("claude-opus-5-5", ""));
        assert!(!begins("our-alias", adaptive));
        assert!(!begins("deepseek-chat", ""));
    }

    #[test]
    fn thinking_option_of_the_request_takes_precedence() {
        use ThinkingBinding::{Dropped, Enforced, Never, Possible};
        let binding = |behaviour: &str| {
            format!(
                r#""thinking":{{"type":"adaptive","block_binding":{{"prefix_mismatch_behavior":"{behaviour}"}}}},"#
            )
        };
        check("claude-opus-5-5", &binding("drop_block"), Dropped);
        check("claude-opus-4-5", &binding("error"), Enforced);
        let manual = r#""thinking":{"type":"enabled","budget_tokens":2000},"#;
        check("our-alias", manual, Never);
        check("claude-opus-5-5", manual, Possible);
        check("our-alias", r#""thinking":"enabled","#, Possible);
    }
}
