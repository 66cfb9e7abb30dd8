//! What stands in place of a message's content: a text, in the shape that the content had.

use super::conversation::{Content, Conversation, Message};

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
            let mark = marks
                .next_back()
                .map(|mark| mark.slice(conversation.body()));
            let mark = mark
                .map(|mark| format!(",\"cache_control\":{mark}"))
                .unwrap_or_default();
            Some(format!("[{{\"type\":\"text\",\"text\":{text}{mark}}}]"))
        }
    }
}

/// `text` as a JSON string literal.
fn quote(text: &str) -> Option<String> {
    serde_json::to_string(text).ok()
}
