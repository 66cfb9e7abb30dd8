//! Rules for ids, arguments, cache marks, and the members other than `messages`.

use serde_json::Value;

use super::{id, tool_call_id, tool_calls};
use crate::request::{ChatBody, member};

/// The maximum length of a call's id at OpenAI, in characters.
const OPENAI_ID: usize = 40;
/// The maximum length of a call's id at Anthropic, in characters.
const ANTHROPIC_ID: usize = 64;
/// The length of every call's id at Mistral, in characters.
const MISTRAL_ID: usize = 9;
/// The maximum number of `cache_control` marks at Anthropic.
const CACHE_MARKS: usize = 4;

fn ids(chat: &ChatBody) -> impl Iterator<Item = &str> {
    chat.messages().iter().flat_map(|message| {
        let answered = Some(tool_call_id(message)).filter(|id| !id.is_empty());
        tool_calls(message).iter().map(id).chain(answered)
    })
}

fn first_id(chat: &ChatBody, fits: impl Fn(&str) -> bool) -> Option<String> {
    ids(chat).find(|id| !fits(id)).map(str::to_owned)
}

/// Finds an id that is too long for OpenAI, or missing.
pub(super) fn openai_id(chat: &ChatBody) -> Option<String> {
    first_id(chat, |id| (1..=OPENAI_ID).contains(&id.chars().count()))
}

/// Finds an id outside `[a-zA-Z0-9_-]{1,64}`.
pub(super) fn anthropic_id(chat: &ChatBody) -> Option<String> {
    first_id(chat, |id| {
        let letters = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        letters && (1..=ANTHROPIC_ID).contains(&id.len())
    })
}

/// Finds an id that is not nine letters and digits.
pub(super) fn mistral_id(chat: &ChatBody) -> Option<String> {
    first_id(chat, |id| id.len() == MISTRAL_ID && id.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Finds arguments that are not a string, or a string that is not JSON.
pub(super) fn unreadable_arguments(chat: &ChatBody) -> Option<String> {
    let calls = chat.messages().iter().flat_map(tool_calls);
    let readable = |call: &&Value| {
        let arguments = member(member(call, "function"), "arguments").as_str();
        arguments.is_some_and(|text| text.parse::<Value>().is_ok())
    };
    calls.into_iter().find(|call| !readable(call)).map(|call| id(call).to_owned())
}

/// Finds more than four `cache_control` marks in the whole request.
pub(super) fn too_many_cache_marks(chat: &ChatBody) -> Option<String> {
    let places = ["messages", "tools", "system"].map(|name| chat.field(name));
    let top = usize::from(!chat.field("cache_control").is_null());
    let found = top + places.into_iter().map(cache_marks).sum::<usize>();
    (found > CACHE_MARKS).then(|| found.to_string())
}

fn cache_marks(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(cache_marks).sum(),
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => 0,
        Value::Object(members) => {
            let mark = |(name, member): (&String, &Value)| {
                usize::from(name == "cache_control" && !member.is_null()) + cache_marks(member)
            };
            members.iter().map(mark).sum()
        }
    }
}

/// Finds a history with calls in a request without tools.
pub(super) fn calls_without_tools(chat: &ChatBody) -> Option<String> {
    let called = chat.messages().iter().any(|message| !tool_calls(message).is_empty());
    (called && chat.tools().is_empty()).then(String::new)
}

fn present(chat: &ChatBody, name: &str) -> Option<String> {
    (!chat.field(name).is_null()).then(|| name.to_owned())
}

/// Finds the member `store`.
pub(super) fn store(chat: &ChatBody) -> Option<String> {
    present(chat, "store")
}

/// Finds the newer name of the output limit, for models that accept only the older.
pub(super) fn new_output_limit(chat: &ChatBody) -> Option<String> {
    present(chat, "max_completion_tokens")
}

/// Finds the older name of the output limit, for models that accept only the newer.
pub(super) fn old_output_limit(chat: &ChatBody) -> Option<String> {
    present(chat, "max_tokens")
}

/// Finds a request for a number of answers other than one.
pub(super) fn several_answers(chat: &ChatBody) -> Option<String> {
    let n = chat.field("n").as_u64()?;
    (n != 1).then(|| n.to_string())
}
