//! A model at work: requests one file after another with whatever tool the client offers.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value, json};

use crate::count::TokenDensity;
use crate::record::{RequestKind, SeenRequest, Verdict};
use crate::request::{Api, ChatBody, list, member};

/// Lines per file, about 3,000 tokens. Clients truncate no result of this size, and few steps are
/// enough to fill a window.
const LINES: usize = 120;
/// The words of the lines. Files made of them neither compress well nor read like code.
const WORDS: [&str; 12] = [
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "juniper",
    "kelp", "lichen",
];
/// Tools that read a file, in order of preference, named as by agents but in lower case and without
/// separators.
const READERS: [&str; 4] = ["read", "readfile", "view", "cat"];
/// Tools that run a command.
const SHELLS: [&str; 8] = [
    "bash",
    "shell",
    "shellcommand",
    "execcommand",
    "runshellcommand",
    "runcommand",
    "execute",
    "exec",
];

/// Files for a model to read. Their total size sets the length of the client's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReading {
    files: Vec<PathBuf>,
    /// The number of files after which the model ends its turn once.
    pause: Option<usize>,
}

/// The next step of a reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// Every file has been requested.
    End,
    /// A call of the named tool with these arguments.
    Read(String, Value),
}

impl FileReading {
    /// The model's text after it has requested the last file.
    pub const END: &'static str = "Every part has been read to its end.";

    /// The model's text where it ends its turn before the last file.
    pub const PAUSE: &'static str = "Some parts have been read. The others follow on request.";

    /// Writes `parts` files of about 3,000 tokens each into a folder. All files differ.
    pub fn write(folder: &Path, parts: usize) -> io::Result<Self> {
        let file = |part: usize| {
            let path = folder.join(format!("part-{part:02}.txt"));
            fs::write(&path, lines(part).collect::<String>())?;
            Ok(path)
        };
        let files = (1..=parts).map(file).collect::<io::Result<_>>()?;
        Ok(Self { files, pause: None })
    }

    /// Makes the model end its turn once, after it has requested this many files.
    #[must_use]
    pub fn pausing_after(self, files: Option<usize>) -> Self {
        Self { pause: files, ..self }
    }

    pub(crate) fn pauses_after(&self, asked: usize) -> bool {
        self.pause == Some(asked)
    }

    /// Returns the tokens, at this density, of the files that appeared whole in an accepted chat.
    /// This is the length of the history that the client has sent.
    pub fn shown_tokens(&self, density: TokenDensity, seen: &[SeenRequest]) -> u64 {
        let chats = seen
            .iter()
            .filter(|seen| seen.kind == RequestKind::Chat && seen.verdict == Verdict::Accepted);
        let bodies: Vec<_> = chats.map(|chat| String::from_utf8_lossy(&chat.body)).collect();
        let is_shown = |part: &usize| {
            let holds = |body: &str| lines(*part).all(|line| body.contains(line.trim_end()));
            bodies.iter().any(|body| holds(body))
        };
        (1..=self.files.len())
            .filter(is_shown)
            .map(|part| density.text_tokens(&lines(part).collect::<String>()))
            .sum()
    }

    /// Returns the next step after `asked` requested files, or `None` if no tool can read a file.
    pub(crate) fn step(&self, chat: &ChatBody, asked: usize) -> Option<ReadStep> {
        let function = |tool| match chat.api() {
            Api::ChatCompletions => member(tool, "function"),
            Api::Messages | Api::Responses => tool,
        };
        let functions = || chat.tools().iter().map(function);
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

/// Generates the lines of a file; every line states its position. The text contains nothing that
/// JSON escapes, so each line appears unchanged in a body.
fn lines(part: usize) -> impl Iterator<Item = String> {
    // Each file has its own step, and no step shares a factor with the number of words.
    let word = move |at: usize| {
        let at = at * 7 + at / 5 * part + part * 31;
        WORDS.get(at % WORDS.len()).copied().unwrap_or_default()
    };
    (1..=LINES).map(move |line| {
        let mut text = format!("part {part:02} line {line:03}:");
        for at in 0..10 {
            // Writing to a String cannot fail.
            let _ = write!(text, " {}", word(line * 10 + at));
        }
        text.push('\n');
        text
    })
}

/// Builds the arguments for a tool to read a file: the members its schema requires, chosen by name.
fn arguments(function: &Value, path: &str) -> Value {
    let schema = ["parameters", "input_schema"].map(|name| member(function, name));
    let [parameters, input] = schema;
    let parameters = if parameters.is_null() { input } else { parameters };
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

/// Returns a name in lower case without separators.
fn plain(name: &Value) -> String {
    let name = name.as_str().unwrap_or_default().to_lowercase();
    name.replace(['_', '-'], "")
}

#[cfg(test)]
mod tests;
