//! The Responses dialect: recorded and random inputs, and whole sessions through sockets.

mod changes;
mod inputs;
mod lost;
mod oracle;
mod recorded;
mod screenshots;
mod served;
mod servers;
mod validity;

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

/// A recorded session, with its name.
#[derive(Debug)]
pub(crate) struct RecordedInput {
    pub(crate) name: String,
    pub(crate) body: Value,
}

impl RecordedInput {
    /// Opens every recorded session.
    pub(crate) fn all() -> Vec<Self> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sessions_responses");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|ending| ending == "gz")).collect();
        files.sort();
        let open = |path: std::path::PathBuf| {
            let mut body = Vec::new();
            let bytes = fs::read(&path).unwrap();
            GzDecoder::new(&*bytes).read_to_end(&mut body).unwrap();
            Self {
                name: path.file_name().unwrap().to_string_lossy().into_owned(),
                body: serde_json::from_slice(&body).unwrap(),
            }
        };
        files.into_iter().map(open).collect()
    }

    pub(crate) fn items(&self) -> &[Value] {
        self.body["input"].as_array().unwrap()
    }

    /// Returns the request with the first `items` items.
    pub(crate) fn request(&self, items: usize) -> Vec<u8> {
        let mut body = self.body.clone();
        body["input"] = json!(self.items()[..items]);
        body.to_string().into()
    }

    /// Returns the numbers of items at which the client asked the model: what the model made follows
    /// what the client made, and no call is open.
    pub(crate) fn points(&self) -> Vec<usize> {
        let items = self.items();
        let compaction = items.iter().rposition(|item| item["type"] == "compaction");
        let first = compaction.map_or(0, |at| at + 1);
        let ends = (first + 1..=items.len()).filter(|&end| {
            let is_asked = end == items.len() || is_model_made(&items[end]);
            is_asked && !is_model_made(&items[end - 1]) && no_call_is_open(&items[..end])
        });
        ends.collect()
    }
}

fn is_model_made(item: &Value) -> bool {
    let kind = item["type"].as_str().unwrap_or("message");
    item["role"] == "assistant" || (kind != "message" && !kind.ends_with("_output"))
}

fn no_call_is_open(items: &[Value]) -> bool {
    let ids = |ending: &str| {
        let of_kind = items.iter().filter(|item| {
            let kind = item["type"].as_str().unwrap_or_default();
            kind.ends_with(ending) && item["call_id"].is_string()
        });
        of_kind.count()
    };
    ids("_call") == ids("_output")
}
