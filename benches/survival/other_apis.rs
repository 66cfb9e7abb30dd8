//! A plain reader of Responses items and Messages blocks, into the messages of this benchmark.

use crate::history::{Message, Role, strings};
use serde_json::Value;

/// Members of an item with the text of a result, a message or reasoning.
const TEXTS: [&str; 3] = ["content", "output", "summary"];
/// Members of an item with the content of a call.
const CALLS: [&str; 5] = ["action", "arguments", "input", "name", "operation"];

/// Reads an item of the Responses API. Reasoning alone is not a reply.
pub(crate) fn item(item: &Value) -> Message {
    let kind = item.get("type").and_then(Value::as_str);
    let kind = kind.unwrap_or("message");
    let author = item.get("role").and_then(Value::as_str);
    let role = match (kind, author) {
        ("message", Some("assistant")) => Role::Assistant,
        ("message", Some("user")) => Role::User,
        (kind, _) if kind.ends_with("_output") => Role::Tool,
        (kind, _) if kind.ends_with("_call") => Role::Assistant,
        _ => Role::Head,
    };
    let (mut text, mut calls) = (String::new(), String::new());
    for value in TEXTS.iter().filter_map(|key| item.get(key)) {
        texts(value, &mut text);
    }
    for value in CALLS.iter().filter_map(|key| item.get(key)) {
        said(value, &mut calls);
    }
    Message { role, text, calls }
}

/// Whether a user message answers a call.
pub(crate) fn has_result(message: &Value) -> bool {
    let blocks = message.get("content").and_then(Value::as_array);
    let mut blocks = blocks.into_iter().flatten();
    blocks.any(|block| kind(block) == "tool_result")
}

/// Adds what the blocks of a message hold in addition to their text: results, and calls.
pub(crate) fn blocks(blocks: &[Value], text: &mut String, calls: &mut String) {
    for block in blocks {
        match kind(block) {
            "tool_result" => block
                .get("content")
                .iter()
                .for_each(|value| texts(value, text)),
            "tool_use" => {
                for value in ["name", "input"].iter().filter_map(|key| block.get(key)) {
                    strings(value, calls);
                }
            }
            _ => {}
        }
    }
}

fn kind(value: &Value) -> &str {
    value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Appends a text, or the texts of its parts.
fn texts(value: &Value, out: &mut String) {
    let parts = value.as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| part.get("text").and_then(Value::as_str));
    for text in value.as_str().into_iter().chain(parts) {
        out.push_str(text);
        out.push('\n');
    }
}

/// Appends the values of a call's arguments, which are JSON in a string or a free text.
fn said(value: &Value, out: &mut String) {
    let inner = value.as_str().and_then(|text| text.parse::<Value>().ok());
    strings(inner.as_ref().unwrap_or(value), out);
}
