//! What is read of a completion, or of a chunk of one. The rest is passed over and never kept: an
//! answer may be all brackets, and a tree of those is forty times as large as they are.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::rewrite::sse::Finish;
use crate::rewrite::usage::Usage;

/// A chunk of a stream, or a whole completion.
#[derive(Deserialize)]
pub(super) struct Completion<'a> {
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
    #[serde(default, borrow)]
    choices: Option<First<'a>>,
}

impl<'a> Completion<'a> {
    /// A sequence would be read by position: only an object is one.
    pub(super) fn of(json: &'a [u8]) -> Option<Self> {
        let is_object = json.trim_ascii_start().starts_with(b"{");
        serde_json::from_slice(json).ok().filter(|_| is_object)
    }

    /// What it says went wrong, if anything.
    pub(super) fn error(&self) -> Option<&'a str> {
        self.error.map(RawValue::get)
    }

    /// What it was counted as.
    pub(super) fn usage(&self) -> Option<Usage> {
        Usage::of_reported(serde_json::from_str(self.usage?.get()).ok()?)
    }

    /// The first of its choices; one is all that is asked for.
    pub(super) fn choice(&self) -> Option<&Choice<'a>> {
        self.choices.as_ref()?.0.as_ref()
    }
}

/// One choice.
#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default, borrow)]
    delta: Option<Said<'a>>,
    #[serde(default, borrow)]
    message: Option<Said<'a>>,
    #[serde(default, borrow)]
    finish_reason: Option<&'a RawValue>,
}

impl<'a> Choice<'a> {
    /// What it says, as a part or as the whole.
    pub(super) fn said(&self) -> impl Iterator<Item = &Said<'a>> {
        self.delta.iter().chain(&self.message)
    }

    /// How it ended, if it has.
    pub(super) fn finish(&self) -> Option<Finish> {
        let reason: Cow<'_, str> = serde_json::from_str(self.finish_reason?.get()).ok()?;
        Some(Finish::of(&reason))
    }
}

/// A delta or a message.
#[derive(Deserialize)]
pub(super) struct Said<'a> {
    #[serde(default, borrow)]
    content: Text<'a>,
    #[serde(default, borrow)]
    tool_calls: Option<&'a RawValue>,
}

impl Said<'_> {
    /// Its text.
    pub(super) fn text(&self) -> &str {
        &self.content.0
    }

    /// Whether it calls a tool.
    pub(super) fn calls(&self) -> bool {
        let calls = self
            .tool_calls
            .map(|calls| serde_json::from_str(calls.get()));
        calls.is_some_and(|calls| calls.is_ok_and(|calls: Vec<IgnoredAny>| !calls.is_empty()))
    }
}

/// The first of an array, if it has one.
struct First<'a>(Option<Choice<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for First<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Choices;

        impl<'de> Visitor<'de> for Choices {
            type Value = First<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("choices")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<First<'de>, S::Error> {
                let first = seq.next_element()?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }

        from.deserialize_seq(Choices)
    }
}

/// A text, or the text among the parts of a content: thoughts are parts of other types. Nothing where
/// it is something else.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(default, rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(default, borrow)]
            text: Option<Cow<'a, str>>,
        }

        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a content")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Text<'de>, S::Error> {
                let mut text = String::new();
                while let Some(part) = seq.next_element::<&RawValue>()? {
                    let part = serde_json::from_str(part.get());
                    if let Ok(Part {
                        kind,
                        text: Some(said),
                    }) = part
                        && kind == "text"
                    {
                        text.push_str(&said);
                    }
                }
                Ok(Text(Cow::Owned(text)))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Text<'de>, M::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text::default())
            }

            fn visit_unit<E>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
        }

        from.deserialize_any(Any)
    }
}
