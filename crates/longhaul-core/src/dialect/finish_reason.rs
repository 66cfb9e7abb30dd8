//! Finish reasons: one table for the words of every provider.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Deserializer;

/// Reason why an answer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FinishReason {
    /// The output budget was used up, or the room in the window.
    Length,
    /// The answer was withheld or aborted, or the reason is unknown.
    Other,
    /// The model finished its answer.
    Stop,
    /// The model calls a tool.
    ToolCalls,
    /// The server states that the window is full.
    WindowFull,
}

impl FinishReason {
    /// Reason that servers give for a full window.
    pub const WINDOW_FULL: &str = "model_context_window_exceeded";

    /// Parses a finish reason, or Anthropic's stop reason. Unknown reasons become [`Self::Other`].
    pub fn parse(reason: &str) -> Self {
        match reason {
            "length" | "max_tokens" => Self::Length,
            "end_turn" | "eos" | "stop" | "stop_sequence" => Self::Stop,
            "function_call" | "tool_calls" | "tool_use" => Self::ToolCalls,
            Self::WINDOW_FULL => Self::WindowFull,
            _ => Self::Other,
        }
    }
}

impl<'de> Deserialize<'de> for FinishReason {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Cow::deserialize(from).map(|reason: Cow<'_, str>| Self::parse(&reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_finish_reasons_of_every_provider() {
        for (finish, reasons) in [
            (FinishReason::Length, &["length", "max_tokens"][..]),
            (
                FinishReason::Other,
                &["content_filter", "error", "", "Stop"],
            ),
            (
                FinishReason::Stop,
                &["end_turn", "eos", "stop", "stop_sequence"],
            ),
            (
                FinishReason::ToolCalls,
                &["function_call", "tool_calls", "tool_use"],
            ),
            (FinishReason::WindowFull, &["model_context_window_exceeded"]),
        ] {
            for reason in reasons {
                assert_eq!(FinishReason::parse(reason), finish, "{reason}");
            }
        }
    }
}
