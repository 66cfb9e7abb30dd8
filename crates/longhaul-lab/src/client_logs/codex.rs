//! Logs of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`.

use serde_json::Value;

use super::transcript::Transcript;
use super::{content_text, text};

/// Types of lines that only these logs have.
const TYPES: [&str; 5] =
    ["session_meta", "response_item", "turn_context", "event_msg", "compacted"];

/// Whether a line has the form of these logs.
pub(super) fn is_line(line: &Value) -> bool {
    line.get("payload").is_some() && text(line, "type").is_some_and(|kind| TYPES.contains(&kind))
}

pub(super) fn read(line: &Value, transcript: &mut Transcript) {
    transcript.note_prompt(line);
    let payload = line.get("payload").unwrap_or(&Value::Null);
    match text(line, "type") {
        Some("session_meta") => {
            let provider = text(payload, "model_provider").unwrap_or("openai");
            transcript.set_model(text(payload, "model"), Some(provider));
        }
        Some("turn_context") => transcript.set_model(text(payload, "model"), None),
        Some("compacted") => transcript.end_with_compaction(),
        Some("response_item") => read_item(payload, transcript),
        _ => {}
    }
}

fn read_item(item: &Value, transcript: &mut Transcript) {
    let member = |key: &str| text(item, key).unwrap_or_default();
    let content = || item.get("content").map(content_text).unwrap_or_default();
    match (member("type"), member("role")) {
        ("message", "assistant") => transcript.add_text(None, &content()),
        ("message", _) => transcript.add_user(&content()),
        ("function_call", _) => {
            transcript.add_call(None, member("call_id"), member("name"), member("arguments"));
        }
        ("custom_tool_call", _) => {
            let input = serde_json::json!({ "input": member("input") }).to_string();
            transcript.add_call(None, member("call_id"), member("name"), &input);
        }
        ("local_shell_call", _) => {
            let action = item.get("action").unwrap_or(&Value::Null).to_string();
            transcript.add_call(None, member("call_id"), "shell", &action);
        }
        ("function_call_output" | "custom_tool_call_output" | "local_shell_call_output", _) => {
            transcript.add_result(member("call_id"), &output_text(item.get("output")));
        }
        _ => {}
    }
}

/// Returns the text of an output: a text itself, parts, or an object with one of both.
fn output_text(output: Option<&Value>) -> String {
    let Some(output) = output else {
        return String::new();
    };
    let inner = output.get("content").or_else(|| output.get("output"));
    content_text(inner.unwrap_or(output))
}
