//! Rules for the order of messages.

use serde_json::Value;

use super::tool_calls;
use crate::request::{ChatBody, is_head, role};

/// The valid roles.
const ROLES: [&str; 6] = ["system", "assistant", "user", "function", "tool", "developer"];
/// The maximum number of messages at Anthropic.
const MOST_MESSAGES: usize = 100_000;

/// Finds an empty list of messages.
pub(super) fn none(chat: &ChatBody) -> Option<String> {
    chat.messages().is_empty().then(String::new)
}

/// Finds the first unknown role.
pub(super) fn unknown_role(chat: &ChatBody) -> Option<String> {
    let mut roles = chat.messages().iter().map(role);
    roles.find(|role| !ROLES.contains(role)).map(str::to_owned)
}

/// Finds a system message after the first message.
pub(super) fn late_system(chat: &ChatBody) -> Option<String> {
    let at = chat.messages().iter().skip(1).position(is_head)?;
    Some((at + 1).to_string())
}

/// Finds two user or two assistant messages without the other role between them, or a leading
/// assistant message. Tool results belong to the assistant's turn.
pub(super) fn unalternating(chat: &ChatBody) -> Option<String> {
    let mut previous = "assistant";
    for (at, message) in chat.turns().iter().enumerate() {
        let role = role(message);
        if role == previous && !(role == "assistant" && follows_result(chat.turns(), at)) {
            return Some(at.to_string());
        }
        if matches!(role, "user" | "assistant") {
            previous = role;
        }
    }
    None
}

fn follows_result(turns: &[Value], at: usize) -> bool {
    previous(turns, at).is_some_and(|message| role(message) == "tool")
}

fn previous(messages: &[Value], at: usize) -> Option<&Value> {
    messages.get(at.checked_sub(1)?)
}

/// Finds a trailing assistant message.
pub(super) fn ends_with_assistant(chat: &ChatBody) -> Option<String> {
    let last = chat.messages().last()?;
    (role(last) == "assistant").then(String::new)
}

/// Finds a first turn that is not the user's.
pub(super) fn begins_otherwise(chat: &ChatBody) -> Option<String> {
    let first = chat.turns().first()?;
    (role(first) != "user").then(String::new)
}

/// Finds a user message directly after a tool result.
pub(super) fn user_behind_result(chat: &ChatBody) -> Option<String> {
    let messages = chat.messages();
    let bad = |(at, message): (usize, &Value)| {
        (role(message) == "user" && follows_result(messages, at)).then(|| at.to_string())
    };
    messages.iter().enumerate().find_map(bad)
}

/// Finds a turn of calls that follows neither a user message nor a tool result.
pub(super) fn calls_out_of_turn(chat: &ChatBody) -> Option<String> {
    let messages = chat.messages();
    let bad = |(at, message): (usize, &Value)| {
        let before = previous(messages, at).map(role);
        let fine = matches!(before, Some("user" | "tool"));
        (!tool_calls(message).is_empty() && !fine).then(|| at.to_string())
    };
    messages.iter().enumerate().find_map(bad)
}

/// Finds more messages than allowed.
pub(super) fn too_many(chat: &ChatBody) -> Option<String> {
    let count = chat.messages().len();
    (count > MOST_MESSAGES).then(|| count.to_string())
}

/// Finds a message of the role `developer`.
pub(super) fn developer(chat: &ChatBody) -> Option<String> {
    let at = chat.messages().iter().position(|message| role(message) == "developer")?;
    Some(at.to_string())
}
