//! Reader of replies: chunks of a stream, and whole completions.
//!
//! Gateways mix in keys and events of sibling APIs, so the reader recognises those too. Everything
//! else is skipped. The reader keeps one slice for each choice and part and builds no tree. A reply
//! may consist of brackets only, and a tree of those takes forty times their size.

mod message;

use std::borrow::Cow;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::reply::{
    CompletionPart, EndFacts, EventInfo, EventKind, FinishReason, TextExtent,
};
use crate::dialect::usage::{LlamaCppTimings, UsageObject};
use crate::json::last_values::{SearchTerm, last_values};
use crate::json::lenient::{Lenient, is_non_empty, parse, parse_object};
use crate::sse::Event;
use message::Message;

/// Words by which gateways keep a connection open.
const KEEP_ALIVES: &str = "heartbeat keep-alive keep_alive keepalive null ping pong";

/// Classifies an event. Text and arguments are skipped and never copied.
pub(crate) fn classify_event(event: Event<'_>) -> EventInfo {
    let data = event.data.trim_ascii();
    EventInfo::from_kind(if data.starts_with(b"[DONE]") {
        EventKind::Done
    } else if event.dropped > 0 {
        EventKind::Content
    } else if event.name == b"error" {
        EventKind::Error
    } else if data.is_empty() || is_keep_alive(data) {
        EventKind::Empty
    } else if let Some(chunk) = parse_object::<Completion<'_>>(data) {
        return chunk.event_info();
    } else {
        EventKind::Error
    })
}

/// Whether data only keeps the connection open: a word for a keep-alive, or a bare number.
fn is_keep_alive(data: &[u8]) -> bool {
    let word = data.strip_prefix(b"\"").and_then(|word| word.strip_suffix(b"\"")).unwrap_or(data);
    let mut known = KEEP_ALIVES.split(' ').map(str::as_bytes);
    known.any(|known| word.eq_ignore_ascii_case(known)) || word.iter().all(u8::is_ascii_digit)
}

/// Reads a chunk or a whole completion. Returns `None` for anything else. Of several choices, only
/// the first is read: longhaul requests one.
pub(crate) fn read_completion(json: &[u8]) -> Option<CompletionPart<'_>> {
    let completion = parse_object::<Completion<'_>>(json)?;
    let first = completion.choices().next().flatten();
    let messages = || first.iter().flat_map(Choice::messages);
    Some(CompletionPart {
        compactions: Vec::new(),
        extent: TextExtent::Piece,
        error: completion.error.map(RawValue::get),
        finish: first.as_ref().and_then(|choice| choice.finish_reason.0),
        has_tool_calls: messages().any(|message| message.has_tool_calls),
        text: messages().map(Message::text).fold(Cow::default(), |all, text| all + text),
        usage: completion.usage.0.and_then(|usage| usage.usage()),
    })
}

/// A chunk of a stream, or a whole completion.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct Completion<'a> {
    choices: Option<Vec<&'a RawValue>>,
    error: Option<&'a RawValue>,
    error_message: Option<&'a RawValue>,
    error_type: Option<&'a RawValue>,
    errors: Option<&'a RawValue>,
    #[serde(rename = "type")]
    event_type: Option<&'a RawValue>,
    object: Option<&'a RawValue>,
    usage: Lenient<UsageObject<'a>>,
}

impl<'a> Completion<'a> {
    /// Returns each choice; `None` for an element that is not a choice.
    fn choices(&self) -> impl Iterator<Item = Option<Choice<'a>>> {
        self.choices.iter().flatten().copied().map(parse)
    }

    fn event_info(&self) -> EventInfo {
        let (mut has_content, mut is_known, mut finish) = (false, true, None);
        for choice in self.choices() {
            has_content |= choice.as_ref().is_some_and(Choice::has_content);
            is_known &= choice.is_some();
            finish = finish.or_else(|| choice?.finish());
        }
        let usage = self.usage.0.as_ref();
        EventInfo {
            kind: if has_content {
                EventKind::Content
            } else if is_known {
                self.empty_kind()
            } else {
                // A choice in an unknown shape is never taken for an empty one.
                EventKind::Error
            },
            finish,
            input: usage.and_then(|usage| usage.prompt_tokens.tokens()),
            output: usage.and_then(|usage| usage.completion_tokens.tokens()),
        }
    }

    /// Returns the kind of an event whose choices have no content.
    fn empty_kind(&self) -> EventKind {
        let errors = [self.error, self.error_message, self.error_type, self.errors];
        if errors.into_iter().flatten().any(is_non_empty) {
            return EventKind::Error;
        }
        if self.object.map(RawValue::get) == Some(r#""error""#) {
            return EventKind::Error;
        }
        let is_early =
            |it: &str| EARLY_EVENTS.split(' ').any(|early| early == it.trim_matches('"'));
        match self.event_type.map(RawValue::get) {
            Some(r#""error""# | r#""response.failed""#) => EventKind::Error,
            Some(other) if self.choices.is_none() && !is_early(other) => EventKind::Content,
            Some(_) | None => {
                let has_choices = self.choices.as_ref().is_some_and(|all| !all.is_empty());
                if has_choices || self.usage.0.is_none() {
                    EventKind::Empty
                } else {
                    EventKind::Usage
                }
            }
        }
    }
}

/// Event types of sibling APIs that precede any output.
const EARLY_EVENTS: &str = "codex.rate_limits heartbeat keep-alive keep_alive keepalive message_start ping \
                            response.created response.in_progress response.queued";

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct Choice<'a> {
    delta: Option<Message<'a>>,
    message: Option<Message<'a>>,
    text: Option<&'a RawValue>,
    finish_reason: Lenient<FinishReason>,
    native_finish_reason: Lenient<FinishReason>,
}

impl<'a> Choice<'a> {
    fn messages(&self) -> impl Iterator<Item = &Message<'a>> {
        self.delta.iter().chain(&self.message)
    }

    fn has_content(&self) -> bool {
        self.messages().any(|message| message.has_content) || self.text.is_some_and(is_non_empty)
    }

    fn finish(&self) -> Option<FinishReason> {
        let native = self.native_finish_reason.0;
        native.filter(|reason| *reason == FinishReason::WindowFull).or(self.finish_reason.0)
    }
}

static FINISH_REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#""finish_reason""#));
static NATIVE_FINISH_REASON: SearchTerm =
    SearchTerm::new(|| Finder::new(r#""native_finish_reason""#));
/// End of every key that states a finish reason.
static REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#"_reason""#));
/// Anthropic's key, next to `finish_reason` or in its place.
static STOP_REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#""stop_reason""#));
static TIMINGS: SearchTerm = SearchTerm::new(|| Finder::new(r#""timings""#));
static USAGE: SearchTerm = SearchTerm::new(|| Finder::new(r#""usage""#));
static WINDOW_FULL: SearchTerm = SearchTerm::new(|| Finder::new(FinishReason::WINDOW_FULL));

/// Reads the facts near the top of a JSON text, which may lack its beginning.
pub(crate) fn read_end(json: &[u8]) -> EndFacts {
    let usage = last_values(json, &USAGE).find_map(|usage: UsageObject<'_>| usage.usage());
    let timings = || last_values(json, &TIMINGS).find_map(|all: LlamaCppTimings| all.usage());
    EndFacts { finish: finish_reason(json), usage: usage.or_else(timings) }
}

/// Returns the finish reason of the last choice in a JSON text. A full window takes precedence,
/// whichever field states it.
fn finish_reason(json: &[u8]) -> Option<FinishReason> {
    let stated: Vec<FinishReason> =
        last_values(json, &FINISH_REASON).chain(last_values(json, &STOP_REASON)).collect();
    let native = last_values(json, &NATIVE_FINISH_REASON);
    let full =
        (stated.iter().copied()).chain(native).find(|reason| *reason == FinishReason::WindowFull);
    full.or_else(|| stated.first().copied())
}

/// Whether any of these events may state a fact that `later` lacks, or a full window.
pub(crate) fn may_add_to(later: EndFacts, events: &[u8]) -> bool {
    WINDOW_FULL.occurs_in(events)
        || (later.finish.is_none() && may_state_finish_reason(events))
        || (later.usage.is_none() && (USAGE.occurs_in(events) || TIMINGS.occurs_in(events)))
}

/// Whether any of these events may state a finish reason. Many providers send a null reason in each
/// event.
fn may_state_finish_reason(events: &[u8]) -> bool {
    let states = |rest: &[u8]| {
        let value = rest.trim_ascii_start().strip_prefix(b":");
        value.is_some_and(|value| !value.trim_ascii_start().starts_with(b"null"))
    };
    REASON.text_after_each(events).any(states)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod end_tests {
    use super::*;

    #[test]
    fn a_null_finish_reason_is_ignored() {
        for none in ["{}", r#"{"finish_reason":null}"#, r#"{"stop_reason" : null}"#, r#""_reason""#]
        {
            assert!(!may_state_finish_reason(none.as_bytes()), "{none}");
        }
        for some in
            [r#"{"finish_reason":"stop"}"#, r#"{"native_finish_reason" : 1,"finish_reason":null}"#]
        {
            assert!(may_state_finish_reason(some.as_bytes()), "{some}");
        }
    }

    #[test]
    fn a_full_window_is_searched_for_even_if_all_facts_are_known() {
        let later = read_end(br#"{"finish_reason":"stop","usage":{"prompt_tokens":9}}"#);
        let full = br#"{"stop_reason":"model_context_window_exceeded"}"#;
        assert!(may_add_to(later, full));
        assert!(!may_add_to(later, br#"{"stop_reason":"end_turn","usage":{}}"#));
    }

    #[test]
    fn usage_may_be_under_usage_or_timings() {
        let lacks_usage = EndFacts { finish: Some(FinishReason::Stop), usage: None };
        assert!(may_add_to(lacks_usage, br#"{"usage":{}}"#));
        assert!(may_add_to(lacks_usage, br#"{"timings":{}}"#));
        assert!(!may_add_to(lacks_usage, br#"{"content":"b"}"#));
    }
}
