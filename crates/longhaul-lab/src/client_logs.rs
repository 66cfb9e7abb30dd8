//! Conversations from the logs that agents keep themselves: Claude Code, Codex, OpenCode and pi.
//!
//! A log holds neither the system prompt nor the tool schemas, so a conversation read from it is
//! somewhat shorter than the requests were. Lines that no reader accepts are skipped and counted.

mod claude_code;
mod codex;
mod opencode;
mod pi;
mod transcript;
mod walk;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

pub(crate) use transcript::LoggedConversation;
use transcript::Transcript;
pub(crate) use walk::is_lines;

/// The days whose logs are read below a folder.
pub(crate) const DAYS: u64 = 30;
/// Maximum bytes of one log file. A log of a month of work has tens of megabytes.
const FILE_BYTES: u64 = 1 << 30;
/// Maximum bytes of all conversations that are kept at once. The smallest give way.
const KEPT_BYTES: usize = 1 << 29;

/// An agent whose logs are read.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum LogSource {
    ClaudeCode,
    Codex,
    OpenCode,
    Pi,
    /// A request body, as `explain --replay FILE` takes it.
    RequestBody,
}

impl LogSource {
    /// Returns the agent's name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenCode => "OpenCode",
            Self::Pi => "pi",
            Self::RequestBody => "request bodies",
        }
    }
}

/// The conversations found in some folders, and counts of the entries left out.
#[derive(Debug, Default)]
pub(crate) struct ClientLogs {
    pub(crate) conversations: Vec<LoggedConversation>,
    /// Bytes of the conversations.
    bytes: usize,
    /// Conversations that gave way to larger ones.
    pub(crate) dropped: usize,
    /// Logs, and requests that the model answered, of each agent.
    pub(crate) sources: BTreeMap<LogSource, (usize, usize)>,
    /// The agent with the most answered requests in one log, and their number.
    pub(crate) longest: Option<(usize, LogSource)>,
    /// Lines or files in an unknown form.
    pub(crate) skipped: usize,
    /// Files that changed last before the period.
    pub(crate) older: usize,
    /// Files and folders that were looked at.
    pub(crate) seen: usize,
    /// Whether a database of OpenCode was found, which needs an export.
    pub(crate) has_database: bool,
}

impl ClientLogs {
    /// Reads every log below `folders` that changed within `period`, and each log that `folders` names itself.
    pub(crate) fn read(folders: &[&Path], period: Duration) -> Self {
        let since = SystemTime::now().checked_sub(period);
        let since = since.unwrap_or(SystemTime::UNIX_EPOCH);
        let mut logs = Self::default();
        for folder in folders {
            walk::visit(folder, since, &mut logs);
        }
        logs
    }

    /// Adds the conversations of one log.
    fn add(&mut self, found: Vec<LoggedConversation>) {
        let Some(source) = found.first().map(|logged| logged.source) else {
            return;
        };
        let requests = found.iter().map(|logged| logged.requests).sum();
        let (logs, answered) = self.sources.entry(source).or_default();
        (*logs, *answered) = (*logs + 1, *answered + requests);
        self.longest = self.longest.max(Some((requests, source)));
        self.bytes += found.iter().map(|logged| logged.body.len()).sum::<usize>();
        self.conversations.extend(found);
        self.make_room(KEPT_BYTES);
    }

    /// Drops the smallest conversations until the others have at most `most` bytes.
    fn make_room(&mut self, most: usize) {
        while self.bytes > most {
            let sized = self.conversations.iter().map(|logged| logged.body.len()).enumerate();
            let Some((at, bytes)) = sized.min_by_key(|(_, bytes)| *bytes) else {
                return;
            };
            self.conversations.swap_remove(at);
            self.bytes -= bytes;
            self.dropped += 1;
        }
    }

    /// Reads a log of one JSON value per line.
    fn add_lines(&mut self, name: &str, lines: impl Iterator<Item = String>) {
        let mut reader = None;
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let Ok(value) = serde_json::from_str::<Value>(&line) else {
                self.skipped += 1;
                continue;
            };
            if reader.is_none() {
                reader = LineReader::of(&value);
            }
            match &mut reader {
                Some(reader) => reader.read(&value),
                None => self.skipped += 1,
            }
        }
        if let Some(reader) = reader {
            self.add(reader.finish(name));
        }
    }

    fn add_exported(&mut self, name: &str, value: &Value) {
        match opencode::exported(name, value) {
            Some(found) => self.add(found),
            None => self.skipped += 1,
        }
    }
}

/// A log in the form of one agent.
struct LineReader {
    source: LogSource,
    transcript: Transcript,
}

impl LineReader {
    /// Returns the reader for a log with this line, or `None` if the line does not show the form.
    fn of(line: &Value) -> Option<Self> {
        let source = if codex::is_line(line) {
            LogSource::Codex
        } else if claude_code::is_line(line) {
            LogSource::ClaudeCode
        } else if pi::is_line(line) {
            LogSource::Pi
        } else {
            return None;
        };
        let transcript = Transcript::default();
        Some(Self { source, transcript })
    }

    fn read(&mut self, line: &Value) {
        match self.source {
            LogSource::ClaudeCode => claude_code::read(line, &mut self.transcript),
            LogSource::Codex => codex::read(line, &mut self.transcript),
            LogSource::Pi => pi::read(line, &mut self.transcript),
            LogSource::OpenCode | LogSource::RequestBody => {}
        }
    }

    fn finish(self, name: &str) -> Vec<LoggedConversation> {
        self.transcript.finish(self.source, name)
    }
}

/// Returns the text member `key` of an object.
fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

/// Returns the text of a content: a text itself, or the texts of its parts on lines.
pub(crate) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| text(part, "text")).collect();
            texts.join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ends_at_the_bound_on_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let body = r#"{"messages": [{"role": "user", "content": "a"}]}"#;
        std::fs::write(folder.path().join("a.json"), body).unwrap();
        let read = |seen| {
            let mut logs = ClientLogs { seen, ..ClientLogs::default() };
            walk::visit(folder.path(), SystemTime::UNIX_EPOCH, &mut logs);
            (logs.conversations.len(), logs.seen)
        };
        let most = walk::ENTRIES;
        assert_eq!([read(0), read(most - 2), read(most - 1)], [(1, 2), (1, most), (0, most)]);
    }

    #[test]
    fn the_smallest_conversations_give_way_and_are_counted() {
        let mut logs = ClientLogs::default();
        for words in [3, 900, 40, 500] {
            let said = "word ".repeat(words);
            let mut transcript = Transcript::default();
            transcript.add_user(&said);
            transcript.add_text(None, "Done.");
            logs.add(transcript.finish(LogSource::Pi, "a.jsonl"));
        }
        logs.make_room(logs.bytes - 300);
        let kept: Vec<usize> = logs.conversations.iter().map(|one| one.body.len()).collect();
        assert_eq!(kept.iter().filter(|bytes| **bytes > 2_000).count(), 2, "{kept:?}");
        assert_eq!((logs.dropped, kept.iter().sum::<usize>()), (4 - kept.len(), logs.bytes));
        assert_eq!(logs.sources.get(&LogSource::Pi), Some(&(4, 4)));
        assert_eq!(logs.longest, Some((1, LogSource::Pi)));
    }
}
