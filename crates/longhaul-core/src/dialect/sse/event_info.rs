//! Classifies an event of a chat stream and reads no more of it than needed.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::dialect::sse::{Event, FinishReason};

/// Kind of an event, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Text, reasoning, a refusal or a tool call: the model is answering.
    Content,
    /// The `[DONE]` marker.
    Done,
    /// A delta without content: a role, a finish reason, a keep-alive, the announcement of a
    /// response.
    Empty,
    /// An error, or data that is not a chunk; `overflow` classifies it.
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
    fn from_kind(kind: EventKind) -> Self {
        Self {
            kind,
            finish: None,
            input: None,
            output: None,
        }
    }
}

/// Classifies an event. Text and arguments are skipped and never copied.
pub fn classify_event(event: Event<'_>) -> EventInfo {
    let data = event.data.trim_ascii();
    if data.starts_with(b"[DONE]") {
        return EventInfo::from_kind(EventKind::Done);
    }
    if event.dropped > 0 {
        return EventInfo::from_kind(EventKind::Content);
    }
    if event.name == b"error" {
        return EventInfo::from_kind(EventKind::Error);
    }
    if data.is_empty() {
        return EventInfo::from_kind(EventKind::Empty);
    }
    // Serde would read a sequence as a struct by position: only an object is a chunk.
    if !data.starts_with(b"{") {
        return EventInfo::from_kind(EventKind::Error);
    }
    match serde_json::from_slice::<Chunk<'_>>(data) {
        Ok(chunk) => chunk.event_info(),
        Err(_) => EventInfo::from_kind(EventKind::Error),
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default)]
    choices: Option<Vec<ChunkChoice<'a>>>,
    #[serde(default)]
    error: HasValue,
    #[serde(default)]
    error_message: HasValue,
    #[serde(default)]
    error_type: HasValue,
    #[serde(default)]
    errors: HasValue,
    #[serde(default, rename = "type", borrow)]
    event_type: Option<Cow<'a, str>>,
    #[serde(default)]
    usage: Option<ChunkUsage>,
}

impl Chunk<'_> {
    fn event_info(&self) -> EventInfo {
        let finish = self.choices.iter().flatten().find_map(ChunkChoice::finish);
        let usage = self.usage.unwrap_or_default();
        EventInfo {
            kind: self.event_kind(),
            finish,
            input: usage.prompt_tokens,
            output: usage.completion_tokens,
        }
    }

    fn event_kind(&self) -> EventKind {
        let choices = self.choices.as_deref().unwrap_or_default();
        if choices.iter().any(ChunkChoice::has_content) {
            return EventKind::Content;
        }
        let stated = [self.error, self.error_message, self.error_type, self.errors];
        if stated.contains(&HasValue(true)) {
            return EventKind::Error;
        }
        match self.event_type.as_deref() {
            Some("error" | "response.failed") => EventKind::Error,
            Some(other) if self.choices.is_none() && !precedes_output(other) => EventKind::Content,
            Some(_) | None if choices.is_empty() && self.usage.is_some() => EventKind::Usage,
            Some(_) | None => EventKind::Empty,
        }
    }
}

/// Whether an event type of a sibling API precedes any output.
fn precedes_output(kind: &str) -> bool {
    matches!(
        kind,
        "message_start" | "ping" | "response.created" | "response.in_progress" | "response.queued"
    )
}

#[derive(Deserialize)]
struct ChunkChoice<'a> {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default, borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    message: Option<Delta>,
    #[serde(default, borrow)]
    native_finish_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    text: HasValue,
}

impl ChunkChoice<'_> {
    fn has_content(&self) -> bool {
        let said = |delta: &Option<Delta>| delta.as_ref().is_some_and(|delta| delta.has_content);
        said(&self.delta) || said(&self.message) || self.text == HasValue(true)
    }

    fn finish(&self) -> Option<FinishReason> {
        if self.native_finish_reason.as_deref() == Some(FinishReason::WINDOW_FULL) {
            return Some(FinishReason::WindowFull);
        }
        self.finish_reason.as_deref().map(FinishReason::parse)
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
struct ChunkUsage {
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens: Option<u32>,
}

/// A delta or message, reduced to whether it has content beside its role.
///
/// The keys that carry content differ by provider and grow by the month. So the code lists the few
/// keys that carry none.
struct Delta {
    has_content: bool,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum DeltaKey {
    Obfuscation,
    Role,
    #[serde(other)]
    Content,
}

impl<'de> Deserialize<'de> for Delta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Delta;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a delta")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Delta, M::Error> {
                let mut said = false;
                while let Some((key, HasValue(filled))) = map.next_entry::<DeltaKey, HasValue>()? {
                    said |= match key {
                        DeltaKey::Obfuscation | DeltaKey::Role => false,
                        DeltaKey::Content => filled,
                    };
                }
                Ok(Delta { has_content: said })
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Whether a JSON value is non-empty: `null`, `false`, `""`, `[]` and `{}` are empty.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct HasValue(bool);

impl<'de> Deserialize<'de> for HasValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = HasValue;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }

            fn visit_unit<E>(self) -> Result<HasValue, E> {
                Ok(HasValue(false))
            }

            fn visit_bool<E>(self, value: bool) -> Result<HasValue, E> {
                Ok(HasValue(value))
            }

            fn visit_i64<E>(self, _: i64) -> Result<HasValue, E> {
                Ok(HasValue(true))
            }

            fn visit_u64<E>(self, _: u64) -> Result<HasValue, E> {
                Ok(HasValue(true))
            }

            fn visit_f64<E>(self, _: f64) -> Result<HasValue, E> {
                Ok(HasValue(true))
            }

            fn visit_str<E>(self, value: &str) -> Result<HasValue, E> {
                Ok(HasValue(!value.is_empty()))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<HasValue, S::Error> {
                let mut filled = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    filled = true;
                }
                Ok(HasValue(filled))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<HasValue, M::Error> {
                let mut filled = false;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    filled = true;
                }
                Ok(HasValue(filled))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
