//! Whether the body of a successful reply states an error.

use serde_json::Value;

use crate::overflow::error_details::{MAX_ELEMENTS, plain_key};
use crate::overflow::vocabulary::{is_listed, listed};

/// Whether the body of a successful reply states an error at its top level, or in a choice. Answers
/// have a member `answer_key`.
pub(super) fn states_error(value: &Value, answer_key: &str) -> bool {
    let Value::Object(members) = value else {
        return value.as_array().is_some_and(|all| {
            let mut first = all.iter().take(MAX_ELEMENTS);
            first.any(|element| states_error(element, answer_key))
        });
    };
    // Keys are compared without case and separators.
    let find = |name: &str| {
        let found = members.iter().find(|(key, _)| plain_key(key) == name);
        found.map(|(_, member)| member)
    };
    let filled = |name: &str| find(name).is_some_and(is_non_empty);
    let reads = |name: &str, word: &str| find(name).and_then(Value::as_str) == Some(word);
    let has_code = find("code").is_some_and(is_failure_code) && !filled(answer_key);
    listed("key-error").any(filled)
        || reads("object", "error")
        || reads("type", "error")
        || reads("type", "response.failed")
        || find("response").is_some_and(has_error)
        || !filled(answer_key) && members.iter().any(|(key, it)| is_failed_part(key, it))
        || (has_code && (filled("message") || filled("msg")) && !members.contains_key(answer_key))
        || find(answer_key).is_some_and(has_failed_choice)
}

/// Whether an object has an error, whatever the case of the key.
fn has_error(value: &Value) -> bool {
    let mut members = value.as_object().into_iter().flatten();
    members.any(|(key, member)| plain_key(key) == "error" && is_non_empty(member))
}

/// Whether a member of a body without an answer states a failure: `"ok": false`, or an object with a code
/// and a message.
fn is_failed_part(key: &str, member: &Value) -> bool {
    let key = plain_key(key);
    match member {
        Value::Bool(succeeded) => {
            !succeeded && matches!(key.as_str(), "issuccess" | "ok" | "succeeded" | "success")
        }
        Value::Object(parts) if !is_listed("key-skipped", &key) => {
            let has = |list, is_one: fn(&Value) -> bool| {
                let mut parts = parts.iter();
                parts.any(|(key, part)| is_listed(list, &plain_key(key)) && is_one(part))
            };
            has("key-part-code", is_failure_code) && has("key-part-message", is_non_empty)
        }
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            false
        }
    }
}

/// Maximum depth of an error within containers. Deeper errors are more likely part of an answer.
const MAX_ERROR_DEPTH: usize = 3;

/// Whether a body states a failure by keys that longhaul does not list, and has no answer. One of these
/// states a failure:
///
/// - a member that is false, or a word for a failure
/// - `detail`
/// - an error within containers
pub(super) fn is_unknown_failure(value: &Value) -> bool {
    let mut members = value.as_object().into_iter().flatten();
    let is_failure = |(key, member): (&String, &Value)| {
        let word = member.as_str().map(str::to_lowercase);
        *member == Value::Bool(false)
            || word.is_some_and(|word| is_listed("failure", &word))
            || (plain_key(key) == "detail" && is_non_empty(member))
    };
    let states = members.any(is_failure) || has_nested_error(value, MAX_ERROR_DEPTH);
    states && !has_answer(value, MAX_ERROR_DEPTH)
}

/// Whether an object has a message in words, and no answer in the shape of any API.
pub(super) fn is_message(value: &Value) -> bool {
    let mut members = value.as_object().into_iter().flatten();
    members.any(|(key, member)| plain_key(key) == "message" && member.is_string())
        && !has_answer(value, MAX_ERROR_DEPTH)
}

/// Whether an object, or an object within its containers down to `depth`, has an error.
fn has_nested_error(value: &Value, depth: usize) -> bool {
    let mut members = value.as_object().into_iter().flatten();
    has_error(value)
        || members.any(|(key, member)| {
            depth > 1
                && is_listed("key-container", &plain_key(key))
                && has_nested_error(member, depth - 1)
        })
}

/// Whether an object has an answer in the shape of another API. A message in words states a failure. A
/// container itself is not an answer.
fn has_answer(value: &Value, depth: usize) -> bool {
    let mut members = value.as_object().into_iter().flatten();
    members.any(|(key, member)| {
        let key = plain_key(key);
        if !is_listed("key-answer", &key) || !is_non_empty(member) {
            return false;
        }
        match member {
            Value::String(_) => key != "message",
            Value::Object(_) if depth > 1 && is_listed("key-container", &key) => {
                has_answer(member, depth - 1)
            }
            Value::Array(_)
            | Value::Bool(_)
            | Value::Null
            | Value::Number(_)
            | Value::Object(_) => true,
        }
    })
}

/// Whether a code is none of the codes of success.
fn is_failure_code(code: &Value) -> bool {
    match code {
        Value::Number(number) => !matches!(number.as_u64(), Some(0 | 200)),
        Value::String(text) => {
            let text = text.to_ascii_lowercase();
            !matches!(text.as_str(), "" | "0" | "200" | "ok" | "success")
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn has_failed_choice(choices: &Value) -> bool {
    let mut choices = choices.as_array().into_iter().flatten().take(MAX_ELEMENTS);
    choices.any(has_error)
}

/// Whether a body has the member of an answer, but without an element.
pub(super) fn has_empty_answer(value: &Value, answer_key: &str) -> bool {
    value.get(answer_key).is_some_and(|it| !is_non_empty(it))
}

fn is_non_empty(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(yes) => *yes,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}
