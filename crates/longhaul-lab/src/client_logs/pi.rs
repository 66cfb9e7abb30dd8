//! Logs of pi: `~/.pi/agent/sessions/FOLDER/TIME_ID.jsonl`.

use serde_json::Value;

use super::transcript::Transcript;
use super::{content_text, text};

/// Whether a line has the form of these logs.
pub(super) fn is_line(line: &Value) -> bool {
    match text(line, "type") {
        Some("session") => line.get("cwd").is_some(),
        Some("message") => line.get("message").is_some_and(|message| message.get("role").is_some()),
        _ => false,
    }
}

pub(super) fn read(line: &Value, transcript: &mut Transcript) {
    transcript.note_prompt(line);
    match text(line, "type") {
        Some("model_change") => transcript.set_model(text(line, "modelId"), text(line, "provider")),
        Some("compaction") => {
            transcript.end_with_compaction();
            transcript.add_user(text(line, "summary").unwrap_or_default());
        }
        Some("message") => {
            if let Some(message) = line.get("message") {
                read_message(message, text(line, "id"), transcript);
            }
        }
        _ => {}
    }
}

fn read_message(message: &Value, step: Option<&str>, transcript: &mut Transcript) {
    let content = message.get("content").unwrap_or(&Value::Null);
    match text(message, "role") {
        Some("user") => transcript.add_user(&content_text(content)),
        Some("assistant") => {
            transcript.set_model(text(message, "model"), text(message, "provider"));
            transcript.add_text(step, &content_text(content));
            for part in content.as_array().into_iter().flatten() {
                if text(part, "type") == Some("toolCall") {
                    let arguments = part.get("arguments").unwrap_or(&Value::Null).to_string();
                    let [id, name] = ["id", "name"].map(|key| text(part, key).unwrap_or_default());
                    transcript.add_call(step, id, name, &arguments);
                }
            }
        }
        Some("toolResult") => {
            let id = text(message, "toolCallId").unwrap_or_default();
            transcript.add_result(id, &content_text(content));
        }
        _ => {}
    }
}
