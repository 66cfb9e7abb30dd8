//! Requests for a model's next step, and the step in a reply.

use serde_json::{Value, json};

use super::{MemberEdit, edit_members};
use longhaul_core::dialect::reasoning_option::reduces_reasoning;
use longhaul_core::units::tokens::Tokens;

/// The stop reason of a refusal.
const REFUSAL: &str = "refusal";

/// See [`step_request`](super::step_request()).
///
/// The budget of thinking must be smaller than the output. Edits of the context may concern thinking,
/// which the API refuses without it.
pub(super) fn request(body: &str, output: Tokens) -> Option<String> {
    let limit = output.to_string();
    let has_thinking = || {
        edit_members(body, |name, value| match name {
            "thinking" if !reduces_reasoning(name, value) => MemberEdit::Keep,
            _ => MemberEdit::Remove,
        })
        .is_some_and(|edited| edited.has("thinking"))
    };
    let removes_thinking = has_thinking();
    let edited = edit_members(body, |name, _| match name {
        "max_tokens" => MemberEdit::Value(limit.clone()),
        "stream" => MemberEdit::Remove,
        "context_management" | "thinking" if removes_thinking => MemberEdit::Remove,
        _ => MemberEdit::Keep,
    })?;
    Some(edited.with_missing("max_tokens", &limit).finish())
}

/// Returns a request with the message of the reply, and the words of a refusal.
pub(super) fn history(reply: &[u8]) -> Option<(String, Option<String>)> {
    let reply: Value = serde_json::from_slice(reply).ok()?;
    let content = reply.get("content")?.as_array()?;
    let is_thinking = |block: &&Value| {
        let kind = block.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.ends_with("thinking"))
    };
    let step: Vec<&Value> = content.iter().filter(|block| !is_thinking(block)).collect();
    let refused = reply.get("stop_reason").and_then(Value::as_str) == Some(REFUSAL);
    let words = || {
        let texts = content.iter().filter_map(|block| block.get("text")?.as_str());
        texts.collect::<Vec<_>>().join("\n")
    };
    let message = json!({ "role": "assistant", "content": step });
    let history = json!({ "max_tokens": 1, "messages": [message] }).to_string();
    Some((history, refused.then(words)))
}
