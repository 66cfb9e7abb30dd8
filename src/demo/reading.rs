//! A model at work: it asks for one file after the other, by whatever tool a client offers.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value, json};

use super::count::TokenDensity;
use super::record::{RequestKind, SeenRequest, Verdict};
use super::request::{ChatBody, list, member};

/// The lines of a part, so that one comes to about 3,000 tokens: less than any client cuts a result
/// to, and enough of them to fill windows in few steps.
const LINES: usize = 120;
/// The words that lines are made of: no part compresses, and none reads like code.
const WORDS: [&str; 12] = [
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "juniper",
    "kelp", "lichen",
];
/// Tools that read a file, in the order in which they are taken, as agents name them: without case
/// and joints.
const READERS: [&str; 4] = ["read", "readfile", "view", "cat"];
/// Tools that run a command.
const SHELLS: [&str; 6] = [
    "bash",
    "shell",
    "runshellcommand",
    "runcommand",
    "execute",
    "exec",
];

/// Files for a model to read, and so a session for a client to have, as long as they are together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReading {
    files: Vec<PathBuf>,
}

/// What comes next of a reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// Every file was asked for.
    End,
    /// A call of the tool of this name with these arguments.
    Read(String, Value),
}

impl FileReading {
    /// What the model says when it has asked for the last file.
    pub const END: &'static str = "Every part has been read to its end.";

    /// Writes so many files of about 3,000 tokens each into a folder; none is like another.
    pub fn write(folder: &Path, parts: usize) -> io::Result<Self> {
        let file = |part: usize| {
            let path = folder.join(format!("part-{part:02}.txt"));
            fs::write(&path, lines(part).collect::<String>())?;
            Ok(path)
        };
        let files = (1..=parts).map(file).collect::<io::Result<_>>()?;
        Ok(Self { files })
    }

    /// The tokens, as a model of this density counts them, of the files that stood whole in a chat
    /// that it accepted: how long a history it has had from its client.
    pub fn shown_tokens(&self, density: TokenDensity, seen: &[SeenRequest]) -> u64 {
        let chats = seen
            .iter()
            .filter(|seen| seen.kind == RequestKind::Chat && seen.verdict == Verdict::Accepted);
        let bodies: Vec<_> = chats
            .map(|chat| String::from_utf8_lossy(&chat.body))
            .collect();
        let is_shown = |part: &usize| {
            let holds = |body: &str| lines(*part).all(|line| body.contains(line.trim_end()));
            bodies.iter().any(|body| holds(body))
        };
        (1..=self.files.len())
            .filter(is_shown)
            .map(|part| density.text_tokens(&lines(part).collect::<String>()))
            .sum()
    }

    /// What to do when so many files were asked for; none if there is no tool to read with.
    pub(crate) fn step(&self, chat: &ChatBody, asked: usize) -> Option<ReadStep> {
        let functions = || chat.tools().iter().map(|tool| member(tool, "function"));
        let named = |names: &[&str]| {
            names.iter().find_map(|name| {
                functions().find(|function| plain(member(function, "name")) == *name)
            })
        };
        let function = named(&READERS).or_else(|| named(&SHELLS))?;
        let name = member(function, "name").as_str()?;
        Some(self.files.get(asked).map_or(ReadStep::End, |file| {
            let arguments = arguments(function, &file.to_string_lossy());
            ReadStep::Read(name.to_owned(), arguments)
        }))
    }
}

/// The lines of a part, each of which says where it stands. They have nothing that JSON escapes, so
/// that they are found in a body as they are.
fn lines(part: usize) -> impl Iterator<Item = String> {
    // A step of its own for each part, and none that shares a factor with the words' number.
    let word = move |at: usize| {
        let at = at * 7 + at / 5 * part + part * 31;
        WORDS.get(at % WORDS.len()).copied().unwrap_or_default()
    };
    (1..=LINES).map(move |line| {
        let mut text = format!("part {part:02} line {line:03}:");
        for at in 0..10 {
            // Writing to a string cannot fail.
            let _ = write!(text, " {}", word(line * 10 + at));
        }
        text.push('\n');
        text
    })
}

/// What a tool has to be told to read a file: what its schema requires, by the names of it.
fn arguments(function: &Value, path: &str) -> Value {
    let parameters = member(function, "parameters");
    let properties = member(parameters, "properties");
    let required = list(member(parameters, "required"));
    let filled = required.iter().filter_map(Value::as_str).map(|name| {
        let value = argument(name, member(properties, name), path);
        (name.to_owned(), value)
    });
    Value::Object(filled.collect::<Map<_, _>>())
}

fn argument(name: &str, schema: &Value, path: &str) -> Value {
    let name = name.to_lowercase();
    let command = name.contains("command") || name == "cmd";
    let text = if command {
        format!("cat {path}")
    } else if name.contains("path") || name.contains("file") {
        path.to_owned()
    } else {
        "Read the next part".to_owned()
    };
    match member(schema, "type").as_str() {
        Some("array") => json!([text]),
        Some("boolean") => json!(false),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("null") => Value::Null,
        _ => json!(text),
    }
}

/// A name without case and joints.
fn plain(name: &Value) -> String {
    let name = name.as_str().unwrap_or_default().to_lowercase();
    name.replace(['_', '-'], "")
}

#[cfg(test)]
mod tests;
