//! Collects messages, codes and paths from an error reply, through any wrapping.
//!
//! Gateways wrap errors in errors: an object in an array, JSON in a string in a `metadata.raw`, a
//! status line before a JSON tail. Envelopes are walked whatever their keys and case. Keys that hold
//! the request, the model's output or a name are listed here and skipped.

#[cfg(test)]
mod tests;

use crate::overflow::heuristics::{RequestText, codes};
use crate::overflow::vocabulary::{is_listed, listed};
use serde_json::Value;

/// Maximum nesting depth. One wrapping takes up to four levels (member, array, member, string), and
/// the deepest recorded reply is wrapped three times.
const MAX_DEPTH: usize = 16;

/// Maximum number of elements read from one array.
pub(super) const MAX_ELEMENTS: usize = 16;

/// Maximum number of positions in one text that are tried as the start of JSON.
const MAX_JSON_STARTS: usize = 4;

/// Maximum number of texts, and of codes, kept from one reply: several times the most in any
/// recorded reply.
const MAX_ENTRIES: usize = 64;

/// Maximum number of bytes read from one text. An error names its cause in its first sentences.
/// Pages of text later, a match is more likely a quotation of the request.
const MAX_TEXT_BYTES: usize = 4 * 1024;

#[derive(Clone, Debug, Default)]
pub(super) struct ErrorDetails {
    /// Messages, normalised by [`normalise`].
    pub(super) texts: Vec<Vec<u8>>,
    /// Messages as stated, cut to [`MAX_TEXT_BYTES`].
    pub(super) statements: Vec<String>,
    /// Messages as stated below keys of help, such as `hint`. They count only if nothing else does.
    pub(super) advice: Vec<String>,
    /// Codes, types and statuses, in lower case.
    pub(super) codes: Vec<String>,
    /// Codes, types and statuses as stated: the case separates the words of a name.
    pub(super) stated_codes: Vec<String>,
    /// Values of `param`, normalised by [`normalise`].
    pub(super) params: Vec<Vec<u8>>,
    /// Value of llama.cpp's `n_prompt_tokens`.
    pub(super) prompt_tokens: Option<u32>,
    /// Value of llama.cpp's `n_ctx`.
    pub(super) context_tokens: Option<u32>,
    /// Numbers that may be sizes, as text with their keys: `prompt tokens 150287`.
    pub(super) figures: Vec<String>,
    /// Whether something is nested too deeply to be read.
    is_cut_off: bool,
    /// Whether the member that is being read is help.
    is_in_advice: bool,
}

impl ErrorDetails {
    /// Adds the details of an error value and of everything nested in it.
    pub(super) fn add_value(&mut self, value: &Value) {
        self.read_value(value, 0);
    }

    /// Adds a text and the details of any JSON embedded in it. A text that is an identifier alone is a code
    /// too.
    pub(super) fn add_text(&mut self, text: &str) {
        self.read_identifier(text);
        self.read_text(text, 0);
    }

    /// Returns messages and codes, which vetoes are matched against.
    pub(super) fn texts_and_codes(&self) -> impl Iterator<Item = &[u8]> {
        self.texts.iter().map(Vec::as_slice).chain(self.codes.iter().map(String::as_bytes))
    }

    pub(super) fn has_code(&self, known: &[&str]) -> bool {
        let mut codes = self.codes.iter();
        codes.any(|code| known.contains(&code.as_str()))
    }

    fn read_value(&mut self, value: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            self.is_cut_off = true;
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
                let is_response = members.get("object").is_some_and(|it| it == "response");
                for (key, member) in members {
                    if !is_response {
                        self.read_figure(key, member);
                    } else if is_repeated_request(key) {
                        continue;
                    }
                    self.read_member(key, member, depth);
                }
            }
        }
    }

    /// Reads a number that may be a size, such as `prompt_tokens` and `limit`.
    fn read_figure(&mut self, key: &str, value: &Value) {
        let Some(number) = value.as_u64().filter(|number| *number >= MIN_FIGURE) else {
            return;
        };
        let words = key.replace(['_', '-'], " ").to_lowercase();
        let is_other = listed("figure-other").any(|part| words.contains(part));
        if !is_other && self.figures.len() < MAX_ENTRIES {
            self.figures.push(format!("{words} {number}"));
        }
    }

    fn read_member(&mut self, key: &str, value: &Value, depth: usize) {
        let key = plain_key(key);
        match key.as_str() {
            "choices" => self.read_choices(value, depth),
            "nctx" => self.context_tokens = as_u32(value),
            "nprompttokens" => self.prompt_tokens = as_u32(value),
            "param" => self.params.extend(value.as_str().map(normalise)),
            "message" if is_model_message(value) => {}
            key if names_code(key) => self.read_code(value, depth),
            "id" => self.read_identifier(value.as_str().unwrap_or_default()),
            key if is_listed("key-advice", key) => {
                let outer = std::mem::replace(&mut self.is_in_advice, true);
                self.read_value(value, depth + 1);
                self.is_in_advice = outer;
            }
            "errors" | "fielderrors" | "validationerrors" => self.read_field_errors(value, depth),
            "detail" | "error" | "errormessage" | "message" | "msg" if value.is_string() => {
                self.read_identifier(value.as_str().unwrap_or_default());
                self.read_value(value, depth + 1);
            }
            // A list of strings is not a message list.
            "messages" if is_text_list(value) => self.read_value(value, depth + 1),
            key if !is_listed("key-skipped", key) => self.read_value(value, depth + 1),
            _ => {}
        }
    }

    /// Reads the errors of choices. Everything else in a choice is the model's output.
    fn read_choices(&mut self, value: &Value, depth: usize) {
        let choices = value.as_array().into_iter().flatten().take(MAX_ELEMENTS);
        let members = choices.filter_map(Value::as_object).flatten();
        for (_, error) in members.filter(|(key, _)| plain_key(key) == "error") {
            self.read_value(error, depth + 2);
        }
    }

    /// Reads errors by field: `{"prompt": ["is too long"]}`. The field begins the sentence.
    fn read_field_errors(&mut self, value: &Value, depth: usize) {
        let Value::Object(fields) = value else {
            return self.read_value(value, depth + 1);
        };
        if depth > MAX_DEPTH {
            self.is_cut_off = true;
            return;
        }
        for (field, errors) in fields {
            if !is_text_list(errors) {
                self.read_member(field, errors, depth + 1);
                self.read_figure(field, errors);
                continue;
            }
            let name = field.replace(['_', '-'], " ");
            let texts = errors.as_array().into_iter().flatten().take(MAX_ELEMENTS);
            for text in texts.filter_map(Value::as_str) {
                self.read_text(&format!("{name} {text}"), depth + 2);
            }
        }
    }

    /// Reads a text, which is a code if it is an identifier whose words name an overflow.
    fn read_identifier(&mut self, text: &str) {
        // `错误：context_length_exceeded` is a sentence.
        let is_name = text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'));
        let is_code = is_name && codes::names_overflow(text);
        if is_code && self.stated_codes.len() < MAX_ENTRIES {
            self.stated_codes.push(text.to_owned());
        }
    }

    fn read_code(&mut self, value: &Value, depth: usize) {
        if self.codes.len() >= MAX_ENTRIES {
            return;
        }
        match value {
            Value::String(code) => {
                self.codes.push(code.to_ascii_lowercase());
                self.stated_codes.push(code.clone());
                if code.contains(char::is_whitespace) {
                    self.read_text(code, depth);
                }
            }
            Value::Number(code) => self.codes.push(code.to_string()),
            Value::Null | Value::Bool(_) => {}
            Value::Array(_) | Value::Object(_) => self.read_value(value, depth + 1),
        }
    }

    fn read_text(&mut self, text: &str, depth: usize) {
        if depth > MAX_DEPTH || self.texts.len() >= MAX_ENTRIES {
            self.is_cut_off = true;
            return;
        }
        let Some((before, inner, after)) = find_embedded_json(text) else {
            self.push_text(text);
            return;
        };
        self.push_text(before);
        self.read_value(&inner, depth + 1);
        self.read_text(after, depth + 1);
    }

    fn push_text(&mut self, text: &str) {
        // Texts of other languages that quote an error escape its apostrophes.
        let text = &text.replace("\\'", "'");
        self.texts.push(normalise(text));
        let (text, _) = text.split_at(text.floor_char_boundary(MAX_TEXT_BYTES));
        if text.trim().is_empty() {
            return;
        }
        let texts = if self.is_in_advice { &mut self.advice } else { &mut self.statements };
        texts.push(text.to_owned());
    }

    pub(super) fn without_quotations(&self, request: RequestText<'_>) -> Self {
        let mut kept = request.remove_quotations(&self.with_advice().statements);
        Self {
            texts: kept.iter().map(|text| normalise(text)).collect(),
            advice: kept.split_off(self.statements.len()),
            statements: kept,
            ..self.clone()
        }
    }

    /// Returns the details with help among the statements.
    pub(super) fn with_advice(&self) -> Self {
        let mut all = self.clone();
        all.statements.append(&mut all.advice);
        all
    }

    pub(super) fn names_tokens(&self) -> bool {
        let mut texts = self.statements.iter();
        texts.any(|text| text.contains("token"))
    }

    pub(super) fn inner_statuses(&self) -> impl Iterator<Item = u16> {
        self.codes.iter().filter_map(|code| code.parse().ok())
    }

    /// Whether the reply states nothing: no text, no type, and no code but its own `status`.
    pub(super) fn is_silent(&self, status: u16) -> bool {
        let status = status.to_string();
        let is_empty = self.statements.is_empty() && self.advice.is_empty();
        let has_code = self.codes.iter().any(|code| *code != status);
        is_empty && !has_code && self.params.is_empty() && !self.is_cut_off
    }
}

/// Smallest number that may be the size of a prompt or a window in tokens.
const MIN_FIGURE: u64 = 256;

/// Whether a member of a response, next to its error, repeats the request. Elsewhere, the key may state an error.
fn is_repeated_request(key: &str) -> bool {
    matches!(key, "instructions" | "metadata" | "reasoning" | "text")
}

/// Writes a key in lower case without separators.
pub(super) fn plain_key(key: &str) -> String {
    let letters = key.chars().filter(|letter| !matches!(letter, '_' | '-'));
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

fn is_text_list(value: &Value) -> bool {
    let texts = value.as_array().filter(|texts| !texts.is_empty());
    texts.is_some_and(|texts| texts.iter().all(Value::is_string))
}

fn names_code(key: &str) -> bool {
    let is_code = key.ends_with("code") || key.ends_with("type");
    (is_code || matches!(key, "kind" | "reason" | "status")) && key != "contenttype"
}

/// Whether a value under the key `message` is the model's message and no error.
fn is_model_message(value: &Value) -> bool {
    value.get("role").is_some() || value.get("content").is_some()
}

fn as_u32(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// Finds the first JSON object, or array of objects, inside a text, and returns it with the text
/// before and after it.
///
/// Any other array stays part of the text: `[1, 204800]` is a range, not an envelope.
fn find_embedded_json(text: &str) -> Option<(&str, Value, &str)> {
    let openings = text.match_indices(['{', '[']);
    let openings = openings.map(|(at, _)| text.split_at(at));
    let mut openings = openings
        .filter(|(_, rest)| rest.starts_with('{') || rest.starts_with("[{"))
        .take(MAX_JSON_STARTS);
    openings.find_map(|(before, rest)| {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let inner = values.next()?.ok()?;
        let after = rest.get(values.byte_offset()..).unwrap_or_default();
        Some((before, inner, after))
    })
}

/// Normalises a text for the patterns of the table and cuts it to [`MAX_TEXT_BYTES`]:
///
/// - ASCII letters in lower case
/// - white space as single spaces
/// - straight apostrophes
/// - digits without thousands separators
pub(super) fn normalise(text: &str) -> Vec<u8> {
    let (text, _) = text.split_at(text.floor_char_boundary(MAX_TEXT_BYTES));
    let text = text.replace('\u{2019}', "'").to_ascii_lowercase();
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bytes = joined.as_bytes();
    let separates = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let group = bytes.get(at + 1..at + 4).unwrap_or_default();
        before.is_some_and(u8::is_ascii_digit)
            && group.len() == 3
            && group.iter().all(u8::is_ascii_digit)
            && !bytes.get(at + 4).is_some_and(u8::is_ascii_digit)
    };
    let kept = bytes.iter().enumerate();
    let kept = kept.filter(|&(at, byte)| !matches!(byte, b',' | b'_') || !separates(at));
    kept.map(|(_, byte)| *byte).collect()
}
