//! The members read of a completion or a chunk. The rest is skipped, never stored: a reply may
//! consist of brackets only, and a parsed tree of those takes forty times their size.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use longhaul_core::dialect::sse::FinishReason;
use longhaul_core::dialect::usage::Usage;

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
    /// Parses a JSON object. Returns `None` for anything else; serde would read an array by
    /// position.
    pub(super) fn parse(json: &'a [u8]) -> Option<Self> {
        let is_object = json.trim_ascii_start().starts_with(b"{");
        serde_json::from_slice(json).ok().filter(|_| is_object)
    }

    /// Returns the error, as JSON, if there is one.
    pub(super) fn error(&self) -> Option<&'a str> {
        self.error.map(RawValue::get)
    }

    /// Returns the reported usage, if any.
    pub(super) fn usage(&self) -> Option<Usage> {
        Usage::from_object(serde_json::from_str(self.usage?.get()).ok()?)
    }

    /// Returns the first choice. longhaul requests only one.
    pub(super) fn choice(&self) -> Option<&CompletionChoice<'a>> {
        self.choices.as_ref()?.0.as_ref()
    }
}

/// A choice of a completion.
#[derive(Deserialize)]
pub(super) struct CompletionChoice<'a> {
    #[serde(default, borrow)]
    delta: Option<ChoiceMessage<'a>>,
    #[serde(default, borrow)]
    message: Option<ChoiceMessage<'a>>,
    #[serde(default, borrow)]
    finish_reason: Option<&'a RawValue>,
}

impl<'a> CompletionChoice<'a> {
    /// Returns the delta and the message, whichever are present.
    pub(super) fn messages(&self) -> impl Iterator<Item = &ChoiceMessage<'a>> {
        self.delta.iter().chain(&self.message)
    }

    /// Returns the finish reason, if present.
    pub(super) fn finish(&self) -> Option<FinishReason> {
        let reason: Cow<'_, str> = serde_json::from_str(self.finish_reason?.get()).ok()?;
        Some(FinishReason::parse(&reason))
    }
}

/// A delta or a message.
#[derive(Deserialize)]
pub(super) struct ChoiceMessage<'a> {
    #[serde(default, borrow)]
    content: ContentText<'a>,
    #[serde(default, borrow)]
    tool_calls: Option<&'a RawValue>,
}

impl ChoiceMessage<'_> {
    /// Returns the text.
    pub(super) fn text(&self) -> &str {
        &self.content.0
    }

    /// Whether the message calls a tool.
    pub(super) fn has_tool_calls(&self) -> bool {
        let calls = self
            .tool_calls
            .map(|calls| serde_json::from_str(calls.get()));
        calls.is_some_and(|calls| calls.is_ok_and(|calls: Vec<IgnoredAny>| !calls.is_empty()))
    }
}

/// The first element of an array of choices, if any.
struct First<'a>(Option<CompletionChoice<'a>>);

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

/// The text of a `content` value: a string, or the text parts of an array. Reasoning is in parts of
/// other types. Empty for any other value.
#[derive(Default)]
struct ContentText<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for ContentText<'a> {
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
            type Value = ContentText<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a content")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<ContentText<'de>, E> {
                Ok(ContentText(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<ContentText<'de>, E> {
                Ok(ContentText(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<S: SeqAccess<'de>>(
                self,
                mut seq: S,
            ) -> Result<ContentText<'de>, S::Error> {
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
                Ok(ContentText(Cow::Owned(text)))
            }

            fn visit_map<M: MapAccess<'de>>(
                self,
                mut map: M,
            ) -> Result<ContentText<'de>, M::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(ContentText::default())
            }

            fn visit_unit<E>(self) -> Result<ContentText<'de>, E> {
                Ok(ContentText::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<ContentText<'de>, E> {
                Ok(ContentText::default())
            }

            fn visit_i64<E>(self, _: i64) -> Result<ContentText<'de>, E> {
                Ok(ContentText::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<ContentText<'de>, E> {
                Ok(ContentText::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<ContentText<'de>, E> {
                Ok(ContentText::default())
            }
        }

        from.deserialize_any(Any)
    }
}
