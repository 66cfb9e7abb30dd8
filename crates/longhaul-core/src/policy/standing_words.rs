//! Words that stay in a replacement text, whatever the history says.

use serde::{Deserialize, Serialize};

/// Words that stay in a replacement text by a setting or a wish, whatever the history says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StandingWords {
    /// Names of files of rules, in addition to the usual ones.
    pub rule_files: Vec<String>,
    /// Texts that a person or the agent wants to stay. They count from the next replacement text on.
    pub kept: Vec<KeptText>,
}

/// No words that stay.
pub static NO_STANDING_WORDS: StandingWords =
    StandingWords { rule_files: Vec::new(), kept: Vec::new() };

/// A text that is wanted to stay.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeptText {
    /// The text.
    pub text: String,
    /// Whether the agent wants the text to stay; otherwise a person does.
    pub by_agent: bool,
}
