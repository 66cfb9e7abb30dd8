//! Thinking that its provider signed or encrypted, in the shapes of `OpenRouter` and `LiteLLM`.
//!
//! - `reasoning_details`: an array of entries, with `signature` or `data`
//! - `thinking_blocks`: an array of Anthropic's blocks
//! - Anthropic's blocks among the parts of the content

use super::keys::MessageKey;

use crate::conversation::{Message, PartKind};
use crate::dialect::part_reader::{PartKey, kind_from_type};
use crate::dialect::request_values::known_key;
use crate::json::scanner::{Literal, NotJson, Scanner, elements, members};
use crate::json::span::Span;

/// Whether a reasoning member with this value holds thinking that its provider may bind to the
/// bytes before it. Plain text is never bound.
pub(super) fn is_bound(raw: &str) -> bool {
    elements(raw).any(|entry| {
        // No maker but Anthropic binds its reasoning to the messages before it.
        let (mut is_signed, mut is_of_other_maker) = (false, false);
        for (name, value) in members(entry).filter(|(_, value)| value.starts_with('"')) {
            match &*name {
                "data" | "signature" => is_signed |= value != r#""""#,
                "format" => {
                    let makers = ["anthropic", "claude", "unknown"];
                    is_of_other_maker = !makers.iter().any(|maker| value.contains(maker));
                }
                _ => {}
            }
        }
        is_signed && !is_of_other_maker
    })
}

pub(in crate::dialect) fn spans(body: &str, message: &Message) -> Vec<Span> {
    let object = message.span.slice(body);
    let mut found = Found::default();
    let read = Scanner::new(object).object(|scanner, key| found.read_member(scanner, key));
    debug_assert!(read.is_ok(), "the reader validated the message");
    if found.spans.is_empty() {
        return Vec::new();
    }
    if !found.has_more {
        return vec![message.span];
    }
    let by = message.span.start_u32();
    found.spans.iter().map(|span| span.shifted(by)).collect()
}

/// Bound thinking of a message, relative to its start.
#[derive(Default)]
struct Found {
    spans: Vec<Span>,
    /// Whether the message has content or calls besides its thinking.
    has_more: bool,
}

impl Found {
    fn read_member(&mut self, scanner: &mut Scanner<'_>, key: Literal) -> Result<(), NotJson> {
        match known_key(scanner, key) {
            Some(MessageKey::Reasoning) => {
                let value = scanner.value()?;
                if is_bound(value.slice(scanner.text())) {
                    self.spans.push(key.span().extended_to(value));
                }
            }
            Some(MessageKey::Content) if scanner.peek() == Some(b'[') => {
                scanner.array(|scanner| self.read_part(scanner))?;
            }
            Some(
                MessageKey::Content
                | MessageKey::FunctionCall
                | MessageKey::Refusal
                | MessageKey::ToolCalls,
            ) => {
                let value = scanner.json()?;
                self.has_more |= !matches!(value, "null" | "\"\"" | "[]");
            }
            _ => scanner.skip()?,
        }
        Ok(())
    }

    fn read_part(&mut self, scanner: &mut Scanner<'_>) -> Result<(), NotJson> {
        let mut kind = PartKind::Other;
        let span = scanner.object(|scanner, key| {
            if known_key(scanner, key) == Some(PartKey::Type) && scanner.peek() == Some(b'"') {
                let name = scanner.string()?;
                kind = kind_from_type(&name.decode(scanner.text()));
                return Ok(());
            }
            scanner.skip()
        })?;
        if kind == PartKind::Thinking {
            self.spans.push(span);
        } else {
            self.has_more = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    fn check(message: &str, expect: &[&str]) {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"u"}},{message}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        let message = conversation.message(1).unwrap();
        let found = spans(&body, message);
        let found: Vec<_> = found.iter().map(|span| span.slice(&body)).collect();
        assert_eq!(found, expect, "{body}");
        assert_eq!(message.bound_thinking.is_some(), !expect.is_empty());
    }

    #[test]
    fn signed_and_encrypted_thinking_is_found_in_each_shape() {
        let details =
            r#""reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}]"#;
        let blocks = r#""thinking_blocks": [{"type":"redacted_thinking","data":"d"}]"#;
        let part = r#"{"type":"thinking","thinking":"","signature":"s"}"#;
        for (message, expect) in [
            (format!(r#"{{"role":"assistant","content":"c",{details}}}"#), vec![details]),
            (
                format!(
                    r#"{{"role":"assistant",{blocks},"content":"c","reasoning_content":"t",{details}}}"#
                ),
                vec![blocks, details],
            ),
            (
                format!(
                    r#"{{"role":"assistant","content":[{part},{{"type":"text","text":"c"}}]}}"#
                ),
                vec![part],
            ),
        ] {
            check(&message, &expect);
        }
    }

    #[test]
    fn whole_message_is_bound_if_it_holds_only_thinking() {
        let alone = r#"{"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s"}],"tool_calls":[]}"#;
        check(alone, &[alone]);
    }

    #[test]
    fn unsigned_and_other_vendors_reasoning_is_not_bound() {
        for member in [
            r#""reasoning":"t""#,
            r#""reasoning_details":[]"#,
            r#""reasoning_details":null"#,
            r#""reasoning_details":[{"type":"reasoning.text","text":"t","signature":""}]"#,
            r#""reasoning_details":[{"type":"reasoning.text","text":"t","signature":null}]"#,
            r#""reasoning_details":[{"type":"reasoning.encrypted","data":"d","format":"openai-responses-v1"}]"#,
            r#""reasoning_details":["signature"]"#,
        ] {
            check(&format!(r#"{{"role":"assistant","content":"c",{member}}}"#), &[]);
        }
    }
}
