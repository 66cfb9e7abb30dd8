//! Reasoning that a provider reports as dropped: the array `input_transformations` of a reply, whole or as a stream.
//! The Responses and the Messages API have it.

use memchr::memmem;
use serde::Deserialize;

const KEY: &[u8] = b"\"input_transformations\"";
/// Maximum bytes of an array, which is parsed again with each chunk. An entry takes 150 bytes, so 200 fit.
const MAX_ARRAY_BYTES: usize = 32 * 1024;
/// Type of an entry whose thinking was kept.
const KEPT: &str = "thinking_mismatch_allowed";

/// Counts reported drops in a reply as it passes. Several events of a stream repeat one report.
#[derive(Debug, Default)]
pub struct DropReports {
    /// The end of the reply so far: a part of a key, or an array that has not ended.
    rest: Vec<u8>,
    is_behind_key: bool,
    dropped: usize,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

impl DropReports {
    /// Returns the largest number of drops in one report so far.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Reads the next decoded bytes. The count does not depend on how the bytes are split.
    pub fn push(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        loop {
            if !self.is_behind_key {
                let Some(end) = end_of_key(&self.rest) else {
                    // One byte more than a key may lack shows whether the key is inside a string.
                    let done = self.rest.len().saturating_sub(KEY.len());
                    self.rest.drain(..done);
                    return;
                };
                self.rest.drain(..end);
                self.is_behind_key = true;
            }
            let value = self.rest.trim_ascii_start();
            if value.is_empty() {
                return;
            }
            if let Some(array) = value.strip_prefix(b":") {
                let mut values = serde_json::Deserializer::from_slice(array).into_iter();
                match values.next() {
                    Some(Ok(entries)) => self.dropped = self.dropped.max(count_dropped(entries)),
                    Some(Err(error)) if error.is_eof() && array.len() < MAX_ARRAY_BYTES => return,
                    None => return,
                    Some(Err(_)) => {}
                }
            }
            self.is_behind_key = false;
        }
    }
}

/// Returns the end of the first key outside a string, where a backslash would precede its quote.
fn end_of_key(bytes: &[u8]) -> Option<usize> {
    let is_key = |at: &usize| at.checked_sub(1).and_then(|it| bytes.get(it)) != Some(&b'\\');
    memmem::find_iter(bytes, KEY).find(is_key).map(|at| at + KEY.len())
}

fn count_dropped(entries: Vec<Entry>) -> usize {
    let is_dropped = |entry: &Entry| entry.kind.as_deref() != Some(KEPT);
    entries.into_iter().filter(is_dropped).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_count_once_however_the_reply_is_split() {
        for (reply, expect) in [
            // Whole replies of the two APIs.
            (
                r#"{"id":"r","input_transformations":[{"id":"rs_1","reason":"prefix_mismatch"},{"id":"rs_2"}],"output":[]}"#,
                2,
            ),
            (
                r#"{"input_transformations" : [ {"type":"thinking_dropped","path":"messages.3.content.0"},
                {"type":"thinking_mismatch_allowed","path":"x"} ]}"#,
                1,
            ),
            // A stream that repeats the report.
            (
                "event: response.created\ndata: {\"response\":{\"input_transformations\":[]}}\n\n\
              event: response.in_progress\ndata: {\"response\":{\"input_transformations\":[{\"id\":\"a\"}]}}\n\n\
              event: response.completed\ndata: {\"response\":{\"input_transformations\":[{\"id\":\"a\"}]}}\n\n",
                1,
            ),
            // Text of the model, odd values and none.
            (r#"{"text":"\"input_transformations\":[{}]","input_transformations":null}"#, 0),
            (r#"{"input_transformations":{"a":[{}]},"x":["input_transformations",[{}]]}"#, 0),
            (r#"{"input_transformations":[1]}"#, 0),
            (r#"{"input_transformations":["#, 0),
        ] {
            for size in 1..reply.len() {
                let mut reports = DropReports::default();
                reply.as_bytes().chunks(size).for_each(|chunk| reports.push(chunk));
                assert_eq!(reports.dropped(), expect, "{size}: {reply}");
                assert!(reports.rest.len() <= reply.len());
            }
        }
    }
}
