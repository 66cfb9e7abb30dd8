//! Sessions of OpenCode: the folder `~/.local/share/opencode/storage` of older versions, and the JSON
//! that `opencode export` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::transcript::{LoggedConversation, Transcript};
use super::walk::ENTRIES;
use super::{ClientLogs, FILE_BYTES, LogSource, text};

/// Reads an exported session: `{info, messages: [{info, parts}]}`. `None` if `value` is not an export.
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
            // The id comes from the file, and must not lead out of the folder.
            let id = text(&info, "id").filter(|id| is_id(id));
            let folder = id.map(|id| storage.join("part").join(id));
            let files = folder.map_or_else(Vec::new, |folder| entries(&folder));
            let parts: Vec<Value> = files.iter().filter_map(|part| read_json(part)).collect();
            read_message(&info, &parts, &mut transcript);
        }
        let name = session.file_name().unwrap_or_default().to_string_lossy();
        logs.add(transcript.finish(LogSource::OpenCode, &name));
    }
}

fn read_message(info: &Value, parts: &[Value], transcript: &mut Transcript) {
    let [id, role] = ["id", "role"].map(|key| text(info, key));
    if info.get("summary") == Some(&Value::Bool(true)) {
        transcript.end_with_compaction();
    }
    transcript.note_prompt(info);
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

/// Whether a text is an id of OpenCode, such as `msg_01`.
fn is_id(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    !text.is_empty() && text.chars().all(is_part)
}

/// Returns the entries of a folder in the order of their names, which is the order of time. Links to folders
/// are not followed.
fn entries(folder: &Path) -> Vec<PathBuf> {
    if !fs::symlink_metadata(folder).is_ok_and(|data| data.is_dir()) {
        return Vec::new();
    }
    let found = fs::read_dir(folder).into_iter().flatten().take(ENTRIES);
    let mut paths: Vec<PathBuf> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn read_json(file: &Path) -> Option<Value> {
    let data = fs::symlink_metadata(file).ok()?;
    if !data.is_file() || data.len() > FILE_BYTES {
        return None;
    }
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}
