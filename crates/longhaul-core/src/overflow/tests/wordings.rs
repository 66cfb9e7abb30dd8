//! Wordings that occur in no recorded reply, from `fixtures/wordings.jsonl`, as described in
//! `fixtures/README.md`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::overflow::tests::replies::{Expected, Fixture};

/// A line of the file.
#[derive(Deserialize)]
struct Wording {
    #[serde(flatten)]
    expected: Expected,
    status: u16,
    text: Option<String>,
    body: Option<Value>,
}

/// Reads all of `fixtures/wordings.jsonl`. A wording known only by its text is put into OpenAI's
/// envelope.
pub(super) fn wordings() -> Vec<Fixture> {
    let lines =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/wordings.jsonl")).lines();
    lines
        .map(|line| {
            let wording: Wording = serde_json::from_str(line).unwrap();
            let wrap = |text: String| json!({ "error": { "message": text } });
            let body = wording.text.map(wrap).xor(wording.body);
            Fixture {
                expected: wording.expected,
                status: wording.status,
                body: body.expect("a text or a body").to_string(),
            }
        })
        .collect()
}
