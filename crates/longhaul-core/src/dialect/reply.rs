//! Facts that replies state in every dialect, and the dispatch to the reader of each dialect.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Deserializer;

use crate::dialect::responses::reply as responses;
use crate::dialect::usage::Usage;
use crate::dialect::{Dialect, dispatch};
use crate::sse::Event;

/// Kind of an event, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Text, reasoning, a refusal or a tool call: the model is answering.
    Content,
    /// The mark that ends a stream.
    Done,
    /// An event without content: a role, a finish reason, a keep-alive, the announcement of a
    /// response.
    Empty,
    /// An error, or data that is not a piece of a reply; `overflow` classifies it.
    Error,
    /// Token counts alone.
    Usage,
}

/// Kind, finish reason and token counts of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventInfo {
    /// Kind of the event.
    pub kind: EventKind,
    /// Finish reason, if the event states one.
    pub finish: Option<FinishReason>,
    /// Prompt tokens as the provider counts them.
    pub input: Option<u32>,
    /// Generated tokens as the provider counts them.
    pub output: Option<u32>,
}

impl EventInfo {
    /// Creates the information of an event that states its kind only.
    pub(super) fn from_kind(kind: EventKind) -> Self {
        Self { kind, finish: None, input: None, output: None }
    }
}

/// Text and facts of a completion, or of a piece of a streamed one.
#[derive(Debug)]
pub struct CompletionPart<'a> {
    /// The provider's own compactions, as JSON.
    pub compactions: Vec<&'a str>,
    /// The error, as JSON, if there is one.
    pub error: Option<&'a str>,
    /// Finish reason, if stated.
    pub finish: Option<FinishReason>,
    /// Whether the model calls a tool.
    pub has_tool_calls: bool,
    /// Generated text, without reasoning.
    pub text: Cow<'a, str>,
    /// Part of the reply that the text belongs to.
    pub extent: TextExtent,
    /// Usage, if reported.
    pub usage: Option<Usage>,
}

/// Part of a reply that a text belongs to. A stream may state the same text at each extent: the smallest
/// that states any counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TextExtent {
    /// Text that follows the pieces before it.
    #[default]
    Piece,
    /// All text of an item.
    Item,
    /// All text of the reply.
    Reply,
}

/// Facts at the end of a reply.
#[derive(Clone, Copy, Debug)]
pub struct EndFacts {
    /// Finish reason, if stated.
    pub finish: Option<FinishReason>,
    /// Usage, if reported.
    pub usage: Option<Usage>,
}

impl Dialect {
    /// Returns the finish reason that the first bytes of a stream's last event state. Returns `None` for
    /// dialects whose events are short enough to be kept whole.
    pub(crate) fn finish_from_start(self, event: &[u8]) -> Option<FinishReason> {
        match self {
            Self::ChatCompletions | Self::Messages => None,
            Self::Responses => responses::finish_from_start(event),
        }
    }

    /// Classifies an event, or a whole body as an event. Text is skipped and never copied.
    pub fn classify_event(self, event: Event<'_>) -> EventInfo {
        dispatch!(self, reply::classify_event(event))
    }

    /// Reads the data of an event, or a whole body. Returns `None` for anything but a piece of a
    /// completion.
    pub fn read_completion(self, json: &[u8]) -> Option<CompletionPart<'_>> {
        dispatch!(self, reply::read_completion(json))
    }

    /// Returns the last facts near the top of a JSON text, which may lack its beginning.
    pub fn read_end(self, json: &[u8]) -> EndFacts {
        dispatch!(self, reply::read_end(json))
    }

    /// Whether any of these events may state a fact that `later`, the facts of the events after
    /// them, lacks or yields to. Cheap: nothing is parsed.
    pub fn may_add_to_end(self, events: &[u8], later: EndFacts) -> bool {
        dispatch!(self, reply::may_add_to(later, events))
    }
}

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
            Self::WINDOW_FULL | "context_length" | "model_length" => Self::WindowFull,
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
            (FinishReason::Other, &["content_filter", "error", "", "Stop"]),
            (FinishReason::Stop, &["end_turn", "eos", "stop", "stop_sequence"]),
            (FinishReason::ToolCalls, &["function_call", "tool_calls", "tool_use"]),
            (
                FinishReason::WindowFull,
                &["model_context_window_exceeded", "context_length", "model_length"],
            ),
        ] {
            for reason in reasons {
                assert_eq!(FinishReason::parse(reason), finish, "{reason}");
            }
        }
    }
}
