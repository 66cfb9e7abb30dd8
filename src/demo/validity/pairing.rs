//! Calls and their results.

use serde_json::Value;

use crate::demo::request::{ChatBody, id, member, role, tool_call_id, tool_calls};

/// The results that stand directly behind the message at a position.
fn results(messages: &[Value], at: usize) -> &[Value] {
    let behind = messages.get(at + 1..).unwrap_or_default();
    let count = behind
        .iter()
        .take_while(|message| role(message) == "tool")
        .count();
    behind.get(..count).unwrap_or_default()
}

/// The first call without a result before the next message of another role.
pub(super) fn unanswered(chat: &ChatBody) -> Option<String> {
    let messages = chat.messages();
    messages.iter().enumerate().find_map(|(at, message)| {
        let results = results(messages, at);
        let open = |call: &&Value| {
            !results
                .iter()
                .any(|result| tool_call_id(result) == id(call))
        };
        tool_calls(message)
            .iter()
            .find(open)
            .map(|call| id(call).to_owned())
    })
}

/// The place of the first result that answers no call of the assistant message before it, or one
/// that was answered already.
pub(super) fn orphan(chat: &ChatBody) -> Option<String> {
    stray(chat).map(|(at, _)| at.to_string())
}

/// The same, by the id that it answers.
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

/// The first turn with more or fewer results than calls.
pub(super) fn miscounted(chat: &ChatBody) -> Option<String> {
    let messages = chat.messages();
    let turn = |(at, message): (usize, &Value)| {
        let uneven =
            role(message) != "tool" && tool_calls(message).len() != results(messages, at).len();
        uneven.then(|| at.to_string())
    };
    messages.iter().enumerate().find_map(turn)
}

/// A legacy function call without its function message behind it, or the reverse.
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
