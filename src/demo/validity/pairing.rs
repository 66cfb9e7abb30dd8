//! Calls and their results.

use serde_json::Value;

use crate::demo::request::{Chat, answers, calls, id, member, role};

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
pub(super) fn unanswered(chat: &Chat) -> Option<String> {
    let messages = chat.messages();
    messages.iter().enumerate().find_map(|(at, message)| {
        let results = results(messages, at);
        let open = |call: &&Value| !results.iter().any(|result| answers(result) == id(call));
        calls(message)
            .iter()
            .find(open)
            .map(|call| id(call).to_owned())
    })
}

/// The place of the first result that answers no call of the assistant message before it, or one
/// that was answered already.
pub(super) fn orphan(chat: &Chat) -> Option<String> {
    stray(chat).map(|(at, _)| at.to_string())
}

/// The same, by the id that it answers.
pub(super) fn orphan_id(chat: &Chat) -> Option<String> {
    stray(chat).map(|(_, result)| answers(result).to_owned())
}

fn stray(chat: &Chat) -> Option<(usize, &Value)> {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in chat.messages().iter().enumerate() {
        if role(message) != "tool" {
            open = calls(message).iter().map(id).collect();
            continue;
        }
        let Some(answered) = open.iter().position(|call| *call == answers(message)) else {
            return Some((at, message));
        };
        open.swap_remove(answered);
    }
    None
}

/// The first turn with more or fewer results than calls.
pub(super) fn miscounted(chat: &Chat) -> Option<String> {
    let messages = chat.messages();
    let turn = |(at, message): (usize, &Value)| {
        let uneven = role(message) != "tool" && calls(message).len() != results(messages, at).len();
        uneven.then(|| at.to_string())
    };
    messages.iter().enumerate().find_map(turn)
}

/// A legacy function call without its function message behind it, or the reverse.
pub(super) fn unpaired_function(chat: &Chat) -> Option<String> {
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
