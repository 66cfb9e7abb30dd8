//! Rules for calls and their results.

use serde_json::Value;

use super::{id, tool_call_id, tool_calls};
use crate::request::{ChatBody, member, role};

/// Returns the results directly after the message at a position.
fn results(messages: &[Value], at: usize) -> &[Value] {
    let behind = messages.get(at + 1..).unwrap_or_default();
    let count = behind.iter().take_while(|message| role(message) == "tool").count();
    behind.get(..count).unwrap_or_default()
}

/// Finds the first call without a result before the next message of another role.
pub(super) fn unanswered(chat: &ChatBody) -> Option<String> {
    let messages = chat.messages();
    messages.iter().enumerate().find_map(|(at, message)| {
        let results = results(messages, at);
        let open = |call: &&Value| !results.iter().any(|result| tool_call_id(result) == id(call));
        tool_calls(message).iter().find(open).map(|call| id(call).to_owned())
    })
}

/// Finds the position of the first result that answers no call of the preceding assistant message,
/// or a call that already has a result.
pub(super) fn orphan(chat: &ChatBody) -> Option<String> {
    stray(chat).map(|(at, _)| at.to_string())
}

/// Like [`orphan`], but returns the `tool_call_id` of the result.
pub(super) fn orphan_id(chat: &ChatBody) -> Option<String> {
    stray(chat).map(|(_, result)| tool_call_id(result).to_owned())
}

fn stray(chat: &ChatBody) -> Option<(usize, &Value)> {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in chat.messages().iter().enumerate() {
        if role(message) != "tool" {
            open = tool_calls(message).iter().map(id).collect();
            continue;
        }
        let Some(answered) = open.iter().position(|call| *call == tool_call_id(message)) else {
            return Some((at, message));
        };
        open.swap_remove(answered);
    }
    None
}

/// Finds the first turn with more or fewer results than calls.
pub(super) fn miscounted(chat: &ChatBody) -> Option<String> {
    let messages = chat.messages();
    let turn = |(at, message): (usize, &Value)| {
        let uneven =
            role(message) != "tool" && tool_calls(message).len() != results(messages, at).len();
        uneven.then(|| at.to_string())
    };
    messages.iter().enumerate().find_map(turn)
}

/// Finds a legacy function call that no function message follows, or the reverse.
pub(super) fn unpaired_function(chat: &ChatBody) -> Option<String> {
    let mut called: Option<&Value> = None;
    for (at, message) in chat.messages().iter().enumerate() {
        let answer = (role(message) == "function").then(|| member(message, "name"));
        if called != answer {
            return Some(at.to_string());
        }
        let call = member(message, "function_call");
        called = call.is_object().then(|| member(call, "name"));
    }
    called.map(|_| "the end".to_owned())
}
