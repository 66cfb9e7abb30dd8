//! The results file: every paid answer, as a JSON object per line.
//!
//! An entry is found by a hash of the request's destination and bytes. So a run that is started again pays
//! for nothing twice, and a changed session or setting changes only the hashes of its own requests.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use longhaul_core::units::usd::Usd;

/// Maximum bytes of a results file. A thousand answers and their summaries have tens of megabytes.
const FILE_BYTES: u64 = 1 << 30;
/// Maximum entries that are kept.
const MAX_ENTRIES: usize = 100_000;
/// Version of the form of an entry. Entries of another version are ignored.
const VERSION: u32 = 1;

/// Kind of a paid answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EntryKind {
    /// An answer to a request for the next step.
    Step,
    /// A refusal of such a request, because the history does not fit the model's window.
    Overflow,
    /// An answer to a call for a summary.
    Summary,
}

/// A paid answer, or a refusal for the size.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Entry {
    version: u32,
    /// Hash of the request.
    pub(super) key: String,
    pub(super) kind: EntryKind,
    /// Session, request and history of the first request with this hash, for people.
    pub(super) place: String,
    pub(super) model: String,
    /// The reply's body.
    pub(super) reply: String,
    /// Whether the reply is a stream of events.
    #[serde(default)]
    pub(super) is_stream: bool,
    pub(super) input_tokens: Option<u32>,
    pub(super) output_tokens: Option<u32>,
    /// Cost in billionths of a dollar, if known.
    pub(super) cost: Option<i64>,
}

impl Entry {
    pub(super) fn new(kind: EntryKind, key: &str, place: String, model: &str) -> Self {
        Self {
            version: VERSION,
            key: key.to_owned(),
            kind,
            place,
            model: model.to_owned(),
            reply: String::new(),
            is_stream: false,
            input_tokens: None,
            output_tokens: None,
            cost: None,
        }
    }
}

/// An open results file and its entries by key.
pub(super) struct ResultsFile {
    path: PathBuf,
    file: File,
    entries: HashMap<String, Entry>,
}

impl ResultsFile {
    /// Opens the file, or creates it, readable by its owner alone. Locks it, so that no two runs pay for
    /// the same answers. Fails if the file cannot be read or written, is too large, or another run
    /// uses it.
    pub(super) fn open(path: &Path) -> Result<Self, LabError> {
        let problem =
            |reason: String| LabError::CommandLine(format!("{}: {reason}", path.display()));
        let mut file = private_file(path, false).map_err(|error| problem(error.to_string()))?;
        if file.try_lock().is_err() {
            return Err(problem("another evaluation uses this file".to_owned()));
        }
        let length = file.metadata().map_or(0, |data| data.len());
        if length > FILE_BYTES {
            return Err(problem(format!(
                "larger than {} MiB; name another file with --results",
                FILE_BYTES >> 20
            )));
        }
        let mut entries = HashMap::new();
        let mut ends_line = true;
        let mut reader = BufReader::new(&mut file).take(FILE_BYTES);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            if read.map_err(|error| problem(error.to_string()))? == 0 {
                break;
            }
            ends_line = line.ends_with(b"\n");
            // A run that was killed may have left half a line.
            if let Ok(entry) = serde_json::from_slice::<Entry>(&line)
                && entry.version == VERSION
                && entries.len() < MAX_ENTRIES
            {
                entries.insert(entry.key.clone(), entry);
            }
        }
        if !ends_line {
            let ended = file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(b"\n"));
            ended.map_err(|error| problem(error.to_string()))?;
        }
        Ok(Self { path: path.to_owned(), file, entries })
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Adds an entry and writes its line at once. Fails if the file cannot be written.
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), LabError> {
        let mut line = serde_json::to_vec(&entry).unwrap_or_default();
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.flush());
        written.map_err(|error| {
            LabError::CommandLine(format!("cannot write {}: {error}", self.path.display()))
        })?;
        if self.entries.len() < MAX_ENTRIES {
            self.entries.insert(entry.key.clone(), entry);
        }
        Ok(())
    }

    /// Returns the cost of all entries, as far as known.
    pub(super) fn cost(&self) -> Usd {
        let costs = self.entries.values().filter_map(|entry| entry.cost);
        costs.fold(Usd::ZERO, |sum, nanos| sum + Usd::from_nanos(nanos))
    }
}

impl Drop for ResultsFile {
    /// Removes a file without answers: a run that spends nothing leaves nothing.
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|data| data.len() == 0) {
            _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens a file for its owner alone, to append to it or to replace it.
pub(super) fn private_file(path: &Path, is_replaced: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true);
    if is_replaced {
        options.write(true).truncate(true);
    } else {
        options.read(true).append(true);
    }
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // A file that exists keeps its mode otherwise.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, cost: i64) -> Entry {
        Entry {
            cost: Some(cost),
            ..Entry::new(EntryKind::Step, key, "a.json, request 3, original".into(), "m")
        }
    }

    #[test]
    fn entries_are_found_after_reopening_and_half_a_line_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let mut results = ResultsFile::open(&path).unwrap();
        results.add(entry("a", 5)).unwrap();
        assert!(ResultsFile::open(&path).is_err(), "the file is locked");
        drop(results);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"version\":1,\"key\":\"b")).unwrap();
        let mut results = ResultsFile::open(&path).unwrap();
        assert!(results.get("a").is_some() && results.get("b").is_none());
        results.add(entry("c", 7)).unwrap();
        drop(results);
        let results = ResultsFile::open(&path).unwrap();
        assert!(results.get("a").is_some() && results.get("c").is_some());
        assert_eq!(results.cost(), Usd::from_nanos(12));
    }

    #[test]
    fn entries_of_another_version_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let mut old = serde_json::to_value(entry("a", 5)).unwrap();
        old["version"] = 0.into();
        std::fs::write(&path, format!("{old}\n")).unwrap();
        assert!(ResultsFile::open(&path).unwrap().get("a").is_none());
    }

    #[cfg(unix)]
    #[test]
    fn the_file_belongs_to_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let results = ResultsFile::open(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(results);
        assert!(!path.exists(), "without an answer, nothing stays");
    }
}
