//! Every word that we put into a conversation, and how we know our own again.
//!
//! Changing one changes forwarded bytes: see [`FORM_VERSION`](super::FORM_VERSION).

use super::tokens::Tokens;

/// What stands for a cleared tool result: the wording of OpenCode and tunacode, to the letter, which
/// models have met.
pub const CLEARED: &str = "[Old tool result content cleared]";

/// How a described placeholder begins.
const CLEARED_STEM: &str = "[Old tool result content cleared";

/// A result that names no content of its own but points at an earlier read is short.
const POINTER_TOKENS: Tokens = Tokens::new(125);

/// What tools answer when a file is as they last showed it. From Claude Code and Hermes, whose
/// users lost the first read to a clearing (compaction complaint 29).
const POINTERS: [&str; 5] = [
    "unchanged since",
    "not changed since",
    "not been modified since",
    "already been read",
    "identical to the previous read",
];

/// How a tool result that reports a failure begins.
const FAILURES: [&str; 5] = [
    "error",
    "fatal",
    "traceback (most recent call last)",
    "failed",
    "panic",
];

/// A placeholder that names the call whose result it stands for.
pub fn cleared_result_of(tool: &str, argument: Option<&str>, tokens: Tokens) -> String {
    let argument = argument.map(|text| format!(" {text}")).unwrap_or_default();
    format!("{CLEARED_STEM}: {tool}{argument}, about {tokens} tokens]")
}

/// Whether `text` is a placeholder of ours, or of an agent that uses the same words.
pub fn is_placeholder(text: &str) -> bool {
    text.strip_prefix(CLEARED_STEM)
        .is_some_and(|rest| rest == "]" || (rest.starts_with(':') && rest.ends_with(']')))
}

/// Whether a result of so many tokens only points at an earlier read of the same thing.
pub fn points_at_earlier_read(tokens: Tokens, text: impl FnOnce() -> String) -> bool {
    tokens <= POINTER_TOKENS && {
        let text = text().to_lowercase();
        POINTERS.iter().any(|words| text.contains(words))
    }
}

/// Whether a result reports a failure, as far as its first word tells.
pub fn reports_failure(text: &str) -> bool {
    let start: String = text
        .trim_start()
        .chars()
        .take(40)
        .collect::<String>()
        .to_lowercase();
    FAILURES.iter().any(|word| start.starts_with(word))
}
