//! Selection of images to drop when a request has too many bytes.

use crate::conversation::{Conversation, Message, PartKind};
use crate::text::wording;
use crate::units::tokens::Tokens;

/// Returns the message before which images may be replaced by markers: the start of the newest user
/// turn. Returns `None` if no image precedes it.
pub fn droppable_before(conversation: &Conversation<'_>) -> Option<usize> {
    let messages = conversation.messages();
    let last = messages
        .iter()
        .rposition(|message| message.role.is_user())?;
    let turn = messages
        .get(..last)?
        .iter()
        .rposition(|message| !message.role.is_user());
    let begins = turn.map_or(0, |before| before + 1);
    messages
        .get(..begins)?
        .iter()
        .any(|message| image_parts(conversation, message).next().is_some())
        .then_some(begins)
}

/// Returns the bytes of the images before the message `before`.
pub fn bytes_before(conversation: &Conversation<'_>, before: usize) -> usize {
    let messages = conversation.messages().iter().take(before);
    let images = messages.flat_map(|message| {
        let parts = conversation.parts(message).iter();
        parts.filter(|part| part.kind == PartKind::Image && !message.is_fixed)
    });
    images.map(|part| part.span.len()).sum()
}

/// Returns the parts of a message that are images, each with the tokens that a marker in its place
/// saves.
pub(crate) fn image_parts<'c>(
    conversation: &'c Conversation<'_>,
    message: &Message,
) -> impl Iterator<Item = (usize, Tokens)> + 'c {
    let marker = Tokens::estimate_text(wording::IMAGE_MARKER);
    let parts = conversation.parts(message).iter().enumerate();
    let is_fixed = message.is_fixed;
    parts
        .filter(move |(_, part)| part.kind == PartKind::Image && !is_fixed)
        .map(move |(at, part)| (at, part.tokens - marker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    /// Builds one message a letter: `a`ssistant, `t`ool and `u`ser. A capital `T` or `U` adds a
    /// picture. A user's text is in parts either way.
    #[track_caller]
    fn check(letters: &str, expect: Option<usize>) {
        const IMAGE: &str =
            r#",{"type":"image_url","image_url":{"url":"data:image/png;base64,x"}}"#;
        let message = |letter: char| {
            let image = if letter.is_uppercase() { IMAGE } else { "" };
            let parts = format!(r#"[{{"type":"text","text":"look"}}{image}]"#);
            match letter.to_ascii_lowercase() {
                'a' => r#"{"role":"assistant","content":"seen"}"#.to_owned(),
                't' => format!(r#"{{"role":"tool","tool_call_id":"1","content":{parts}}}"#),
                _ => format!(r#"{{"role":"user","content":{parts}}}"#),
            }
        };
        let messages: Vec<String> = letters.chars().map(message).collect();
        let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        let conversation = read(body.as_bytes()).unwrap();
        assert_eq!(droppable_before(&conversation), expect, "{letters}");
    }

    #[test]
    fn images_before_the_newest_user_turn_are_droppable() {
        check("Uau", Some(2));
        check("UaU", Some(2));
        check("UauaUat", Some(4));
        check("aTu", Some(2));
    }

    #[test]
    fn newest_turn_starts_at_its_first_user_message() {
        check("UaUuU", Some(2));
        check("UUau", Some(3));
    }

    #[test]
    fn no_image_is_droppable_if_only_the_newest_turn_has_images() {
        check("uaU", None);
        check("uaUu", None);
        check("uauaT", None);
        check("U", None);
        check("UU", None);
        check("aU", None);
    }

    #[test]
    fn nothing_is_droppable_without_an_image_or_a_user_message() {
        check("uau", None);
        check("aT", None);
        check("", None);
    }
}
