//! What stands in place of a message's content: a text, in the shape that the content had.

use super::conversation::{Content, Conversation, Message};
use super::span::Span;

/// `text` as the content of `message`: a string where there was a string; where there was an
/// array, one text part that carries the last cache mark found.
pub(super) fn in_shape_of(
    conversation: &Conversation<'_>,
    message: &Message,
    text: &str,
) -> Option<String> {
    let text = quote(text)?;
    match message.content {
        Content::Absent | Content::Null => None,
        Content::Text(_) => Some(text),
        Content::Parts(_) => {
            let mut marks = conversation
                .parts(message)
                .iter()
                .filter_map(|part| part.cache_control);
            let mark = cache_mark(conversation, marks.next_back());
            Some(format!("[{{\"type\":\"text\",\"text\":{text}{mark}}}]"))
        }
    }
}

/// A `cache_control` member with the value at `mark`, to stand behind another member.
pub(super) fn cache_mark(conversation: &Conversation<'_>, mark: Option<Span>) -> String {
    mark.map(|mark| format!(",\"cache_control\":{}", mark.slice(conversation.body())))
        .unwrap_or_default()
}

/// `text` as a JSON string literal.
pub(super) fn quote(text: &str) -> Option<String> {
    // Its quotation marks, and some escapes.
    let mut quoted = Vec::with_capacity(text.len() + text.len() / 8 + 2);
    serde_json::to_writer(&mut quoted, text).ok()?;
    String::from_utf8(quoted).ok()
}
