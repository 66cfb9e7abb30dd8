//! Finds what an error reply says: its messages, codes and paths, however deep they are wrapped.
//!
//! Gateways wrap errors in errors: an object in an array, JSON in a string in a `metadata.raw`, a
//! status line before a JSON tail. What stands under `choices` is the model speaking and is never
//! read, nor is any other key that is not named here.

#[cfg(test)]
mod tests;

use serde_json::Value;

/// How many steps down are taken: up to four for one wrapping (member, array, member, string), and
/// the deepest recorded reply is wrapped three times.
const MAX_DEPTH: usize = 16;

/// Elements of one array that are read.
const MAX_ELEMENTS: usize = 16;

/// Places in one text where JSON is looked for.
const MAX_JSON_STARTS: usize = 4;

/// Texts, and codes, of one reply that are kept: several times what the longest recorded one has.
const MAX_ENTRIES: usize = 64;

/// What is read of one text. An error names its cause in its first sentences; what comes after
/// pages of text is more likely a quotation of the request.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// What the nodes of one reply say.
#[derive(Debug, Default)]
pub(super) struct ErrorDetails {
    /// Messages, normalised: see [`normalise`].
    pub(super) texts: Vec<Vec<u8>>,
    /// Codes, types and statuses, in lower case.
    pub(super) codes: Vec<String>,
    /// What `param` points at.
    pub(super) params: Vec<Vec<u8>>,
    /// `n_prompt_tokens`, of llama.cpp.
    pub(super) prompt_tokens: Option<u32>,
    /// `n_ctx`, of llama.cpp.
    pub(super) context_tokens: Option<u32>,
}

impl ErrorDetails {
    /// Reads an error node and all that is in it.
    pub(super) fn add_value(&mut self, value: &Value) {
        self.read_value(value, 0);
    }

    /// Reads a text, and the JSON inside it.
    pub(super) fn add_text(&mut self, text: &str) {
        self.read_text(text, 0);
    }

    /// Messages and codes: what a veto looks at.
    pub(super) fn texts_and_codes(&self) -> impl Iterator<Item = &[u8]> {
        self.texts
            .iter()
            .map(Vec::as_slice)
            .chain(self.codes.iter().map(String::as_bytes))
    }

    /// Whether one of the codes is one of these.
    pub(super) fn has_code(&self, known: &[(&str, &str)]) -> bool {
        self.codes
            .iter()
            .any(|code| known.iter().any(|(_, name)| name == code))
    }

    fn read_value(&mut self, value: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.read_text(text, depth),
            Value::Array(elements) => {
                for element in elements.iter().take(MAX_ELEMENTS) {
                    self.read_value(element, depth + 1);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    self.read_member(key, member, depth);
                }
            }
        }
    }

    fn read_member(&mut self, key: &str, value: &Value, depth: usize) {
        match key {
            "body" | "cause" | "detail" | "details" | "error" | "error_message" | "errors"
            | "innererror" | "inner_error" | "message" | "metadata" | "msg" | "raw"
            | "response" => self.read_value(value, depth + 1),
            "code" | "error_code" | "error_type" | "http_code" | "reason" | "status"
            | "status_code" | "type" => self.read_code(value),
            "n_ctx" => self.context_tokens = as_u32(value),
            "n_prompt_tokens" => self.prompt_tokens = as_u32(value),
            "param" => self.params.extend(value.as_str().map(normalise)),
            _ => {}
        }
    }

    fn read_code(&mut self, value: &Value) {
        if self.codes.len() >= MAX_ENTRIES {
            return;
        }
        match value {
            Value::String(code) => self.codes.push(code.to_ascii_lowercase()),
            Value::Number(code) => self.codes.push(code.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
        }
    }

    fn read_text(&mut self, text: &str, depth: usize) {
        if depth > MAX_DEPTH || self.texts.len() >= MAX_ENTRIES {
            return;
        }
        let Some((before, inner, after)) = find_embedded_json(text) else {
            self.texts.push(normalise(text));
            return;
        };
        self.texts.push(normalise(before));
        self.read_value(&inner, depth + 1);
        self.read_text(after, depth + 1);
    }
}

/// Whether a reply of status 200 carries an error at its top.
pub(super) fn states_error(value: &Value) -> bool {
    let Value::Object(members) = value else {
        return value
            .as_array()
            .is_some_and(|all| all.iter().take(MAX_ELEMENTS).any(states_error));
    };
    let filled = |key: &str| members.get(key).is_some_and(is_non_empty);
    // Of an envelope that says by it that nothing is wrong.
    let is_zero = members.get("code").and_then(Value::as_u64) == Some(0);
    let reads = |key: &str, word: &str| members.get(key).and_then(Value::as_str) == Some(word);
    filled("error")
        || filled("errors")
        || filled("error_message")
        || filled("error_type")
        || reads("object", "error")
        || reads("type", "error")
        || reads("type", "response.failed")
        || members
            .get("response")
            .and_then(|response| response.get("error"))
            .is_some_and(is_non_empty)
        || (filled("code") && filled("message") && !members.contains_key("choices") && !is_zero)
}

/// Whether a body has a place for answers with none in it, and nothing was generated.
pub(super) fn lacks_choices(value: &Value) -> bool {
    let choices = value.get("choices");
    let generated = value.pointer("/usage/completion_tokens");
    choices.is_some_and(|choices| !is_non_empty(choices))
        && generated.and_then(Value::as_u64).unwrap_or(0) == 0
}

fn is_non_empty(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(yes) => *yes,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

fn as_u32(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// The first JSON object, or array of objects, inside a text, with what stands around it. An array
/// of anything else is left in place: `[1, 204800]` is a range, not an envelope.
fn find_embedded_json(text: &str) -> Option<(&str, Value, &str)> {
    let openings = text
        .match_indices(['{', '['])
        .filter(|(at, _)| {
            let rest = text.get(*at..).unwrap_or_default();
            rest.starts_with('{') || rest.starts_with("[{")
        })
        .take(MAX_JSON_STARTS);
    for (at, _) in openings {
        let (before, rest) = text.split_at(at);
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        if let Some(Ok(inner)) = values.next() {
            let after = rest.get(values.byte_offset()..).unwrap_or_default();
            return Some((before, inner, after));
        }
    }
    None
}

/// A text as the table's patterns expect it: ASCII letters in lower case, white space as single
/// spaces, straight apostrophes, and digits without thousands separators; cut to [`TEXT_BYTES`].
fn normalise(text: &str) -> Vec<u8> {
    let (text, _) = text.split_at(text.floor_char_boundary(MAX_TEXT_BYTES));
    let text = text.replace('\u{2019}', "'").to_ascii_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    let joined = words.join(" ");
    let bytes = joined.as_bytes();
    let separates = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let group = bytes.get(at + 1..at + 4).unwrap_or_default();
        before.is_some_and(u8::is_ascii_digit)
            && group.len() == 3
            && group.iter().all(u8::is_ascii_digit)
            && !bytes.get(at + 4).is_some_and(u8::is_ascii_digit)
    };
    bytes
        .iter()
        .enumerate()
        .filter(|&(at, &byte)| !(matches!(byte, b',' | b'_') && separates(at)))
        .map(|(_, &byte)| byte)
        .collect()
}
