//! Sessions of OpenCode: the folder `~/.local/share/opencode/storage` of older versions, and the JSON
//! that `opencode export` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::transcript::{LoggedConversation, Transcript};
use super::{ClientLogs, LogSource, text};

/// Reads an exported session: `{info, messages: [{info, parts}]}`. `None` if `value` is none.
pub(super) fn exported(name: &str, value: &Value) -> Option<Vec<LoggedConversation>> {
    let mut transcript = Transcript::default();
    for message in value.get("messages")?.as_array()? {
        let parts = message.get("parts")?.as_array()?;
        read_message(message.get("info")?, parts, &mut transcript);
    }
    Some(transcript.finish(LogSource::OpenCode, name))
}

/// Reads every session of a storage folder that changed since `since`.
pub(super) fn read_storage(storage: &Path, since: SystemTime, logs: &mut ClientLogs) {
    for session in entries(&storage.join("message")) {
        let changed = fs::metadata(&session).and_then(|data| data.modified());
        if changed.is_ok_and(|changed| changed < since) {
            logs.older += 1;
            continue;
        }
        let mut transcript = Transcript::default();
        for file in entries(&session) {
            let Some(info) = read_json(&file) else {
                logs.skipped += 1;
                continue;
            };
            let folder = storage
                .join("part")
                .join(text(&info, "id").unwrap_or_default());
            let parts: Vec<Value> = entries(&folder)
                .iter()
                .filter_map(|part| read_json(part))
                .collect();
            read_message(&info, &parts, &mut transcript);
        }
        let name = session.file_name().unwrap_or_default().to_string_lossy();
        logs.conversations
            .extend(transcript.finish(LogSource::OpenCode, &name));
    }
}

fn read_message(info: &Value, parts: &[Value], transcript: &mut Transcript) {
    let [id, role] = ["id", "role"].map(|key| text(info, key));
    if info.get("summary") == Some(&Value::Bool(true)) {
        transcript.end_with_compaction();
    }
    let model = info.get("model").unwrap_or(info);
    transcript.set_model(text(model, "modelID"), text(model, "providerID"));
    for part in parts {
        match (role, text(part, "type")) {
            (Some("user"), Some("text")) => {
                transcript.add_user(text(part, "text").unwrap_or_default());
            }
            (_, Some("text")) => transcript.add_text(id, text(part, "text").unwrap_or_default()),
            (_, Some("tool")) => read_tool(id, part, transcript),
            _ => {}
        }
    }
}

/// Adds a call with its result: OpenCode keeps both in one part.
fn read_tool(step: Option<&str>, part: &Value, transcript: &mut Transcript) {
    let state = part.get("state").cloned().unwrap_or_else(|| json!({}));
    let [id, name] = ["callID", "tool"].map(|key| text(part, key).unwrap_or_default());
    let input = state.get("input").unwrap_or(&Value::Null).to_string();
    transcript.add_call(step, id, name, &input);
    let output = text(&state, "output").or_else(|| text(&state, "error"));
    transcript.add_result(id, output.unwrap_or_default());
}

/// Returns the entries of a folder in the order of their names, which is that of time.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn read_json(file: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}
