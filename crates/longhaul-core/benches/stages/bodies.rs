//! Request bodies of four sizes, cut and joined from the recorded sessions, and the largest recorded
//! bodies of Codex and Claude Code.

use flate2::read::GzDecoder;
use longhaul_core::dialect::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Names and sizes in bytes: a short question, an afternoon's work, a full window, and a client
/// that never drops history.
const SIZES: [(&str, usize); 4] =
    [("4k", 4_000), ("100k", 100_000), ("1m", 1_000_000), ("4m", 4_000_000)];
/// A body is full if it lacks less than this fraction of its size.
const SLACK: usize = 50;
/// Recorded bodies of about a megabyte, by the names of their clients: a full window.
const RECORDED: [(&str, Dialect, &str); 2] = [
    ("codex", Dialect::Responses, "fixtures/sessions_responses/mise-a3fd10d1.json.gz"),
    ("claude", Dialect::Messages, "fixtures/messages/sessions/oh-my-posh-94fab1a1.json.gz"),
];
const HEAD: &str = r#"{"model":"gpt-4o","messages":["#;
const TAIL: &str = "]}";

/// A request body.
pub(crate) struct Body {
    /// Size as a label.
    pub(crate) name: &'static str,
    pub(crate) dialect: Dialect,
    /// Bytes of the request body.
    pub(crate) bytes: Vec<u8>,
    /// Number of messages.
    pub(crate) messages: usize,
}

impl Body {
    /// Returns a body with the messages repeated `times` times.
    pub(crate) fn repeated(&self, times: usize) -> Result<Vec<u8>, &'static str> {
        let messages = self.bytes.strip_prefix(HEAD.as_bytes());
        let messages = messages.and_then(|rest| rest.strip_suffix(TAIL.as_bytes()));
        let messages = messages.ok_or("a body has another shape")?;
        let messages = vec![messages; times].join(&b',');
        Ok([HEAD.as_bytes(), &messages, TAIL.as_bytes()].concat())
    }
}

#[derive(Deserialize)]
struct Session<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Role<'a> {
    role: &'a str,
}

/// Returns the recorded bodies of the other dialects.
pub(crate) fn recorded() -> Result<Vec<Body>, Box<dyn Error>> {
    let body = |(name, dialect, file): (&'static str, Dialect, &str)| {
        let bytes = unpacked(&Path::new(ROOT).join(file))?.into_bytes();
        let read = dialect.read(&bytes);
        let messages = read.map_err(|why| format!("{file} was not read: {why:?}"))?;
        let messages = messages.messages().len();
        Ok(Body { name, dialect, bytes, messages })
    };
    RECORDED.into_iter().map(body).collect()
}

fn unpacked(file: &Path) -> std::io::Result<String> {
    let mut json = String::new();
    GzDecoder::new(std::fs::File::open(file)?).read_to_string(&mut json)?;
    Ok(json)
}

/// Returns all bodies of chat completions, smallest first.
pub(crate) fn all() -> Result<Vec<Body>, Box<dyn Error>> {
    let files = files()?;
    SIZES.into_iter().map(|(name, size)| body(name, size, &files)).collect()
}

/// Lists the sessions in an order that is the same on every machine.
fn files() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let folder = Path::new(ROOT).join("fixtures/sessions");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "gz") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Concatenates whole units of the sessions up to `size`. System messages are left out: one body
/// would have dozens.
fn body(name: &'static str, size: usize, files: &[PathBuf]) -> Result<Body, Box<dyn Error>> {
    let mut text = HEAD.to_owned();
    let mut messages = 0;
    for file in files {
        if size - text.len() < size / SLACK {
            break;
        }
        let json = unpacked(file)?;
        let session: Session<'_> = serde_json::from_str(&json)?;
        for unit in units(&session.messages)? {
            let length: usize = unit.iter().map(|message| message.get().len() + 1).sum();
            if text.len() + length + TAIL.len() > size {
                continue;
            }
            for message in unit {
                if messages > 0 {
                    text.push(',');
                }
                text.push_str(message.get());
                messages += 1;
            }
        }
    }
    text.push_str(TAIL);
    Ok(Body { name, dialect: Dialect::ChatCompletions, bytes: text.into_bytes(), messages })
}

/// Groups messages with the tool results that follow them.
fn units<'a>(messages: &[&'a RawValue]) -> Result<Vec<Vec<&'a RawValue>>, serde_json::Error> {
    let mut units: Vec<Vec<&RawValue>> = Vec::new();
    for &message in messages {
        let role: Role<'_> = serde_json::from_str(message.get())?;
        match (role.role, units.last_mut()) {
            ("system" | "developer", _) => {}
            ("tool", Some(unit)) => unit.push(message),
            (_, _) => units.push(vec![message]),
        }
    }
    Ok(units)
}
