//! Replacement content of a message: a text, in the JSON shape of the original content.

use crate::conversation::{Content, Conversation, Message};
use crate::json::span::Span;

/// Formats `text` as the content of `message`: a string if the content was a string, or one text
/// part if it was an array. The part carries the array's last cache mark. Returns `None` if the
/// message has no content.
pub(crate) fn content_in_shape(
    conversation: &Conversation<'_>,
    message: &Message,
    text: &str,
) -> Option<String> {
    let text = quote(text);
    match message.content {
        Content::Absent | Content::Null => None,
        Content::Text(_) => Some(text),
        Content::Parts(_) => {
            let mut marks = conversation
                .parts(message)
                .iter()
                .filter_map(|part| part.cache_control);
            let mark = cache_control_member(conversation, marks.next_back());
            Some(format!("[{{\"type\":\"text\",\"text\":{text}{mark}}}]"))
        }
    }
}

/// Formats a `cache_control` member with the value at `mark`, to follow another member. Empty
/// without a mark.
pub(crate) fn cache_control_member(conversation: &Conversation<'_>, mark: Option<Span>) -> String {
    mark.map(|mark| format!(",\"cache_control\":{}", mark.slice(conversation.body())))
        .unwrap_or_default()
}

/// Whether `text` needs no escape in a JSON string literal.
pub(crate) fn needs_no_escape(text: &str) -> bool {
    let is_escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    // Counted, because a loop that may end early examines one byte at a time.
    text.as_bytes()
        .iter()
        .filter(|byte| is_escaped(byte))
        .count()
        == 0
}

/// Formats `text` as a JSON string literal.
pub(crate) fn quote(text: &str) -> String {
    if needs_no_escape(text) {
        return ["\"", text, "\""].concat();
    }
    // Room for the quotation marks and some escapes.
    let mut quoted = Vec::with_capacity(text.len() + text.len() / 8 + 2);
    // A string always serialises, to valid UTF-8, so neither call can fail.
    _ = serde_json::to_writer(&mut quoted, text);
    String::from_utf8(quoted).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    fn check(content: &str, expect: Option<&str>) {
        let body =
            format!(r#"{{"messages":[{{"role":"tool","tool_call_id":"1","content":{content}}}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        let message = &conversation.messages()[0];
        let stands = content_in_shape(&conversation, message, "say \"x\"");
        assert_eq!(stands.as_deref(), expect, "{content}");
    }

    #[test]
    fn a_string_stays_a_string_and_an_array_becomes_one_part() {
        check(r#""12 files""#, Some(r#""say \"x\"""#));
        let part = r#"[{"type":"text","text":"say \"x\""}]"#;
        check("[]", Some(part));
        check(
            r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
            Some(part),
        );
    }

    #[test]
    fn the_last_cache_mark_of_an_array_stays_as_it_was_written() {
        check(
            r#"[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b","cache_control":{"type": "ephemeral", "ttl":"1h"}},{"type":"text","text":"c"}]"#,
            Some(
                r#"[{"type":"text","text":"say \"x\"","cache_control":{"type": "ephemeral", "ttl":"1h"}}]"#,
            ),
        );
    }

    #[test]
    fn a_text_is_quoted_as_json_has_it() {
        for byte in 0..=u8::MAX {
            let text = format!("before {} behind", char::from(byte));
            let quoted = serde_json::to_string(&text).unwrap();
            assert_eq!(quote(&text), quoted);
            assert_eq!(
                needs_no_escape(&text),
                quoted.len() == text.len() + 2,
                "{text}"
            );
        }
    }

    #[test]
    fn what_has_no_content_gets_none() {
        check("null", None);
    }
}
