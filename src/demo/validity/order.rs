//! Which message may follow which.

use serde_json::Value;

use crate::demo::request::{ChatBody, is_head, role, tool_calls};

/// The roles there are.
const ROLES: [&str; 6] = [
    "system",
    "assistant",
    "user",
    "function",
    "tool",
    "developer",
];
/// The most messages of a conversation with Anthropic.
const MOST_MESSAGES: usize = 100_000;

/// No messages at all.
pub(super) fn none(chat: &ChatBody) -> Option<String> {
    chat.messages().is_empty().then(String::new)
}

/// The first unknown role.
pub(super) fn unknown_role(chat: &ChatBody) -> Option<String> {
    let mut roles = chat.messages().iter().map(role);
    roles.find(|role| !ROLES.contains(role)).map(str::to_owned)
}

/// A system message that is not the first message.
pub(super) fn late_system(chat: &ChatBody) -> Option<String> {
    let at = chat.messages().iter().skip(1).position(is_head)?;
    Some((at + 1).to_string())
}

/// Two user messages, or two assistant messages, with none of the other between; or an assistant
/// message first. Results belong to the assistant's turn.
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

/// A conversation that ends with an assistant message.
pub(super) fn ends_with_assistant(chat: &ChatBody) -> Option<String> {
    let last = chat.messages().last()?;
    (role(last) == "assistant").then(String::new)
}

/// A conversation whose first turn is not the user's.
pub(super) fn begins_otherwise(chat: &ChatBody) -> Option<String> {
    let first = chat.turns().first()?;
    (role(first) != "user").then(String::new)
}

/// A user message directly behind a tool result.
pub(super) fn user_behind_result(chat: &ChatBody) -> Option<String> {
    let messages = chat.messages();
    let bad = |(at, message): (usize, &Value)| {
        (role(message) == "user" && follows_result(messages, at)).then(|| at.to_string())
    };
    messages.iter().enumerate().find_map(bad)
}

/// A turn of calls behind neither a user message nor a result.
pub(super) fn calls_out_of_turn(chat: &ChatBody) -> Option<String> {
    let messages = chat.messages();
    let bad = |(at, message): (usize, &Value)| {
        let before = previous(messages, at).map(role);
        let fine = matches!(before, Some("user" | "tool"));
        (!tool_calls(message).is_empty() && !fine).then(|| at.to_string())
    };
    messages.iter().enumerate().find_map(bad)
}

/// More messages than a conversation may have.
pub(super) fn too_many(chat: &ChatBody) -> Option<String> {
    let count = chat.messages().len();
    (count > MOST_MESSAGES).then(|| count.to_string())
}

/// A message of the role `developer`.
pub(super) fn developer(chat: &ChatBody) -> Option<String> {
    let at = chat
        .messages()
        .iter()
        .position(|message| role(message) == "developer")?;
    Some(at.to_string())
}
