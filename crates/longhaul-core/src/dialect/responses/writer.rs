//! JSON that longhaul writes into a request: user messages, text parts and replacement outputs.

use crate::conversation::{Content, ContentPart, Conversation, Message, PartKind, images};
use crate::dialect::Dialect;
use crate::dialect::chat_completions::writer;
use crate::json::quote::quote;
use crate::json::span::Span;

/// See [`Dialect::content_in_shape`](crate::dialect::Dialect::content_in_shape). Chunks of a shell
/// keep their outcomes: the first text that is not empty becomes `text`, and all others empty.
pub(in crate::dialect) fn content_in_shape(
    conversation: &Conversation<'_>,
    message: &Message,
    text: &str,
) -> Option<String> {
    if let Content::Parts(span) = message.content {
        let parts = conversation.parts(message);
        if let Some(part) = parts.iter().find(|part| part.span == span) {
            // Longhaul reads no item in one part, except for a screenshot.
            let is_read = part.kind == PartKind::Screenshot;
            return is_read.then(|| images::marker_part(conversation, part))?;
        }
        let is_chunk = |part: &ContentPart| part.text.is_some_and(|it| it.span() == part.span);
        if !parts.is_empty() && parts.iter().all(is_chunk) {
            let body = conversation.body();
            return Some(chunks_with_text(body, span, parts, &quote(text)));
        }
    }
    writer::content_in_shape(conversation, message, text)
}

/// Returns the array at `span` of `body` with the JSON string `text` in place of its texts.
fn chunks_with_text(body: &str, span: Span, parts: &[ContentPart], text: &str) -> String {
    let is_filled = |part: &ContentPart| part.text.is_some_and(|text| text.chars() > 0);
    let first = parts.iter().position(is_filled).unwrap_or_default();
    let mut chunks = String::new();
    let mut end = span.start();
    for (at, part) in parts.iter().enumerate() {
        chunks.push_str(body.get(end..part.span.start()).unwrap_or_default());
        chunks.push_str(if at == first { text } else { "\"\"" });
        end = part.span.end();
    }
    chunks.push_str(body.get(end..span.end()).unwrap_or_default());
    chunks
}

/// See [`Dialect::user_message`](crate::dialect::Dialect::user_message). Every known server reads an
/// item with a type and parts; some refuse shorter forms.
pub(in crate::dialect) fn user_message(content: &str) -> String {
    let message = "{\"type\":\"message\",\"role\":\"user\",\"content\":";
    if content.starts_with('"') {
        [message, "[", &Dialect::Responses.text_part(content, None), "]}"].concat()
    } else {
        [message, content, "}"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::responses::read;

    fn check(item: &str, expect: Option<&str>) {
        let body = format!(r#"{{"input":[{item}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        let message = &conversation.messages()[0];
        let content_after = content_in_shape(&conversation, message, "say \"x\"");
        assert_eq!(content_after.as_deref(), expect, "{item}");
    }

    #[test]
    fn replacement_keeps_the_output_shape() {
        let output = |output: &str| {
            format!(r#"{{"type":"function_call_output","call_id":"c","output":{output}}}"#)
        };
        check(&output(r#""12 files""#), Some(r#""say \"x\"""#));
        let part = r#"[{"type":"input_text","text":"say \"x\""}]"#;
        check(&output("[]"), Some(part));
        check(
            &output(r#"[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"}]"#),
            Some(part),
        );
        check(&output("null"), None);
        let marked = r#"[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode": "explicit"}},{"type":"input_text","text":"b"}]"#;
        check(
            &output(marked),
            Some(
                r#"[{"type":"input_text","text":"say \"x\"","prompt_cache_breakpoint":{"mode": "explicit"}}]"#,
            ),
        );
    }

    #[test]
    fn replacement_keeps_the_outcome_of_each_shell_chunk() {
        let output = r#"[{"stdout":"","stderr":"warn","outcome":{"type":"exit","exit_code":0}}, {"outcome":{"type":"timeout"},"stderr":"e","stdout":"long"}]"#;
        let item = format!(r#"{{"type":"shell_call_output","call_id":"c","output":{output}}}"#);
        check(
            &item,
            Some(
                r#"[{"stdout":"","stderr":"say \"x\"","outcome":{"type":"exit","exit_code":0}}, {"outcome":{"type":"timeout"},"stderr":"","stdout":""}]"#,
            ),
        );
    }

    #[test]
    fn opaque_outputs_are_not_replaced() {
        for kind in ["local_shell_call_output", "computer_call_output", "dream_output"] {
            let output = r#"{"type":"computer_screenshot","image_url":"u"}"#;
            check(&format!(r#"{{"type":"{kind}","call_id":"c","output":{output}}}"#), None);
        }
    }

    #[test]
    fn a_screenshot_gives_way_to_another() {
        let output = r#"{"type":"computer_screenshot","image_url":"data:image/png;base64,iVBOR"}"#;
        let item = format!(r#"{{"type":"computer_call_output","call_id":"c","output":{output}}}"#);
        check(&item, Some(crate::text::wording::SCREENSHOT_MARKER.trim_end()));
    }

    #[test]
    fn a_user_message_has_a_type_and_parts() {
        assert_eq!(
            user_message("\"a\""),
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}"#
        );
        assert_eq!(user_message("[]"), r#"{"type":"message","role":"user","content":[]}"#);
    }
}
