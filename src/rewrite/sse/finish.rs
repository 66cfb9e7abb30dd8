//! Why a model's answer ended: one table of every provider's words for it.

/// Why an answer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FinishReason {
    /// The output budget was used up, or the room in the window.
    Length,
    /// It was withheld, broken off, or ended for a reason that is not known here.
    Other,
    /// The model came to its end.
    Stop,
    /// The model wants to call a tool.
    ToolCalls,
    /// The window is full, and the server says so.
    WindowFull,
}

impl FinishReason {
    /// What a server says of a window that is full.
    pub const WINDOW_FULL: &str = "model_context_window_exceeded";

    /// What a finish reason means, or a stop reason, as Anthropic calls it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_known_in_every_provider_s_words() {
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
