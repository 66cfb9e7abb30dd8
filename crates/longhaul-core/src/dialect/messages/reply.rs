//! Reader of replies: events of a stream, and whole messages.
//!
//! Gateways mix in events of sibling APIs. Data without a type of this API is read as a chunk of
//! chat completions.

use std::borrow::Cow;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::chat_completions::reply as chat;
use crate::dialect::reply::{
    CompletionPart, EndFacts, EventInfo, EventKind, FinishReason, TextExtent,
};
use crate::dialect::usage::{Usage, UsageObject};
use crate::json::last_values::{SearchTerm, last_values};
use crate::json::lenient::{Lenient, is_non_empty, parse, parse_object};
use crate::sse::Event;

/// Classifies an event. Text and arguments are skipped and never copied.
pub(crate) fn classify_event(event: Event<'_>) -> EventInfo {
    let data = event.data.trim_ascii();
    if event.dropped == 0
        && event.name != b"error"
        && let Some(part) = parse_object::<StreamPart<'_>>(data)
        && let Some(info) = part.event_info()
    {
        return info;
    }
    chat::classify_event(event)
}

/// Reads an event's data or a whole message. Returns `None` for anything else.
pub(crate) fn read_completion(json: &[u8]) -> Option<CompletionPart<'_>> {
    let part = parse_object::<StreamPart<'_>>(json);
    let Some((kind, part)) = part.and_then(|part| Some((part.kind()?, part))) else {
        return chat::read_completion(json);
    };
    let blocks = part.blocks();
    let texts = blocks.iter().chain(&part.delta);
    let is_text = |name: &str| matches!(name, "text" | "text_delta");
    let texts = texts.filter(|block| block.name.0.as_deref().is_some_and(is_text));
    let text = texts.filter_map(|block| block.text.0.clone());
    let text = text.fold(Cow::default(), |all, text| all + text);
    let whole = part.content.iter().flatten().chain(&part.content_block);
    let is_compaction = |block: &&&RawValue| {
        let block = parse::<Block<'_>>(block);
        block.is_some_and(|block| block.name.0.as_deref() == Some("compaction"))
    };
    Some(CompletionPart {
        compactions: whole.filter(is_compaction).map(|block| block.get()).collect(),
        extent: TextExtent::Piece,
        error: part.error.map(RawValue::get),
        finish: part.finish(),
        has_tool_calls: blocks.iter().any(|block| block.name.0.as_deref() == Some("tool_use")),
        text,
        usage: part.usage(kind),
    })
}

/// Kinds of data, by their type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PartType {
    /// A block, or the change of one.
    Block,
    Error,
    Message,
    MessageStart,
    MessageStop,
    /// The end of a message, or a keep-alive.
    Other,
}

/// The data of an event, or a whole message.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct StreamPart<'a> {
    #[serde(rename = "type")]
    name: Lenient<Cow<'a, str>>,
    content: Option<Vec<&'a RawValue>>,
    content_block: Option<&'a RawValue>,
    delta: Option<Block<'a>>,
    error: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    stop_reason: Lenient<FinishReason>,
    usage: Option<&'a RawValue>,
}

impl<'a> StreamPart<'a> {
    fn kind(&self) -> Option<PartType> {
        Some(match self.name.0.as_deref()? {
            "content_block_start" | "content_block_delta" | "content_block_stop" => PartType::Block,
            "error" => PartType::Error,
            "message" => PartType::Message,
            "message_delta" | "ping" => PartType::Other,
            "message_start" => PartType::MessageStart,
            "message_stop" => PartType::MessageStop,
            // llama.cpp sends the error object itself.
            other if other.ends_with("_error") => PartType::Error,
            _ => return None,
        })
    }

    /// Returns the information of an event. `None` for data of an unknown type.
    fn event_info(&self) -> Option<EventInfo> {
        let part = self.kind()?;
        let has_content = match part {
            PartType::Block => true,
            PartType::Message => self.content.as_ref().is_some_and(|all| !all.is_empty()),
            PartType::MessageStart => {
                self.started().is_some_and(|it| it.content.is_some_and(|all| !all.is_empty()))
            }
            PartType::Error | PartType::MessageStop | PartType::Other => false,
        };
        let usage = self.usage(part);
        let kind = match part {
            _ if has_content => EventKind::Content,
            PartType::Error => EventKind::Error,
            _ if self.error.is_some_and(is_non_empty) => EventKind::Error,
            PartType::MessageStop => EventKind::Done,
            PartType::Block | PartType::Message | PartType::MessageStart | PartType::Other => {
                EventKind::Empty
            }
        };
        Some(EventInfo {
            kind,
            finish: self.finish(),
            // Some servers state zero at the start and the count at the end.
            input: usage.map(|usage| usage.input).filter(|input| *input > 0),
            output: usage.and_then(|usage| usage.output),
        })
    }

    fn started(&self) -> Option<Self> {
        parse_object(self.message?.get().as_bytes())
    }

    fn usage(&self, kind: PartType) -> Option<Usage> {
        if kind == PartType::MessageStart {
            // The output stated there is a placeholder.
            let usage = self.started()?.usage.and_then(read_usage)?;
            return Some(usage.without_output());
        }
        self.usage.and_then(read_usage)
    }

    fn finish(&self) -> Option<FinishReason> {
        let stated = self.delta.as_ref().and_then(|delta| delta.stop_reason.0);
        stated.or(self.stop_reason.0)
    }

    /// Returns the blocks that the data holds whole.
    fn blocks(&self) -> Vec<Block<'a>> {
        let whole = self.content.iter().flatten().chain(&self.content_block);
        whole.copied().filter_map(parse).collect()
    }
}

/// A block, or the change of one.
#[derive(Clone, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct Block<'a> {
    #[serde(rename = "type")]
    name: Lenient<Cow<'a, str>>,
    stop_reason: Lenient<FinishReason>,
    text: Lenient<Cow<'a, str>>,
}

static MESSAGE_START: SearchTerm = SearchTerm::new(|| Finder::new(r#""message_start""#));
static USAGE: SearchTerm = SearchTerm::new(|| Finder::new(r#""usage""#));

/// Reads the facts near the top of a JSON text, which may lack its beginning.
pub(crate) fn read_end(json: &[u8]) -> EndFacts {
    let usage = last_values(json, &USAGE).find_map(read_usage);
    let usage = usage
        .map(|usage| if MESSAGE_START.occurs_in(json) { usage.without_output() } else { usage });
    EndFacts { usage, ..chat::read_end(json) }
}

/// Whether any of these events may state a fact that `later` lacks, or a full window.
pub(crate) fn may_add_to(later: EndFacts, events: &[u8]) -> bool {
    let usage = later.usage.filter(Usage::counts_prompt);
    chat::may_add_to(EndFacts { usage, ..later }, events)
}

/// Reads a `usage` object. The last one of a stream may count the output alone; the prompt is zero
/// then.
pub(super) fn read_usage(json: &RawValue) -> Option<Usage> {
    let usage: UsageObject<'_> = parse(json)?;
    if let Some(compaction) = compaction_usage(json) {
        return Some(compaction);
    }
    usage.usage().or_else(|| Some(Usage { output: Some(usage.output()?), ..Usage::default() }))
}

/// Members of a `usage` object with the counts of each iteration.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct Iterations<'a> {
    iterations: Vec<&'a RawValue>,
    output_tokens: u64,
}

/// Returns the usage of a reply that is a compaction alone: the counts beside the iterations are zero.
fn compaction_usage(json: &RawValue) -> Option<Usage> {
    let usage: Iterations<'_> = parse(json)?;
    let [only] = &*usage.iterations else {
        return None;
    };
    let only = (usage.output_tokens == 0).then(|| parse::<UsageObject<'_>>(only))?;
    only?.usage()
}

#[cfg(test)]
mod tests;
