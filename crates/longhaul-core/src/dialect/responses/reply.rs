//! Reader of replies: events of a stream, and whole responses.
//!
//! Announcing and closing events repeat the request: instructions, tools, metadata. Only members of
//! the response itself are read, and no tree is built.

use std::borrow::Cow;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::chat_completions::reply as chat;
use crate::dialect::reply::{
    CompletionPart, EndFacts, EventInfo, EventKind, FinishReason, TextExtent,
};
use crate::dialect::responses::is_hosted;
use crate::dialect::usage::{Usage, UsageObject};
use crate::json::last_values::{SearchTerm, last_values};
use crate::json::lenient::{Lenient, is_non_empty, parse, parse_object};
use crate::sse::Event;

/// Classifies an event, or a whole body as an event.
pub(crate) fn classify_event(event: Event<'_>) -> EventInfo {
    let data = event.data.trim_ascii();
    if event.name != b"error"
        && event.dropped == 0
        && let Some(reply) = Reply::parse(data)
    {
        return reply.event_info();
    }
    // An error, a mark, or an answer in the shape of the sibling API.
    chat::classify_event(event)
}

/// Reads an event, or a whole response. Returns `None` for anything else.
pub(crate) fn read_completion(json: &[u8]) -> Option<CompletionPart<'_>> {
    let Some(reply) = Reply::parse(json) else {
        return chat::read_completion(json);
    };
    let response = reply.response.as_ref();
    let error = response.and_then(|response| response.error);
    let error = error.or(reply.envelope.error).filter(|error| is_non_empty(error));
    let item = reply.envelope.item.and_then(parse::<OutputItem<'_>>);
    let (extent, text) = match reply.event_type {
        Some("response.output_text.delta") => {
            (TextExtent::Piece, reply.envelope.delta.and_then(text_of))
        }
        // Some servers state the text of an item in no event but its last.
        Some("response.output_item.done") => {
            (TextExtent::Item, item.as_ref().map(OutputItem::text))
        }
        Some(_) | None => (TextExtent::Reply, response.map(ResponseObject::text)),
    };
    let compactions = match reply.event_type {
        Some("response.output_item.done") => reply.envelope.item.into_iter().collect(),
        Some("response.output_item.added") => Vec::new(),
        Some(_) | None => response.and_then(|it| it.output.clone()).unwrap_or_default(),
    };
    let is_compaction = |item: &&RawValue| {
        parse::<OutputItem<'_>>(item).is_some_and(|item| item.item_type.0 == Some("compaction"))
    };
    let is_flat_error = reply.event_type == Some("error") && error.is_none();
    Some(CompletionPart {
        compactions: compactions.into_iter().filter(is_compaction).map(RawValue::get).collect(),
        error: if is_flat_error {
            str::from_utf8(json).ok().map(str::trim)
        } else {
            error.map(RawValue::get)
        },
        finish: reply.finish(),
        has_tool_calls: item.is_some_and(|item| item.is_call())
            || response.is_some_and(ResponseObject::has_calls),
        extent,
        text: text.unwrap_or_default(),
        usage: response.and_then(ResponseObject::usage),
    })
}

/// Members of an event, or of a whole response.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    event_type: Lenient<&'a str>,
    object: Lenient<&'a str>,
    response: Option<&'a RawValue>,
    delta: Option<&'a RawValue>,
    item: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// An event of a stream, or a whole response.
struct Reply<'a> {
    /// The type of an event; `None` for a whole response.
    event_type: Option<&'a str>,
    response: Option<ResponseObject<'a>>,
    envelope: Envelope<'a>,
}

impl<'a> Reply<'a> {
    /// Parses an event or a whole response. Returns `None` for anything else.
    fn parse(json: &'a [u8]) -> Option<Self> {
        let envelope: Envelope<'a> = parse_object(json)?;
        let event_type = envelope.event_type.0;
        let response = if event_type.is_some() {
            envelope.response.and_then(parse)
        } else if envelope.object.0 == Some("response") {
            Some(serde_json::from_slice(json).ok()?)
        } else {
            return None;
        };
        Some(Self { event_type, response, envelope })
    }

    fn finish(&self) -> Option<FinishReason> {
        let is_closing = match self.event_type {
            Some(event_type) => CLOSING_EVENTS.contains(&event_type),
            None => true,
        };
        self.response.as_ref().filter(|_| is_closing)?.finish()
    }

    fn event_info(&self) -> EventInfo {
        let usage = self.response.as_ref().and_then(ResponseObject::usage);
        EventInfo {
            kind: self.kind(),
            finish: self.finish(),
            input: usage.map(|usage| usage.input),
            output: usage.and_then(|usage| usage.output),
        }
    }

    fn kind(&self) -> EventKind {
        let has_failed = self.response.as_ref().is_some_and(ResponseObject::has_failed);
        if has_failed || self.envelope.error.is_some_and(is_non_empty) {
            return EventKind::Error;
        }
        match self.event_type {
            Some("error" | "response.failed") => EventKind::Error,
            Some(event_type) if ANNOUNCING_EVENTS.split(' ').any(|it| it == event_type) => {
                EventKind::Empty
            }
            Some(event_type) if !CLOSING_EVENTS.contains(&event_type) => {
                // Keep-alives and quotas of gateways have types of their own.
                if event_type.starts_with("response.") {
                    EventKind::Content
                } else {
                    EventKind::Empty
                }
            }
            Some(_) | None => match &self.response {
                Some(response) if response.has_output() || response.is_pending() => {
                    EventKind::Content
                }
                Some(response) if response.usage.0.is_some() => EventKind::Usage,
                Some(_) | None => EventKind::Empty,
            },
        }
    }
}

/// Events before the first content. The backend of a `ChatGPT` login sends `response.metadata`
/// directly after `response.created`.
const ANNOUNCING_EVENTS: &str =
    "response.created response.in_progress response.metadata response.queued";

/// Events that end a stream: `response.` and the status of the response.
const CLOSING_EVENTS: [&str; 3] = ["response.completed", "response.failed", "response.incomplete"];

/// A response. Its members that repeat the request are skipped.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct ResponseObject<'a> {
    status: Lenient<&'a str>,
    error: Option<&'a RawValue>,
    incomplete_details: Lenient<IncompleteDetails<'a>>,
    output: Option<Vec<&'a RawValue>>,
    usage: Lenient<UsageObject<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct IncompleteDetails<'a> {
    reason: Lenient<&'a str>,
}

impl<'a> ResponseObject<'a> {
    fn items(&self) -> impl Iterator<Item = OutputItem<'a>> {
        self.output.iter().flatten().copied().filter_map(parse)
    }

    fn has_calls(&self) -> bool {
        self.items().any(|item| item.is_call())
    }

    fn has_failed(&self) -> bool {
        self.status.0 == Some("failed") || self.error.is_some_and(is_non_empty)
    }

    fn has_output(&self) -> bool {
        let generated = self.usage().and_then(|usage| usage.output);
        self.output.as_ref().is_some_and(|all| !all.is_empty())
            || generated.is_some_and(|tokens| tokens > 0)
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.0.as_ref()?.usage()
    }

    /// Whether the answer comes later, to another request.
    fn is_pending(&self) -> bool {
        matches!(self.status.0, Some("queued" | "in_progress"))
    }

    fn finish(&self) -> Option<FinishReason> {
        let reason = self.incomplete_details.0.as_ref().and_then(|it| it.reason.0);
        finish_reason(self.status.0?, reason, self.has_calls())
    }

    fn text(&self) -> Cow<'a, str> {
        let texts = self.items().map(|item| item.text());
        texts.fold(Cow::default(), |all, text| all + text)
    }
}

/// Returns the finish reason of a response with this status, and this reason for being incomplete.
fn finish_reason(status: &str, reason: Option<&str>, has_calls: bool) -> Option<FinishReason> {
    match status {
        "completed" if has_calls => Some(FinishReason::ToolCalls),
        "completed" => Some(FinishReason::Stop),
        // OpenAI gives the reason for the limit of the client and for a full window alike.
        "incomplete" => match reason {
            Some("max_output_tokens" | "max_tokens" | "length") => Some(FinishReason::Length),
            Some(FinishReason::WINDOW_FULL) => Some(FinishReason::WindowFull),
            Some(_) | None => Some(FinishReason::Other),
        },
        "failed" | "cancelled" => Some(FinishReason::Other),
        _ => None,
    }
}

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct OutputItem<'a> {
    #[serde(rename = "type")]
    item_type: Lenient<&'a str>,
    content: Option<Vec<&'a RawValue>>,
}

impl<'a> OutputItem<'a> {
    /// Returns the text of the item, if it is a message of the model.
    fn text(&self) -> Cow<'a, str> {
        let parts = self.content.iter().flatten().copied();
        let texts = parts.filter_map(|part| {
            let part = parse::<OutputPart<'_>>(part)?;
            part.text.filter(|_| part.part_type.0 == Some("output_text")).and_then(text_of)
        });
        texts.fold(Cow::default(), |all, text| all + text)
    }

    /// Whether the client has to answer the item.
    fn is_call(&self) -> bool {
        self.item_type.0.is_some_and(|name| name.ends_with("_call") && !is_hosted(name))
    }
}

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct OutputPart<'a> {
    #[serde(rename = "type")]
    part_type: Lenient<&'a str>,
    text: Option<&'a RawValue>,
}

fn text_of(json: &RawValue) -> Option<Cow<'_, str>> {
    let text: String = serde_json::from_str(json.get()).ok()?;
    Some(text.into())
}

static INCOMPLETE_DETAILS: SearchTerm = SearchTerm::new(|| Finder::new(r#""incomplete_details""#));
static STATUS: SearchTerm = SearchTerm::new(|| Finder::new(r#""status""#));
static USAGE: SearchTerm = SearchTerm::new(|| Finder::new(r#""usage""#));
/// Start of the type of every event that ends a stream, and of some others.
static COMPLETE: SearchTerm = SearchTerm::new(|| Finder::new("complete"));

/// Reads the facts near the top of a JSON text, which may lack its beginning. Items of the output
/// have statuses too, at the depth of those of a response.
pub(crate) fn read_end(json: &[u8]) -> EndFacts {
    let usage = last_values(json, &USAGE).find_map(|usage: UsageObject<'_>| usage.usage());
    let mut details = last_values(json, &INCOMPLETE_DETAILS);
    let reason = details.find_map(|details: IncompleteDetails<'_>| details.reason.0);
    let statuses: Vec<&str> = last_values(json, &STATUS).collect();
    let status = match reason {
        Some(_) => Some("incomplete"),
        None => ["incomplete", "failed", "completed"].into_iter().find(|it| statuses.contains(it)),
    };
    EndFacts { finish: status.and_then(|status| finish_reason(status, reason, false)), usage }
}

/// Returns the finish reason that the first bytes of a closing event state. Returns `None` for any
/// other event.
pub(crate) fn finish_from_start(event: &[u8]) -> Option<FinishReason> {
    let start = String::from_utf8_lossy(event);
    let mut closing = CLOSING_EVENTS.into_iter();
    let event_type = closing.find(|name| start.contains(&format!("\"{name}\"")))?;
    let status = event_type.strip_prefix("response.")?;
    let reason = start.split_once(r#""incomplete_details""#).and_then(|(_, rest)| {
        let details = rest.trim_start().strip_prefix(':')?.trim_start();
        let mut values =
            serde_json::Deserializer::from_str(details).into_iter::<IncompleteDetails<'_>>();
        values.next()?.ok()?.reason.0
    });
    finish_reason(status, reason, false)
}

/// Whether any of these events may state a fact that `later` lacks.
pub(crate) fn may_add_to(later: EndFacts, events: &[u8]) -> bool {
    (later.finish.is_none() && COMPLETE.occurs_in(events))
        || (later.usage.is_none() && USAGE.occurs_in(events))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod end_tests {
    use super::*;

    #[test]
    fn the_end_of_a_closing_event_states_usage() {
        let end = br#"s":[]}],"usage":{"input_tokens":51097,"input_tokens_details":{"cached_tokens":49792},"output_tokens":12,"total_tokens":51109},"user":null,"metadata":{}}}"#;
        let facts = read_end(end);
        let usage = facts.usage.unwrap();
        assert_eq!((usage.input, usage.output, usage.cached), (51_097, Some(12), Some(49_792)));
        assert_eq!(facts.finish, None);
    }

    #[test]
    fn the_start_of_a_closing_event_states_the_finish_reason() {
        let start = |event_type: &str, details: &str| {
            let event = format!(
                r#"{{"type":"{event_type}","sequence_number":9,"response":{{"id":"resp_1","object":"response","incomplete_details":{details},"instructions":"be"#
            );
            finish_from_start(event.as_bytes())
        };
        assert_eq!(start("response.completed", "null"), Some(FinishReason::Stop));
        assert_eq!(
            start("response.incomplete", r#"{"reason":"max_output_tokens"}"#),
            Some(FinishReason::Length)
        );
        assert_eq!(
            start("response.incomplete", r#"{"reason":"content_filter"}"#),
            Some(FinishReason::Other)
        );
        assert_eq!(start("response.output_item.done", "null"), None);
    }

    #[test]
    fn a_whole_response_states_usage_and_finish_reason() {
        for (status, details, expect) in [
            ("completed", "null", Some(FinishReason::Stop)),
            ("incomplete", r#"{"reason":"max_output_tokens"}"#, Some(FinishReason::Length)),
            ("in_progress", "null", None),
        ] {
            let body = format!(
                r#"{{"object":"response","status":"{status}","incomplete_details":{details},"output":[],"usage":{{"input_tokens":1,"output_tokens":0}}}}"#
            );
            let facts = read_end(body.as_bytes());
            assert_eq!(facts.finish, expect, "{status}");
            assert_eq!(facts.usage.map(|usage| usage.input), Some(1));
        }
    }
}
