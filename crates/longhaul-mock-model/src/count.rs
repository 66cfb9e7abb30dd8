//! The strict model's token count: bytes of the decoded text divided by a density. Independent of
//! the proxy's own estimate.

use serde_json::{Value, json};

use crate::request::{ChatBody, list};

/// Tokens of a message in addition to its text: the markers of its beginning, role and end.
const MESSAGE_TOKENS: u64 = 4;
/// Tokens of an image, a sound or a file of any size.
const MEDIA_TOKENS: u64 = 1_000;
/// Members whose strings a tokenizer never processes as text.
const NOT_TEXT: [&str; 7] =
    ["cache_control", "id", "role", "signature", "tool_call_id", "tool_use_id", "type"];
/// Members whose strings are media.
const MEDIA: [&str; 4] = ["image_url", "input_audio", "file", "source"];

/// Bytes of text per token, in tenths; at least one tenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenDensity(u64);

impl TokenDensity {
    /// 2.6 bytes per token: the density of code under a small vocabulary.
    pub const DENSE: Self = Self(26);
    /// 3.3 bytes per token: 12% more tokens than an estimate of 3.7 expects.
    pub const STANDARD: Self = Self(33);

    /// Creates a density from tenths of a byte per token; 0 counts as 1.
    pub fn from_tenths(tenths: u64) -> Self {
        Self(tenths.max(1))
    }

    /// Counts the tokens of a chat request's messages, tools and instructions. Returns `None` if the body
    /// is not a JSON object.
    pub fn request_tokens(self, body: &[u8]) -> Option<u64> {
        let chat = ChatBody::parse_any(body).ok()?;
        let messages = chat.messages().iter();
        let messages: u64 = messages.map(|message| self.message_tokens(message)).sum();
        let system = self.instruction_tokens(chat.system());
        Some(messages + self.tools_tokens(chat.field("tools")) + system)
    }

    fn tokens(self, bytes: u64) -> u64 {
        (bytes * 10).div_ceil(self.0)
    }

    /// Counts the tokens of one message.
    pub(crate) fn message_tokens(self, message: &Value) -> u64 {
        let text = CountableText::from_message(message);
        MESSAGE_TOKENS + self.tokens(text.bytes) + text.media * MEDIA_TOKENS
    }

    /// Counts the tokens of a request's tools.
    pub(crate) fn tools_tokens(self, tools: &Value) -> u64 {
        match tools.as_array().map(Vec::len) {
            None | Some(0) => 0,
            Some(_) => self.text_tokens(&tools.to_string()),
        }
    }

    /// Counts the tokens of instructions outside the messages; null has none.
    pub(crate) fn instruction_tokens(self, system: &Value) -> u64 {
        self.tokens(CountableText::from_message(system).bytes)
    }

    /// Returns each block of a content, with the tokens of the content up to its end. A string is one
    /// block of text.
    pub(crate) fn blocks(self, content: &Value) -> Vec<(u64, Value)> {
        let whole = content.as_str().map(|text| json!({"type": "text", "text": text}));
        let mut text = CountableText::default();
        let blocks = whole.as_slice().iter().chain(list(content));
        let count = |block: &Value| {
            text.add(block);
            (self.tokens(text.bytes) + text.media * MEDIA_TOKENS, block.clone())
        };
        blocks.map(count).collect()
    }

    /// Counts the tokens of a text.
    pub(crate) fn text_tokens(self, text: &str) -> u64 {
        self.tokens(text.len() as u64)
    }

    /// Returns the bytes of text in `tokens` tokens.
    pub(crate) fn bytes(self, tokens: u64) -> usize {
        usize::try_from(tokens.saturating_mul(self.0) / 10).unwrap_or(usize::MAX)
    }
}

/// The countable content of a message.
#[derive(Default)]
struct CountableText {
    bytes: u64,
    media: u64,
}

impl CountableText {
    fn from_message(value: &Value) -> Self {
        let mut text = Self::default();
        text.add(value);
        text
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Bool(_) | Value::Null | Value::Number(_) => {}
            Value::Object(members) => {
                for (name, member) in members {
                    if name == "input" {
                        self.add_arguments(member);
                    } else if MEDIA.contains(&name.as_str()) {
                        self.media += 1;
                    } else if !NOT_TEXT.contains(&name.as_str()) {
                        self.add(member);
                    }
                }
            }
            Value::String(string) => self.bytes += string.len() as u64,
        }
    }

    /// Adds the strings in the arguments of a call. Their keys are those of a tool: a `file` is a name there.
    fn add_arguments(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add_arguments(item)),
            Value::Bool(_) | Value::Null | Value::Number(_) => {}
            Value::Object(members) => members.values().for_each(|it| self.add_arguments(it)),
            Value::String(string) => self.bytes += string.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &Value, density: TokenDensity, tokens: u64) {
        assert_eq!(density.message_tokens(message), tokens, "{message}");
    }

    #[test]
    fn counts_decoded_bytes_and_an_overhead() {
        check(&json!({"role": "user", "content": "a".repeat(33)}), TokenDensity::STANDARD, 14);
        check(&json!({"role": "user", "content": "a".repeat(26)}), TokenDensity::DENSE, 14);
        check(&json!({"role": "user", "content": "\"".repeat(33)}), TokenDensity::STANDARD, 14);
        check(&json!({"role": "user", "content": ""}), TokenDensity::STANDARD, 4);
    }

    #[test]
    fn counts_parts_calls_and_reasoning() {
        let parts = json!({"role": "user", "content": [{"type": "text", "text": "a".repeat(33)}]});
        check(&parts, TokenDensity::STANDARD, 14);
        let arguments = "a".repeat(32);
        let calls = json!({"role": "assistant", "content": null, "tool_calls":
            [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}]});
        check(&calls, TokenDensity::STANDARD, 14);
        let thought = json!({"role": "assistant", "reasoning_content": "a".repeat(33)});
        check(&thought, TokenDensity::STANDARD, 14);
    }

    #[test]
    fn counts_media_flat() {
        let image = json!({"role": "user", "content":
            [{"type": "image_url", "image_url": {"url": "data:".repeat(9_000)}}]});
        check(&image, TokenDensity::STANDARD, 1_004);
    }

    #[test]
    fn counts_arguments_of_a_call_as_text_whatever_their_keys() {
        let findings = json!([{"file": "a".repeat(20), "source": {"type": "b".repeat(13)}}]);
        let call = json!({"role": "assistant", "content":
            [{"type": "tool_use", "id": "toolu_1", "input": {"findings": findings}}]});
        check(&call, TokenDensity::STANDARD, 14);
    }

    #[test]
    fn request_tokens_cover_messages_and_tools() {
        let body = br#"{"messages": [{"role": "user", "content": "abcdef"}], "tools": [{"a": 1}]}"#;
        assert_eq!(TokenDensity::from_tenths(10).request_tokens(body), Some(4 + 6 + 9));
        assert_eq!(TokenDensity::STANDARD.request_tokens(b"[]"), None);
    }

    #[test]
    fn counts_tools_as_they_are_written() {
        assert_eq!(TokenDensity::STANDARD.tools_tokens(&json!([])), 0);
        assert_eq!(TokenDensity::STANDARD.tools_tokens(&Value::Null), 0);
        assert_eq!(TokenDensity::from_tenths(10).tools_tokens(&json!([{"a": 1}])), 9);
    }
}
