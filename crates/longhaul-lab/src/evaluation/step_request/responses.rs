//! Requests for a model's next step, and the step in a reply.

use serde_json::{Value, json};

use super::chat_completions::STREAM_OPTIONS;
use super::{MemberEdit, edit_members, without_reasoning};
use longhaul_core::units::tokens::Tokens;

/// See [`step_request`](super::step_request()).
///
/// A server that truncates the input would hide that the history does not fit.
pub(super) fn request(body: &str, output: Tokens) -> Option<String> {
    let limit = output.to_string();
    let edited = edit_members(body, |name, value| match name {
        "max_output_tokens" => MemberEdit::Value(limit.clone()),
        "store" => MemberEdit::Value("false".to_owned()),
        "background" | "stream" | "truncation" | STREAM_OPTIONS => MemberEdit::Remove,
        "reasoning" => without_reasoning(name, value),
        _ => MemberEdit::Keep,
    })?;
    let edited = edited.with_missing("max_output_tokens", &limit).with_missing("store", "false");
    Some(edited.finish())
}

/// Returns a request with the output of the reply, and the words of a refusal.
pub(super) fn history(reply: &[u8]) -> Option<(String, Option<String>)> {
    let reply: Value = serde_json::from_slice(reply).ok()?;
    let output = reply.get("output")?.as_array()?;
    let kind = |item: &Value| item.get("type").and_then(Value::as_str).map(str::to_owned);
    let is_reasoning = |item: &&Value| kind(item).as_deref() == Some("reasoning");
    let step: Vec<&Value> = output.iter().filter(|item| !is_reasoning(item)).collect();
    let parts = step.iter().filter_map(|item| item.get("content")?.as_array()).flatten();
    let refusals: Vec<&str> = parts.filter_map(|part| part.get("refusal")?.as_str()).collect();
    let refusal = (!refusals.is_empty()).then(|| refusals.join("\n"));
    Some((json!({ "input": step }).to_string(), refusal))
}
