//! Expected reactions to recorded replies, from their fixture.

use serde::Deserialize;

use crate::recorded::Recorded;

/// Possible reaction to a reply.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Compact,
    FewerBytes,
    /// A limit on images or documents.
    FewerImages,
    Leave,
    Malformed,
    /// A text is longer than the API allows; no text of the test is.
    ShorterText,
    SmallerOutput,
    /// A limit on one request of the account.
    SmallerRequest,
}

/// Expectations of `fixtures/replies.jsonl` for a reply.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Expected {
    pub(super) file: String,
    pub(super) answer: Answer,
    pub(super) limit: Option<u32>,
    pub(super) used: Option<u32>,
    pub(super) output: Option<u32>,
    pub(super) excess: Option<u32>,
    #[serde(default)]
    pub(super) silent: bool,
}

impl Expected {
    pub(super) fn of(recorded: &Recorded) -> Self {
        serde_json::from_value(recorded.about.clone()).unwrap()
    }

    /// Whether the window, less the output, is too small for any conversation, even with the newest
    /// result clipped as far as possible.
    pub(super) fn is_hopeless(&self) -> bool {
        let output = self.output.unwrap_or(0);
        self.limit.is_some_and(|limit| limit - output.min(limit / 2) <= 512)
    }
}
