//! Whether a provider binds thinking to the bytes before it, as far as a request shows.

use crate::conversation::Conversation;
use crate::dialect::Dialect;
use crate::json::scanner::members;
use std::sync::LazyLock;

/// Rules of models, with their sources.
const MODELS: &str = include_str!("thinking_models.txt");
/// Newest version of a Claude model whose only thinking has a fixed budget.
const LAST_MANUAL: (u32, u32) = (4, 5);

struct ModelRow {
    names: Vec<&'static str>,
    /// First version; `None` matches a name without a version too.
    version: Option<(u32, u32)>,
    /// Rule of the provider for the reasoning after an edit.
    rule: &'static str,
}

static ROWS: LazyLock<Vec<ModelRow>> = LazyLock::new(|| {
    let rows = MODELS.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| {
        let mut columns = line.split('\t');
        let names = columns.next()?.split(',').collect();
        let version: Vec<&str> = columns.next()?.split('.').collect();
        Some(ModelRow { names, version: version_of(&version), rule: columns.next()? })
    })
    .collect()
});

/// Returns the rule of a model; `None` if its name shows none.
fn rule_of(model: &str) -> Option<&'static str> {
    let name = model.to_ascii_lowercase();
    let words = words_of(&name);
    let is_row = |row: &&ModelRow| match row.version {
        Some(from) => version_after(&words, &row.names).is_some_and(|version| version >= from),
        None => row.names.iter().any(|of| name.contains(of)),
    };
    ROWS.iter().find(is_row).map(|row| row.rule)
}

/// Binding of thinking to the bytes before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ThinkingBinding {
    /// By the client's request or the model's rule, the provider drops thinking that no longer fits.
    Dropped,
    /// By the client's request, the provider refuses such thinking.
    Enforced,
    /// The model binds no thinking.
    Never,
    /// The model may bind thinking, and the provider may refuse it.
    Possible,
}

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
        let name = self.model().to_ascii_lowercase();
        let version = || version_after(&words_of(&name), &ROWS.first()?.names);
        self.thinking_option().is_manual || version().is_some_and(is_manual)
    }

    /// Whether the request enables thinking, or sets its options.
    pub fn asks_for_thinking(&self) -> bool {
        !self.params().thinking.is_empty()
    }

    /// Whether thinking may be bound, and no rule tells by the model's name. Without the request's options,
    /// nothing then shows whether thinking has to go after an edit, or to stay in an open turn.
    pub fn has_thinking_without_rule(&self) -> bool {
        self.has_bound_thinking() && rule_of(&self.model()).is_none()
    }

    fn thinking_option(&self) -> ThinkingOption {
        let mut option = ThinkingOption::default();
        for (_, json) in &self.params().thinking {
            for (key, value) in members(json.slice(self.body())) {
                match &*key {
                    "type" => option.is_manual |= value == r#""enabled""#,
                    "block_binding" if value.starts_with('{') => {
                        option.has_binding = true;
                        option.drops |= members(value).any(|(key, behaviour)| {
                            key == "prefix_mismatch_behavior" && behaviour == r#""drop_block""#
                        });
                    }
                    _ => {}
                }
            }
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
        let is_responses = self.dialect() == Dialect::Responses;
        match rule_of(&self.model()) {
            Some("refused") => ThinkingBinding::Possible,
            Some("dropped") if is_responses => ThinkingBinding::Dropped,
            Some(_) => ThinkingBinding::Never,
            None if option.is_manual || is_responses => ThinkingBinding::Never,
            None => ThinkingBinding::Possible,
        }
    }
}

/// Returns the words of a model's name.
pub(super) fn words_of(model: &str) -> Vec<&str> {
    model.split(|letter: char| !letter.is_ascii_alphanumeric()).collect()
}

/// Returns the version that follows the first of `names` with one. In the names of older Claude models, the
/// version precedes the family.
pub(super) fn version_after(words: &[&str], names: &[&str]) -> Option<(u32, u32)> {
    names.iter().find_map(|name| {
        let at = words.iter().position(|word| word == name)?;
        version_of(words.get(at + 1..)?)
    })
}

/// Reads a version from the words that begin with it. A longer number is a date.
pub(super) fn version_of(words: &[&str]) -> Option<(u32, u32)> {
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
    fn the_responses_api_drops_reasoning_of_newer_models() {
        use ThinkingBinding::{Dropped, Never};
        let check = |model: &str, member: &str, expect| {
            let body = format!(r#"{{"model":"{model}","{member}":[]}}"#);
            let conversation = Dialect::read_any(body.as_bytes()).unwrap();
            assert_eq!(conversation.thinking_binding(), expect, "{body}");
        };
        for (model, expect) in [
            ("gpt-6.2-astra", Dropped),
            ("openai/gpt-6.2-sol-2026-11-17", Dropped),
            ("gpt-7", Dropped),
            ("gpt-6-astra", Never),
            ("gpt-5.6-sol", Never),
            ("gpt-4o", Never),
            ("our-alias", Never),
        ] {
            check(model, "input", expect);
            check(
                model,
                "messages",
                if model == "our-alias" { ThinkingBinding::Possible } else { Never },
            );
        }
        let rows = MODELS.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(ROWS.len(), rows.count());
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
        assert!(begins("anthropic/claude-sonnet-4.5", r#""reasoning":{"effort":"low"},"#));
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
