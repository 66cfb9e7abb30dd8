//! Logs of Claude Code: `~/.claude/projects/PROJECT/SESSION.jsonl`.

use serde_json::Value;

use super::transcript::Transcript;
use super::{content_text, text};

/// Whether a line has the form of these logs.
pub(super) fn is_line(line: &Value) -> bool {
    line.get("sessionId").is_some() && line.get("type").is_some()
}

/// Adds a line. A message of the assistant has a line for each of its blocks.
pub(super) fn read(line: &Value, transcript: &mut Transcript) {
    // The conversation of a subagent has requests of its own, and often a log of its own.
    let is_sidechain = line.get("isSidechain") == Some(&Value::Bool(true));
    if line.get("message").is_some() && !transcript.is_same_chain(is_sidechain) {
        return;
    }
    if text(line, "subtype") == Some("compact_boundary") {
        transcript.end_with_compaction();
        return;
    }
    let Some(message) = line.get("message") else {
        return;
    };
    // The client writes an error as a message of this model. No request holds such a message.
    if text(message, "model") == Some("<synthetic>") {
        return;
    }
    transcript.note_prompt(line);
    let content = message.get("content").unwrap_or(&Value::Null);
    match text(line, "type") {
        Some("user") => read_user(content, transcript),
        Some("assistant") => {
            transcript.set_model(text(message, "model"), Some("anthropic"));
            read_assistant(text(message, "id"), content, transcript);
        }
        _ => {}
    }
}

fn read_user(content: &Value, transcript: &mut Transcript) {
    for block in content.as_array().into_iter().flatten() {
        if let Some(id) = text(block, "tool_use_id") {
            let result = block.get("content").map(content_text).unwrap_or_default();
            transcript.add_result(id, &result);
        }
    }
    transcript.add_user(&content_text(content));
}

fn read_assistant(step: Option<&str>, content: &Value, transcript: &mut Transcript) {
    transcript.add_text(step, &content_text(content));
    for block in content.as_array().into_iter().flatten() {
        if text(block, "type") == Some("tool_use") {
            let input = block.get("input").unwrap_or(&Value::Null).to_string();
            let [id, name] = ["id", "name"].map(|key| text(block, key).unwrap_or_default());
            transcript.add_call(step, id, name, &input);
        }
    }
}
