//! The models that bind their reasoning, by name.

/// The major and the minor version of a GPT model.
pub(crate) type GptVersion = (u32, u32);

/// The first model that drops reasoning behind an edit.
pub(crate) const PREFIX_RULE: GptVersion = (6, 2);
/// The first model with updates of the configuration in its input.
pub(crate) const UPDATES: GptVersion = (6, 0);
/// The first model that compacts on request.
pub(crate) const COMPACTION: GptVersion = (5, 6);

/// Returns the version in the name of a GPT model, such as `openai/gpt-6.2-sol`; `None` for any other name.
pub(crate) fn gpt_version(model: &str) -> Option<GptVersion> {
    let name = model.rsplit('/').next()?.strip_prefix("gpt-")?;
    let number = name.split('-').next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether a model is a GPT model from this version on.
pub(crate) fn is_gpt_from(model: &str, first: GptVersion) -> bool {
    gpt_version(model).is_some_and(|version| version >= first)
}

/// nc-o-model: whether a model reads the reasoning of another: not that of a newer one.
pub(crate) fn gpt_reads(maker: &str, reader: &str) -> bool {
    maker == reader || gpt_version(maker) <= gpt_version(reader)
}

/// The reply to thinking that does not hold, for an account that enforces the binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaudeOutcome {
    /// A refusal with 400.
    Error,
    /// 200, without the thinking.
    Drop,
}

/// A Claude model that preserves thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaudeRules {
    /// The beginning of the model's name.
    name: &'static str,
    /// nc-a-outcome. The pages leave some models open: one of each is here.
    pub(crate) outcome: ClaudeOutcome,
    /// nc-a-account: whether thinking of another account is dropped.
    pub(crate) is_bound_to_account: bool,
}

const CLAUDE: [ClaudeRules; 7] = [
    claude("claude-fable-5-1", ClaudeOutcome::Error, false),
    claude("claude-fable-5-2", ClaudeOutcome::Error, false),
    claude("claude-haiku-5-5", ClaudeOutcome::Drop, true),
    claude("claude-mythos-5-1", ClaudeOutcome::Error, false),
    claude("claude-mythos-5-2", ClaudeOutcome::Error, false),
    claude("claude-opus-5-5", ClaudeOutcome::Error, false),
    claude("claude-sonnet-5-5", ClaudeOutcome::Drop, true),
];

const fn claude(name: &'static str, outcome: ClaudeOutcome, account: bool) -> ClaudeRules {
    ClaudeRules { name, outcome, is_bound_to_account: account }
}

/// Returns the rules of a Claude model that preserves thinking; `None` for any other model.
pub(crate) fn claude_rules(model: &str) -> Option<ClaudeRules> {
    let name = model.rsplit('/').next()?.replace('.', "-");
    CLAUDE.into_iter().find(|rules| name.starts_with(rules.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_names() {
        for (name, expect) in [
            ("gpt-6.2-sol", Some((6, 2))),
            ("openai/gpt-6.2-astra-2026-11-17", Some((6, 2))),
            ("gpt-6-luna", Some((6, 0))),
            ("gpt-5.6", Some((5, 6))),
            ("gpt-10.1", Some((10, 1))),
            ("gpt-4o", None),
            ("claude-opus-5-5", None),
        ] {
            assert_eq!(gpt_version(name), expect, "{name}");
        }
    }

    /// nc-o-model.
    #[test]
    fn an_older_model_does_not_read_a_newer_one() {
        for (maker, reader, expect) in [
            ("gpt-6.3", "gpt-6.2-sol", false),
            ("gpt-6.2-astra", "gpt-6.2-sol", true),
            ("gpt-6-astra", "gpt-6.2-sol", true),
        ] {
            assert_eq!(gpt_reads(maker, reader), expect, "{maker} {reader}");
        }
    }

    #[test]
    fn claude_models_that_preserve_thinking() {
        for (name, expect) in [
            ("claude-opus-5-5-20260801", Some(ClaudeOutcome::Error)),
            ("anthropic/claude-sonnet-5.5", Some(ClaudeOutcome::Drop)),
            ("claude-sonnet-5", None),
            ("claude-opus-4-6", None),
        ] {
            assert_eq!(claude_rules(name).map(|it| it.outcome), expect, "{name}");
        }
    }
}
