//! The code and class with which a provider names its error, for log, page and explanations.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::body::coding::Decoder;

/// Maximum decoded bytes of an error reply that are read. Errors of the known providers take less than 2 KB.
const MAX_BYTES: usize = 8 * 1024;
/// Maximum characters of a code or class.
const MAX_NAME_CHARS: usize = 64;

/// Beginning of an error reply, as the reply is relayed.
pub(super) struct ErrorReply {
    decoder: Decoder,
    text: Vec<u8>,
}

/// Members that the known APIs give an error, inside `error` or beside it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    error: Value,
    code: Value,
    r#type: Value,
}

impl ErrorReply {
    /// Starts reading a reply with these `headers`; `None` if its coding is unsupported.
    pub(super) fn new(headers: &HeaderMap) -> Option<Self> {
        Some(Self { decoder: Decoder::from_headers(headers)?, text: Vec::new() })
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        if self.text.len() < MAX_BYTES
            && let Some(plain) = self.decoder.decode_chunk(chunk)
        {
            self.text.extend(plain.iter().take(MAX_BYTES - self.text.len()));
        }
    }

    /// Returns class and code of the error, like `rate_limit_error slow_down`. `None` if neither is a
    /// plain name: the text of an error may repeat text of the request.
    pub(super) fn name(&self) -> Option<String> {
        let outer: Named = serde_json::from_slice(&self.text).ok()?;
        let inner = Named::deserialize(&outer.error).unwrap_or(outer);
        let mut names: Vec<String> =
            [inner.r#type, inner.code].iter().filter_map(plain_name).collect();
        names.dedup();
        (!names.is_empty()).then(|| names.join(" "))
    }
}

/// Returns a name or a number that cannot be text of a conversation.
fn plain_name(value: &Value) -> Option<String> {
    let name = match value {
        Value::String(name) => name.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(_) | Value::Bool(_) | Value::Null | Value::Object(_) => return None,
    };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:".contains(letter);
    (name.len() <= MAX_NAME_CHARS && !name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_and_code_are_names_and_never_text() {
        for (body, expect) in [
            (
                r#"{"error":{"message":"m","type":"server_error","code":null}}"#,
                Some("server_error"),
            ),
            (
                r#"{"error":{"type":"requests","code":"rate_limit_exceeded"}}"#,
                Some("requests rate_limit_exceeded"),
            ),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Some("overloaded_error"),
            ),
            (r#"{"code":1261,"message":"m"}"#, Some("1261")),
            (r#"{"error":"Internal","type":"x","code":"x"}"#, Some("x")),
            (r#"{"error":{"code":"sk-a b c"}}"#, None),
            (r#"{"error":{"type":{"a":1}}}"#, None),
            ("<html>502</html>", None),
            ("", None),
        ] {
            let mut reply = ErrorReply::new(&HeaderMap::new()).unwrap();
            for chunk in body.as_bytes().chunks(7) {
                reply.push(chunk);
            }
            assert_eq!(reply.name().as_deref(), expect, "{body}");
        }
    }
}
