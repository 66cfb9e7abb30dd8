//! Delta or message of a choice.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use crate::json::lenient::{is_non_empty, parse};

#[derive(Default)]
pub(super) struct Message<'a> {
    content: Option<&'a RawValue>,
    /// Whether there is content besides the role.
    ///
    /// The keys that carry content differ by provider and grow by the month. So the code lists the
    /// few keys without content.
    pub(super) has_content: bool,
    pub(super) has_tool_calls: bool,
}

impl<'a> Message<'a> {
    /// Returns the text: a string, or the text parts of an array. Reasoning is in parts of other
    /// types.
    pub(super) fn text(&self) -> Cow<'a, str> {
        let Some(content) = self.content else {
            return Cow::default();
        };
        if let Some(Text(text)) = parse(content) {
            return text;
        }
        let parts: Vec<&RawValue> = serde_json::from_str(content.get()).unwrap_or_default();
        let texts = parts.into_iter().filter_map(parse::<Part<'_>>);
        texts.filter(|part| part.kind == "text").map(|part| part.text).collect::<String>().into()
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut message = Self::default();
        for (key, value) in BTreeMap::<String, &RawValue>::deserialize(from)? {
            let is_filled = is_non_empty(value);
            match key.as_str() {
                "content" => message.content = Some(value),
                "tool_calls" => {
                    message.has_tool_calls = is_filled && value.get().starts_with('[');
                }
                "obfuscation" | "role" => continue,
                _ => {}
            }
            message.has_content |= is_filled;
        }
        Ok(message)
    }
}
