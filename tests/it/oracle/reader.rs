//! The naive reader: a body as a tree, and the messages in it.

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// A tool call of an assistant message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) arguments: Option<String>,
}

/// A message, reduced to the parts that the product acts on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Message {
    pub(crate) role: String,
    pub(crate) text: String,
    pub(crate) chars: usize,
    pub(crate) answers: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) calls: Vec<Call>,
}

/// A parsed body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Reading {
    pub(crate) model: String,
    pub(crate) streaming: bool,
    pub(crate) output: Option<u32>,
    pub(crate) messages: Vec<Message>,
}

/// Whether the bytes are one JSON text. Values are not parsed, so any number size and any nesting
/// depth passes.
pub(crate) fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Whether a Rust string can hold each member name: `false` for a lone surrogate in a name, and for
/// a body that does not parse.
pub(crate) fn holds_names(body: &[u8]) -> bool {
    let names = serde_json::from_slice::<HashMap<String, &RawValue>>(body);
    names.is_ok() && tree(body).is_some()
}

/// Returns the raw messages of a body.
pub(crate) fn messages(body: &[u8]) -> Vec<&str> {
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    let body: Body<'_> = serde_json::from_slice(body).unwrap();
    body.messages.into_iter().map(RawValue::get).collect()
}

/// Parses the body. Lone surrogates, which a Rust string cannot hold, become U+FFFD first.
pub(crate) fn tree(body: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(body).ok()?;
    serde_json::from_str(&without_lone_surrogates(text)).ok()
}

/// Replaces each escape of a lone surrogate by `\ufffd`, which has the same length.
pub(crate) fn without_lone_surrogates(text: &str) -> String {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return text.to_owned();
    }
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let take = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
            (Some(0xD800..0xE000), _) => {
                out.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            _ => escape.chars().take(2).map(char::len_utf8).sum(),
        };
        out.push_str(&escape[..take]);
        rest = &escape[take..];
    }
    out + rest
}

/// Reads the tree; `None` if it does not have the shape of a chat completion request.
pub(crate) fn reading(tree: &Value) -> Option<Reading> {
    let whole = |key: &str| tree.get(key).and_then(Value::as_u64);
    let output = [whole("max_completion_tokens"), whole("max_tokens")];
    Some(Reading {
        model: text_or_null(tree.get("model"))?.unwrap_or_default(),
        streaming: tree.get("stream") == Some(&Value::Bool(true)),
        output: output.into_iter().flatten().find_map(|tokens| u32::try_from(tokens).ok()),
        messages: tree
            .as_object()?
            .get("messages")?
            .as_array()?
            .iter()
            .map(message)
            .collect::<Option<_>>()?,
    })
}

fn message(message: &Value) -> Option<Message> {
    let members = message.as_object()?;
    let text = content_text(members.get("content"))?;
    let mut calls = Vec::new();
    // In the body's order: the tree preserves key order.
    for (key, value) in members {
        if matches!(key.as_str(), "tool_calls" | "function_call") {
            match value {
                Value::Array(elements) => {
                    for element in elements {
                        calls.push(call(element)?);
                    }
                }
                Value::Object(_) => calls.push(call(value)?),
                Value::Null => {}
                Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            }
        }
    }
    Some(Message {
        role: members.get("role")?.as_str()?.to_owned(),
        chars: text.chars().count(),
        text,
        answers: text_or_null(members.get("tool_call_id"))?,
        name: text_or_null(members.get("name"))?,
        calls,
    })
}

fn content_text(content: Option<&Value>) -> Option<String> {
    match content {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(parts)) => {
            let mut joined = String::new();
            for part in parts {
                let part = part.as_object()?;
                let kind = text_or_null(part.get("type"))?;
                let text = text_or_null(part.get("text"))?;
                if kind.as_deref() == Some("text") {
                    joined.push_str(&text.unwrap_or_default());
                }
            }
            Some(joined)
        }
        Some(_) => None,
    }
}

/// Reads a call: fields inside `function` (or `custom`) take precedence over fields next to it.
fn call(element: &Value) -> Option<Call> {
    let outer = element.as_object()?;
    let inner = ["function", "custom"].iter().find_map(|key| outer.get(*key)?.as_object());
    let levels = || inner.into_iter().chain([outer]);
    let mut name = None;
    for level in levels() {
        name = name.or(text_or_null(level.get("name"))?);
    }
    let arguments = levels().find_map(|level| {
        let arguments = level.get("arguments").or_else(|| level.get("input"))?;
        Some(arguments.as_str()?.to_owned())
    });
    Some(Call { id: text_or_null(outer.get("id"))?, name, arguments })
}

/// Returns the text or null; the outer `None` means a wrong type.
#[allow(clippy::option_option, reason = "wrong, absent and there are three")]
fn text_or_null(value: Option<&Value>) -> Option<Option<String>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text.clone())),
        Some(_) => None,
    }
}

/// Whether an object in the body repeats a key, or has two spellings of a key.
pub(crate) fn repeats_a_key(body: &str) -> bool {
    keys::repeat(&without_lone_surrogates(body), 0)
}

/// Returns the raw `content` of each message, as slices of the body.
pub(crate) fn contents(body: &str) -> Vec<Option<&str>> {
    let mut top: HashMap<String, &RawValue> = serde_json::from_str(body).unwrap();
    let messages: Vec<&RawValue> =
        serde_json::from_str(top.remove("messages").unwrap().get()).unwrap();
    messages
        .iter()
        .map(|message| {
            let members: HashMap<String, &RawValue> = serde_json::from_str(message.get()).unwrap();
            members.get("content").map(|content| content.get())
        })
        .collect()
}

/// Returns the last `cache_control` in a raw array of parts.
pub(crate) fn last_cache_mark(content: &str) -> Option<&str> {
    let parts: Vec<HashMap<String, &RawValue>> = serde_json::from_str(content).ok()?;
    parts
        .iter()
        .rev()
        .filter_map(|part| part.get("cache_control").map(|mark| mark.get()))
        .find(|mark| *mark != "null")
}

mod keys {
    use serde::Deserialize;
    use serde::de::{Deserializer, MapAccess, Visitor};
    use serde_json::value::RawValue;

    /// Depth limit: deeper values are not inspected, as in `serde_json` itself.
    const DEPTH: usize = 128;

    /// Whether a key repeats anywhere in a value. Numbers are never parsed, because some do not fit
    /// a float.
    pub(super) fn repeat(raw: &str, depth: usize) -> bool {
        if depth > DEPTH {
            return false;
        }
        let below = |values: &[&RawValue]| {
            let mut values = values.iter();
            values.any(|value| repeat(value.get(), depth + 1))
        };
        match raw.trim_start().as_bytes().first() {
            Some(b'{') => {
                serde_json::from_str::<Members<'_>>(raw).is_ok_and(|Members(keys, values)| {
                    let meanings: Vec<&str> = keys.iter().map(|key| meaning(key)).collect();
                    let twice = |(at, key)| meanings[..at].contains(key);
                    meanings.iter().enumerate().any(twice) || below(&values)
                })
            }
            Some(b'[') => {
                serde_json::from_str::<Vec<&RawValue>>(raw).is_ok_and(|values| below(&values))
            }
            _ => false,
        }
    }

    /// Maps the spellings of a key to one of them.
    fn meaning(key: &str) -> &str {
        match key {
            "input" => "arguments",
            "custom" => "function",
            other => other,
        }
    }

    /// The keys and the values of an object, in order.
    struct Members<'a>(Vec<String>, Vec<&'a RawValue>);

    impl<'de> Deserialize<'de> for Members<'de> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_map(All)
        }
    }

    struct All;

    impl<'de> Visitor<'de> for All {
        type Value = Members<'de>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
            let mut members = Members(Vec::new(), Vec::new());
            while let Some((key, value)) = map.next_entry()? {
                members.0.push(key);
                members.1.push(value);
            }
            Ok(members)
        }
    }
}
