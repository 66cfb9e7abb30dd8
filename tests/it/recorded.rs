//! Recorded replies of providers: `fixtures/replies`, and their descriptions in
//! `fixtures/replies.jsonl`.

use std::fs;

use serde_json::Value;

/// A recorded reply.
pub(crate) struct Recorded {
    /// Description and expectations; `fixtures/README.md` documents the fields.
    pub(crate) about: Value,
    /// The whole reply, byte for byte.
    pub(crate) raw: String,
    pub(crate) status: u16,
    /// Empty if the reply had none.
    pub(crate) content_type: String,
    pub(crate) body: String,
}

/// Returns all replies in order.
pub(crate) fn replies() -> Vec<Recorded> {
    let lines = include_str!("../../fixtures/replies.jsonl").lines();
    lines.map(|line| recorded(line.parse().unwrap())).collect()
}

fn recorded(about: Value) -> Recorded {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/replies");
    let file = about["file"].as_str().unwrap();
    let raw = fs::read_to_string(format!("{folder}/{file}")).unwrap();
    let (head, body) = raw.split_once("\r\n\r\n").unwrap();
    let field = |name: &str| {
        let lines = head.lines().skip(1);
        let mut fields = lines.filter_map(|line| line.split_once(": "));
        fields.find_map(|(field, value)| (field == name).then_some(value))
    };
    let body = match field("content-length") {
        Some(length) => body.get(..length.parse().unwrap()).unwrap().to_owned(),
        None => joined(body),
    };
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let content_type = field("content-type").unwrap_or_default().to_owned();
    Recorded { about, raw, status, content_type, body }
}

/// Joins the chunks of a chunked body.
fn joined(chunked: &str) -> String {
    let mut lines = chunked;
    let mut body = String::new();
    while let Some((size, rest)) = lines.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return body;
        }
        body.push_str(&rest[..size]);
        lines = &rest[size + 2..];
    }
    panic!("a chunked body without a last chunk: {chunked:?}");
}
