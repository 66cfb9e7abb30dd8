//! The part of a session that no proxy may replace: its head, and all up to the provider's own
//! compaction.

use crate::sessions::Failure;
use longhaul_mock_model::TokenDensity;
use serde_json::Value;

/// Beginnings of messages in which an agent describes its workspace.
const CONTEXT: [&str; 5] = [
    "# AGENTS.md instructions",
    "<environment_context>",
    "<recommended_plugins>",
    "<system-reminder>",
    "<user_instructions>",
];

/// Counts the pinned tokens of a session, given as its last request body.
pub(crate) fn tokens(body: &[u8], density: TokenDensity) -> Result<u64, Failure> {
    let mut body: Value = serde_json::from_slice(body)?;
    for key in ["input", "messages"] {
        if let Some(Value::Array(items)) = body.get_mut(key) {
            items.truncate(pinned(items));
        }
    }
    let tokens = density.request_tokens(body.to_string().as_bytes());
    tokens.ok_or_else(|| "a recorded request is no JSON object".into())
}

/// Returns the number of pinned items or messages.
fn pinned(items: &[Value]) -> usize {
    let is_compaction = |item: &Value| text(item, "type") == "compaction";
    let compaction = items.iter().rposition(is_compaction);
    let head = items.iter().take_while(|item| is_head(item)).count();
    compaction.map_or(head, |at| at + 1)
}

fn is_head(item: &Value) -> bool {
    let first = item.get("content").map(|content| {
        let part = content.get(0).and_then(|part| part.get("text"));
        part.unwrap_or(content).as_str().unwrap_or_default()
    });
    let is_context = CONTEXT.iter().any(|start| first.is_some_and(|text| text.starts_with(start)));
    matches!(text(item, "role"), "developer" | "system")
        || text(item, "type") == "additional_tools"
        || text(item, "role") == "user" && is_context
}

fn text<'v>(item: &'v Value, key: &str) -> &'v str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}
