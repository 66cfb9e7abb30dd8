//! Requests for a model's next step, and the step in a reply.

use serde_json::{Map, Value, json};

use super::{MemberEdit, OutputKey, edit_members, without_reasoning};
use longhaul_core::units::tokens::Tokens;

/// Options that only a stream may have.
pub(super) const STREAM_OPTIONS: &str = "stream_options";

/// The older key of the output limit, which most servers read.
const OLDER_KEY: &str = "max_tokens";
/// The newer key of the output limit.
const NEWER_KEY: &str = "max_completion_tokens";

/// Members of an assistant message that make up its step.
const STEP_KEYS: [&str; 4] = ["content", "function_call", "refusal", "tool_calls"];

/// See [`step_request`](super::step_request()).
pub(super) fn request(body: &str, output: Tokens, key: OutputKey) -> Option<String> {
    let limit = output.to_string();
    let edited = edit_members(body, |name, value| match name {
        OLDER_KEY if key == OutputKey::Newer => MemberEdit::Remove,
        OLDER_KEY | NEWER_KEY => MemberEdit::Value(limit.clone()),
        "n" | "store" | "stream" | STREAM_OPTIONS => MemberEdit::Remove,
        "enable_thinking" | "reasoning" | "reasoning_effort" | "think" | "thinking" => {
            without_reasoning(name, value)
        }
        _ => MemberEdit::Keep,
    })?;
    let missing = match key {
        OutputKey::Newer => NEWER_KEY,
        OutputKey::Recorded if edited.has(NEWER_KEY) => return Some(edited.finish()),
        OutputKey::Recorded => OLDER_KEY,
    };
    Some(edited.with_missing(missing, &limit).finish())
}

/// See [`asks_for_newer_output_key`](super::asks_for_newer_output_key).
pub(super) fn asks_for_newer_key(error: &[u8]) -> bool {
    String::from_utf8_lossy(error).contains(NEWER_KEY)
}

/// Returns a request with the message of the first choice, and the words of a refusal.
pub(super) fn history(reply: &[u8]) -> Option<(String, Option<String>)> {
    let reply: Value = serde_json::from_slice(reply).ok()?;
    let message = reply.pointer("/choices/0/message")?.as_object()?;
    let mut step = Map::new();
    step.insert("role".to_owned(), "assistant".into());
    for (name, value) in message {
        if STEP_KEYS.contains(&&**name) && !value.is_null() {
            step.insert(name.clone(), value.clone());
        }
    }
    let refusal = step.remove("refusal");
    let refusal = refusal.and_then(|words| words.as_str().map(str::to_owned));
    let refusal = refusal.filter(|words| !words.is_empty());
    Some((json!({ "messages": [step] }).to_string(), refusal))
}
