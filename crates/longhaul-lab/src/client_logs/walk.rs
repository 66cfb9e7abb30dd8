//! The files below a folder that may be logs.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use super::transcript::LoggedConversation;
use super::{ClientLogs, FILE_BYTES, LogSource, opencode};
use crate::progress::{ProgressLine, print_error};
use longhaul_console::input::open_input;
use longhaul_core::dialect::Dialect;

/// Maximum depth of folders. Logs of Codex lie three below theirs.
const DEPTH: usize = 8;
/// Maximum number of files and folders of one command: far more than a year of work leaves.
pub(super) const ENTRIES: usize = 200_000;

/// Adds the logs below `folder` that changed since `since`, or the log that `folder` is. Links are not followed.
pub(super) fn visit(folder: &Path, since: SystemTime, logs: &mut ClientLogs) {
    let mut open: Vec<(PathBuf, usize)> = vec![(folder.to_owned(), 0)];
    let progress = ProgressLine::new();
    while let Some((path, depth)) = open.pop() {
        let Ok(data) = fs::symlink_metadata(&path) else {
            continue;
        };
        if logs.seen == ENTRIES {
            drop(progress);
            let rest = path.display();
            return print_error(&format!(
                "longhaul: reading ended after {ENTRIES} files and folders, at {rest}; name the folder of the logs\n"
            ));
        }
        logs.seen += 1;
        progress.show(&format!("reading {}: file {}", folder.display(), logs.seen));
        if data.is_dir() {
            let inner = [&path, &path.join("storage")];
            let storage = inner.into_iter().find(|path| is_storage(path));
            if let Some(storage) = storage {
                opencode::read_storage(storage, since, logs);
            } else if depth < DEPTH {
                let found = fs::read_dir(&path).into_iter().flatten();
                let mut inner: Vec<PathBuf> =
                    found.filter_map(|entry| Some(entry.ok()?.path())).collect();
                inner.sort();
                open.extend(inner.into_iter().rev().map(|path| (path, depth + 1)));
            }
        } else if data.is_file() && data.len() <= FILE_BYTES {
            if depth > 0 && data.modified().is_ok_and(|changed| changed < since) {
                logs.older += usize::from(is_log(&path));
            } else {
                visit_file(&path, logs);
            }
        }
    }
}

/// Whether a folder is OpenCode's storage, with a file for each message and each part.
fn is_storage(folder: &Path) -> bool {
    folder.join("message").is_dir() && folder.join("part").is_dir()
}

fn is_log(path: &Path) -> bool {
    is_lines(path) || has_ending(path, "json") || name_of(path).ends_with(".json.gz")
}

/// Whether a file holds a JSON value per line, by its name.
pub(crate) fn is_lines(path: &Path) -> bool {
    has_ending(path, "jsonl")
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn visit_file(path: &Path, logs: &mut ClientLogs) {
    let name = name_of(path);
    if name == "opencode.db" {
        logs.has_database = true;
    } else if is_lines(path) {
        let Ok(file) = File::open(path) else {
            logs.skipped += 1;
            return;
        };
        // A line that is not UTF-8 becomes one that is not JSON.
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
        logs.add_lines(&name, lines.map(|line| String::from_utf8_lossy(&line).into_owned()));
    } else if is_log(path) {
        read_whole(path, &name, logs);
    }
}

/// Reads a request body, or an exported session. Other JSON files lie next to logs, so they are not
/// faults.
fn read_whole(path: &Path, name: &str, logs: &mut ClientLogs) {
    let mut body = Vec::new();
    let read = open_input(path).and_then(|input| input.take(FILE_BYTES).read_to_end(&mut body));
    if read.is_err() {
        logs.skipped += 1;
        return;
    }
    let read = Dialect::read_any(&body);
    if let Ok(requests) = read.map(|conversation| conversation.request_points().count()) {
        logs.add(vec![LoggedConversation {
            source: LogSource::RequestBody,
            name: name.to_owned(),
            provider: None,
            body,
            compacted_by_agent: false,
            requests,
            largest_prompt: 0,
        }]);
        return;
    }
    let value = serde_json::from_slice::<Value>(&body);
    let is_session = |value: &Value| value.get("info").is_some() && value.get("messages").is_some();
    if let Some(value) = value.ok().filter(is_session) {
        logs.add_exported(name, &value);
    }
}
