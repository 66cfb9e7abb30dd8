//! Rules for the content of messages: text, parts, reasoning.

use serde_json::Value;

use super::tool_calls;
use crate::request::{ChatBody, list, member, role};

/// The types of parts allowed in a user message.
const USER_PARTS: [&str; 5] = ["text", "image_url", "input_audio", "file", "video_url"];

fn first(chat: &ChatBody, bad: impl Fn(&Value) -> bool) -> Option<String> {
    chat.messages().iter().position(bad).map(|at| at.to_string())
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::Array(parts) => {
            parts.iter().all(|part| member(part, "text").as_str().is_some_and(str::is_empty))
        }
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

fn stands_for_content(message: &Value) -> bool {
    let instead = ["function_call", "refusal", "audio"];
    !tool_calls(message).is_empty() || instead.iter().any(|name| !member(message, name).is_null())
}

/// Finds content that is neither a string nor parts of the types allowed for its role.
pub(super) fn invalid_content(chat: &ChatBody) -> Option<String> {
    first(chat, |message| {
        let kinds: &[&str] = match role(message) {
            "user" => &USER_PARTS,
            "assistant" => &["text", "refusal", "thinking", "redacted_thinking"],
            _ => &["text"],
        };
        let known = |part: &Value| {
            let kind = member(part, "type").as_str().unwrap_or_default();
            kinds.contains(&kind) && (kind != "text" || member(part, "text").is_string())
        };
        match member(message, "content") {
            Value::Array(parts) => !parts.iter().all(known),
            Value::Null => !matches!(role(message), "assistant" | "function" | "tool"),
            Value::String(_) => false,
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
        }
    })
}

/// Finds a tool result that is neither a string nor text parts.
pub(super) fn tool_result(chat: &ChatBody) -> Option<String> {
    first(chat, |message| {
        let text =
            |part: &Value| member(part, "type") == "text" && member(part, "text").is_string();
        let content = member(message, "content");
        let parts = content.as_array().is_some_and(|parts| !parts.is_empty());
        let fine = content.is_string() || parts && list(content).iter().all(text);
        role(message) == "tool" && !fine
    })
}

/// Finds an assistant message with neither content nor a substitute for it.
pub(super) fn assistant_without_content(chat: &ChatBody) -> Option<String> {
    first(chat, |message| {
        let silent = member(message, "content").is_null() && !stands_for_content(message);
        role(message) == "assistant" && silent
    })
}

/// Finds a message with empty content, except a final assistant message.
pub(super) fn empty(chat: &ChatBody) -> Option<String> {
    let count = chat.messages().len();
    let bad = |(at, message): (usize, &Value)| {
        let last = at + 1 == count && role(message) == "assistant";
        let hollow = is_empty(member(message, "content")) && !stands_for_content(message);
        (hollow && !last).then(|| at.to_string())
    };
    chat.messages().iter().enumerate().find_map(bad)
}

/// Finds a message with empty content, except tool results.
pub(super) fn empty_but_results(chat: &ChatBody) -> Option<String> {
    first(chat, |message| {
        let hollow = is_empty(member(message, "content")) && !stands_for_content(message);
        hollow && !matches!(role(message), "tool" | "function")
    })
}

/// Finds an assistant message made of parts.
pub(super) fn assistant_parts(chat: &ChatBody) -> Option<String> {
    first(chat, |message| role(message) == "assistant" && member(message, "content").is_array())
}

/// Finds a thinking block without a signature.
pub(super) fn unsigned_thinking(chat: &ChatBody) -> Option<String> {
    chat.messages().iter().enumerate().find_map(|(at, message)| {
        let places = ["content", "thinking_blocks"];
        let mut blocks =
            places.iter().flat_map(|name| list(member(message, name)).iter().enumerate());
        let signed =
            |block: &Value| member(block, "signature").as_str().is_some_and(|s| !s.is_empty());
        blocks.find_map(|(part, block)| {
            let bare = member(block, "type") == "thinking" && !signed(block);
            bare.then(|| format!("{at}.content.{part}"))
        })
    })
}

/// Finds an assistant message without `reasoning_content`.
pub(super) fn missing_reasoning(chat: &ChatBody) -> Option<String> {
    first(chat, |message| {
        role(message) == "assistant" && !member(message, "reasoning_content").is_string()
    })
}

/// Finds an assistant message with calls but without `reasoning_content`.
pub(super) fn unreasoned_calls(chat: &ChatBody) -> Option<String> {
    first(chat, |message| {
        !tool_calls(message).is_empty() && !member(message, "reasoning_content").is_string()
    })
}

/// Finds a turn of calls whose first call has no thought signature.
pub(super) fn unsigned_thought(chat: &ChatBody) -> Option<String> {
    first(chat, |message| {
        let Some(call) = tool_calls(message).first() else {
            return false;
        };
        let google = member(member(call, "extra_content"), "google");
        !member(google, "thought_signature").is_string()
    })
}
