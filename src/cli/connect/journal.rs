//! Changes of agents' files, and what takes each of them back.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::format::{Format, Place};
use crate::cli::agents::{Agent, Target};
use crate::cli::{Env, print_error, state_folder};
use crate::error::Problem;
use crate::store::totals_file;

/// File of the journal in the state folder.
const JOURNAL: &str = "connect.json";

/// Files that longhaul has changed, by agent.
type Journal = BTreeMap<String, ChangedFile>;

#[derive(Debug, Deserialize, Serialize)]
struct ChangedFile {
    path: PathBuf,
    /// Text before longhaul's first change; none if there was no file.
    before: Option<String>,
    /// Hash of the text that longhaul wrote last. None if somebody changed the text between two writes.
    written: Option<String>,
    values: Vec<Written>,
}

/// A value that longhaul has written.
#[derive(Debug, Deserialize, Serialize)]
struct Written {
    at: String,
    value: Value,
    /// Value that was replaced.
    before: Option<Value>,
    /// Whether the agent cannot read a file without it.
    is_form: bool,
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn problem(file: &Path, reason: impl Display) -> Problem {
    Problem::CommandLine(format!("{}: {reason}", file.display()))
}

/// Writes the keys that `agent` needs to its file. Fails without a change if the file does not parse, or if
/// a key has another value and `force` is not set.
pub(super) fn write(
    agent: &Agent,
    target: &Target<'_>,
    env: &Env,
    force: bool,
) -> Result<(), Problem> {
    let (journal_file, mut journal) = open_journal(env)?;
    let path = agent.file(env);
    // A link stays a link.
    let path = path.canonicalize().unwrap_or(path);
    let refuse = |reason: &dyn Display| Err(problem(&path, reason));
    let keys = agent.keys(target);
    if path.is_relative() || keys.iter().all(|key| key.absent) {
        return refuse(&"the keys depend on your model: add --model NAME");
    }
    let (name, format, found) = (&agent.name, Format::of(&path), read_text(&path)?);
    let mut text = found.clone().unwrap_or_default();
    let mut file = journal.remove(name).filter(|file| file.path == path).unwrap_or_else(|| {
        let written = Some(hash(&text));
        ChangedFile { path: path.clone(), before: found.clone(), written, values: Vec::new() }
    });
    file.written = file.written.filter(|written| *written == hash(&text));
    let root = format.read(&text).map_err(|reason| problem(&path, reason))?;
    let is_read = text.trim().is_empty() || serde_json::from_str::<Value>(&text).is_ok();
    if agent.is_strict && !is_read {
        return refuse(&"not the JSON that the agent reads");
    }
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for key in keys {
        let place = Place::new(&key.at, &key.value);
        let found = place.find(&root);
        if found == Some(&key.value) {
            continue;
        }
        let known = file.values.iter().position(|written| {
            written.at == key.at
                && Place::new(&key.at, &written.value).find(&root) == Some(&written.value)
        });
        let mut before = found.cloned();
        if let Some(known) = known {
            let ours = file.values.remove(known);
            let place = Place::new(&key.at, &ours.value);
            text = format.change(&text, &place, None).unwrap_or(text);
            before = ours.before;
        } else if found.is_some() && (key.absent || !force) {
            if key.absent {
                kept.push(key);
            } else {
                refused.push(key.at);
            }
            continue;
        }
        let changed = format.change(&text, &place, Some(&key.value)).filter(|changed| {
            format.read(changed).is_ok_and(|root| place.find(&root) == Some(&key.value))
        });
        let Some(changed) = changed else {
            return refuse(&format!("{} cannot be set here", key.at));
        };
        text = changed;
        let (at, value, is_form) = (key.at.clone(), key.value.clone(), key.is_form);
        file.values.push(Written { at, value, before, is_form });
    }
    if !refused.is_empty() {
        let names = refused.join(" and ");
        return refuse(&format!("{names} is set to something else; --force replaces it"));
    }
    let (shown, start) = (path.display(), agent.start_command(target));
    if found.as_ref() == Some(&text) {
        print_error(&format!("longhaul: {shown} has it all; start {start}\n"));
    } else {
        file.written = file.written.map(|_| hash(&text));
        journal.insert(name.clone(), file);
        replace(&journal_file, &serde_json::to_string(&journal).unwrap_or_default())?;
        replace(&path, &text)?;
        print_error(&format!(
            "longhaul: {name} now uses longhaul at {}, by {shown}; start {start}; `longhaul connect \
             {name} --undo` takes it back\n",
            target.origin
        ));
    }
    for key in kept.iter().filter(|key| !key.is_form) {
        let (at, value) = (&key.at, &key.value);
        print_error(&format!("longhaul: {at} is yours and stays; longhaul's would be {value}\n"));
    }
    Ok(())
}

/// Whether longhaul has written `value` to the file of `agent`.
pub(in crate::cli) fn has_written(agent: &Agent, env: &Env, value: &str) -> bool {
    let journal = open_journal(env).map(|(_, journal)| journal).unwrap_or_default();
    let file = journal.get(&agent.name);
    file.is_some_and(|file| file.values.iter().any(|written| written.value == value))
}

/// Takes back what longhaul has written to the file of `agent`, where it still stands. Names each key that
/// somebody has changed, and leaves it.
pub(super) fn undo(agent: &Agent, env: &Env) -> Result<(), Problem> {
    let (journal_file, mut journal) = open_journal(env)?;
    let name = &agent.name;
    let Some(file) = journal.remove(name) else {
        print_error(&format!("longhaul: nothing to undo for {name}\n"));
        return Ok(());
    };
    let (path, shown, mut changed) = (&file.path, file.path.display(), Vec::new());
    if let Some(mut text) = read_text(path)? {
        let is_ours = file.written == Some(hash(&text));
        if !is_ours {
            let taken = take_back(Format::of(path), text, &file.values);
            (text, changed) = taken.map_err(|reason| problem(path, reason))?;
        }
        match file.before {
            Some(before) if is_ours => replace(path, &before)?,
            None if is_ours || is_empty(&text) => {
                fs::remove_file(path).map_err(|error| problem(path, error))?;
            }
            _ => replace(path, &text)?,
        }
    }
    replace(&journal_file, &serde_json::to_string(&journal).unwrap_or_default())?;
    print_error(&format!("longhaul: {name} no longer uses longhaul, by {shown}\n"));
    for key in changed {
        print_error(&format!("longhaul: {key} was changed since, and stays as it is in {shown}\n"));
    }
    Ok(())
}

/// Takes the values back one by one. Returns the text, and the keys that somebody changed.
fn take_back(
    format: Format,
    mut text: String,
    values: &[Written],
) -> Result<(String, Vec<&str>), &'static str> {
    let mut changed = Vec::new();
    for written in values.iter().rev().filter(|written| !written.is_form) {
        match without(format, &text, written)? {
            Some(undone) => text = undone,
            None => changed.push(written.at.as_str()),
        }
    }
    let mut bare = text.clone();
    for written in values.iter().rev().filter(|written| written.is_form) {
        bare = without(format, &bare, written)?.unwrap_or(bare);
    }
    Ok((if is_empty(&bare) { bare } else { text }, changed))
}

fn is_empty(text: &str) -> bool {
    ["", "{}"].contains(&text.trim())
}

/// Returns the text without a value, or with the value before; `None` if the value was changed since.
fn without(format: Format, text: &str, written: &Written) -> Result<Option<String>, &'static str> {
    let place = Place::new(&written.at, &written.value);
    if place.find(&format.read(text)?) != Some(&written.value) {
        return Ok(None);
    }
    let mut text = format.change(text, &place, written.before.as_ref());
    for container in place.containers() {
        let root = format.read(text.as_deref().unwrap_or_default())?;
        let left = container.find(&root).map(Value::to_string);
        if matches!(left.as_deref(), Some("{}" | "[]")) {
            text = text.and_then(|text| format.change(&text, &container, None));
        }
    }
    Ok(text)
}

fn open_journal(env: &Env) -> Result<(PathBuf, Journal), Problem> {
    let Some(folder) = state_folder::folder(env) else {
        return Err(Problem::CommandLine("no HOME is set".to_owned()));
    };
    let path = folder.join(JOURNAL);
    let text = read_text(&path)?.unwrap_or_else(|| "{}".to_owned());
    let journal = serde_json::from_str(&text).map_err(|error| problem(&path, error))?;
    Ok((path, journal))
}

/// Returns the text of a file; `None` if the file does not exist.
fn read_text(path: &Path) -> Result<Option<String>, Problem> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(problem(path, error)),
    }
}

/// Writes a file, and the folders above it.
fn replace(path: &Path, text: &str) -> Result<(), Problem> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        totals_file::replace(path, ".longhaul-new", text.as_bytes())
    };
    write().map_err(|error: io::Error| problem(path, error))
}
