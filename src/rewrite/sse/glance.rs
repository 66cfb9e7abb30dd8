//! Tells what an event of a chat stream is, reading no more of it than that takes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Event, Finish};

/// What an event brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, reasoning, a refusal or a tool call: the model is answering.
    Content,
    /// The `[DONE]` mark.
    Done,
    /// A delta without content: a role, a finish reason, a keep-alive, the announcement of a
    /// response.
    Empty,
    /// An error, or something that is no chunk at all: for the classifier to judge.
    Error,
    /// Token counts and nothing else.
    Usage,
}

/// What one look at an event shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// What it brings.
    pub kind: Kind,
    /// The finish reason in it.
    pub finish: Option<Finish>,
    /// Prompt tokens, as the provider counts them.
    pub input: Option<u32>,
    /// Generated tokens, as the provider counts them.
    pub output: Option<u32>,
}

impl Glance {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            finish: None,
            input: None,
            output: None,
        }
    }
}

/// Looks at one event. Text and arguments are skipped over and never copied.
pub fn glance(event: Event<'_>) -> Glance {
    let data = event.data.trim_ascii();
    if data.starts_with(b"[DONE]") {
        return Glance::of(Kind::Done);
    }
    if event.dropped > 0 {
        return Glance::of(Kind::Content);
    }
    if event.name == b"error" {
        return Glance::of(Kind::Error);
    }
    if data.is_empty() {
        return Glance::of(Kind::Empty);
    }
    // A sequence would be read as a struct by position: only an object is a chunk.
    if !data.starts_with(b"{") {
        return Glance::of(Kind::Error);
    }
    match serde_json::from_slice::<Chunk<'_>>(data) {
        Ok(chunk) => chunk.glance(),
        Err(_) => Glance::of(Kind::Error),
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    error: Filled,
    #[serde(default)]
    error_message: Filled,
    #[serde(default)]
    error_type: Filled,
    #[serde(default)]
    errors: Filled,
    #[serde(default, rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    usage: Option<Usage>,
}

impl Chunk<'_> {
    fn glance(&self) -> Glance {
        let finish = self.choices.iter().flatten().find_map(Choice::finish);
        let usage = self.usage.unwrap_or_default();
        Glance {
            kind: self.kind(),
            finish,
            input: usage.prompt_tokens,
            output: usage.completion_tokens,
        }
    }

    fn kind(&self) -> Kind {
        let choices = self.choices.as_deref().unwrap_or_default();
        if choices.iter().any(Choice::has_content) {
            return Kind::Content;
        }
        let stated = [self.error, self.error_message, self.error_type, self.errors];
        if stated.contains(&Filled(true)) {
            return Kind::Error;
        }
        match self.kind.as_deref() {
            Some("error" | "response.failed") => Kind::Error,
            Some(other) if self.choices.is_none() && !announces(other) => Kind::Content,
            Some(_) | None if choices.is_empty() && self.usage.is_some() => Kind::Usage,
            Some(_) | None => Kind::Empty,
        }
    }
}

/// Event types of the sibling interfaces that come before any output.
fn announces(kind: &str) -> bool {
    matches!(
        kind,
        "message_start" | "ping" | "response.created" | "response.in_progress" | "response.queued"
    )
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default, borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    message: Option<Delta>,
    #[serde(default, borrow)]
    native_finish_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    text: Filled,
}

impl Choice<'_> {
    fn has_content(&self) -> bool {
        let said = |delta: &Option<Delta>| delta.as_ref().is_some_and(|delta| delta.said);
        said(&self.delta) || said(&self.message) || self.text == Filled(true)
    }

    fn finish(&self) -> Option<Finish> {
        if self.native_finish_reason.as_deref() == Some(Finish::WINDOW_FULL) {
            return Some(Finish::WindowFull);
        }
        self.finish_reason.as_deref().map(Finish::of)
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens: Option<u32>,
}

/// Whether a delta or message says anything beside its role. The keys that carry what is said
/// differ by provider and grow by the month, so it is the few that say nothing which are named.
struct Delta {
    said: bool,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum DeltaKey {
    Obfuscation,
    Role,
    #[serde(other)]
    Said,
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
                while let Some((key, Filled(filled))) = map.next_entry::<DeltaKey, Filled>()? {
                    said |= match key {
                        DeltaKey::Obfuscation | DeltaKey::Role => false,
                        DeltaKey::Said => filled,
                    };
                }
                Ok(Delta { said })
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Whether a value holds anything: null, "", [] and {} do not.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Filled(bool);

impl<'de> Deserialize<'de> for Filled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Filled;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }

            fn visit_unit<E>(self) -> Result<Filled, E> {
                Ok(Filled(false))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Filled, E> {
                Ok(Filled(value))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Filled, E> {
                Ok(Filled(true))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Filled, E> {
                Ok(Filled(true))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Filled, E> {
                Ok(Filled(true))
            }

            fn visit_str<E>(self, value: &str) -> Result<Filled, E> {
                Ok(Filled(!value.is_empty()))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Filled, S::Error> {
                let mut filled = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    filled = true;
                }
                Ok(Filled(filled))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Filled, M::Error> {
                let mut filled = false;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    filled = true;
                }
                Ok(Filled(filled))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
