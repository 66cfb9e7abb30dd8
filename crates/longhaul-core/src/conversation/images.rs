//! Selection of images and documents to drop: from a request of too many bytes, or if the API refuses them.

use crate::conversation::{ContentPart, Conversation, Message, PartKind, Role};
use crate::json::quote::quote;
use crate::text::wording;
use crate::units::tokens::Tokens;
use std::ops::Range;

/// Returns the message before which images and documents may be replaced by markers: the start of the
/// newest user turn. Returns `None` if none precedes it.
pub fn droppable_before(conversation: &Conversation<'_>) -> Option<usize> {
    let begins = newest_user_turn(conversation)?.start;
    has_any(conversation, 0..begins).then_some(begins)
}

/// Returns the messages before which markers may replace images and documents that the API refuses.
///
/// The first to try is the start of the newest user turn, the second the newest answer of the model, the third the
/// end. Attachments of the newest user turn always stay.
pub fn droppable_if_refused(conversation: &Conversation<'_>) -> impl Iterator<Item = usize> {
    let newest_answer = || {
        let messages = conversation.messages();
        let answer = messages.iter().rposition(|message| message.role == Role::Assistant)?;
        let turn = newest_user_turn(conversation)?;
        let is_seen = answer > turn.end && has_any(conversation, turn.end..answer);
        (is_seen && !has_any(conversation, turn)).then_some(answer)
    };
    let end = || {
        let turn = newest_user_turn(conversation)?;
        let end = conversation.messages().len();
        (!has_any(conversation, turn.clone()) && has_any(conversation, turn.end..end))
            .then_some(end)
    };
    [droppable_before(conversation), newest_answer(), end()].into_iter().flatten()
}

/// Returns the prefixes whose images and documents the model has answered, each a group longer than the one
/// before.
pub(crate) fn droppable_prefixes(conversation: &Conversation<'_>) -> Vec<usize> {
    let messages = conversation.messages().len();
    let answered = droppable_if_refused(conversation).filter(|&it| it < messages);
    let ends = 1..=answered.max().unwrap_or_default();
    ends.filter(|&end| has_any(conversation, end - 1..end)).collect()
}

/// Returns the user messages at which the newest user turn begins.
fn newest_user_turn(conversation: &Conversation<'_>) -> Option<Range<usize>> {
    let messages = conversation.messages();
    let last = messages.iter().rposition(|message| message.role.is_user())?;
    let turn = messages.get(..last)?.iter().rposition(|message| !message.role.is_user());
    Some(turn.map_or(0, |before| before + 1)..last + 1)
}

/// Whether any of the messages in `range` holds an image or a document that a marker may replace.
fn has_any(conversation: &Conversation<'_>, range: Range<usize>) -> bool {
    let messages = conversation.messages().get(range).unwrap_or_default();
    messages.iter().any(|message| image_parts(conversation, message).next().is_some())
}

/// Returns the parts of a message that are images or documents, each with the tokens that a marker in its
/// place saves. A reference that is shorter than its marker is left out.
pub(crate) fn image_parts<'c>(
    conversation: &'c Conversation<'_>,
    message: &Message,
) -> impl Iterator<Item = (usize, Tokens)> + 'c {
    let parts = conversation.parts(message).iter().enumerate();
    let is_fixed = message.is_fixed;
    parts.filter(move |_| !is_fixed).filter_map(move |(at, part)| {
        let text = marker(part.kind)?;
        let is_shorter = marker_part(conversation, part)?.len() <= part.span.len();
        is_shorter.then(|| (at, part.tokens - Tokens::estimate_text(text)))
    })
}

/// Returns the part that replaces an image or a document: a text with its cache mark, or for a screenshot an
/// image. `None` for any other part.
pub(crate) fn marker_part(conversation: &Conversation<'_>, part: &ContentPart) -> Option<String> {
    if part.kind == PartKind::Screenshot {
        return Some(wording::SCREENSHOT_MARKER.trim_end().to_owned());
    }
    let text = quote(marker(part.kind)?);
    let mark = part.cache_mark.map(|mark| mark.slice(conversation.body()));
    Some(conversation.dialect().text_part(&text, mark))
}

/// Returns the text in place of an image or a document.
fn marker(kind: PartKind) -> Option<&'static str> {
    let may_go = matches!(kind, PartKind::File | PartKind::Image | PartKind::Screenshot);
    may_go.then(|| media_marker(kind))?
}

/// Returns the marker for a part that is not text, or `None` if the part needs none.
pub(crate) fn media_marker(kind: PartKind) -> Option<&'static str> {
    match kind {
        PartKind::Audio => Some(wording::AUDIO_MARKER),
        PartKind::File => Some(wording::FILE_MARKER),
        PartKind::Image | PartKind::Screenshot => Some(wording::IMAGE_MARKER),
        PartKind::Video => Some(wording::VIDEO_MARKER),
        PartKind::Other | PartKind::Text | PartKind::Thinking => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    /// Builds one message a letter: `a`ssistant, `t`ool and `u`ser. A capital `T` or `U` adds a
    /// picture. A user's text is in parts either way.
    fn body(letters: &str) -> String {
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
        format!(r#"{{"messages":[{}]}}"#, messages.join(","))
    }

    #[track_caller]
    fn check(letters: &str, expect: Option<usize>) {
        let body = body(letters);
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

    /// Checks the order in which images are dropped after a refusal.
    #[track_caller]
    fn check_refused(letters: &str, expect: &[usize]) {
        let body = body(letters);
        let conversation = read(body.as_bytes()).unwrap();
        let found: Vec<usize> = droppable_if_refused(&conversation).collect();
        assert_eq!(found, expect, "{letters}");
    }

    #[test]
    fn a_refusal_reaches_answered_images_of_a_turn_without_attachments() {
        check_refused("UaTu", &[3]);
        check_refused("uaTaT", &[3, 5]);
        check_refused("UauaTaT", &[2, 5, 7]);
        // The model has not answered these.
        check_refused("uaTT", &[4]);
        // The user attached one to this turn.
        check_refused("UaTaT", &[]);
        check_refused("UaUaTaT", &[2]);
        check_refused("uUaTaT", &[]);
        check_refused("uatat", &[]);
        check_refused("aTaT", &[]);
    }

    #[test]
    fn documents_are_droppable_unless_their_marker_would_be_longer() {
        let reference = r#"{"type":"file","file_id":"f"}"#;
        let document = r#"{"type":"file","file":{"file_data":"data:application/pdf;base64,x"}}"#;
        for (part, expect) in [(reference, None), (document, Some(1))] {
            let body = format!(
                r#"{{"messages":[{{"role":"user","content":[{part}]}},{{"role":"assistant","content":"a"}},{{"role":"user","content":"u"}}]}}"#
            );
            let conversation = read(body.as_bytes()).unwrap();
            let before = expect.map(|at| at + 1);
            assert_eq!(droppable_before(&conversation), before, "{part}");
        }
    }

    #[test]
    fn nothing_is_droppable_without_an_image_or_a_user_message() {
        check("uau", None);
        check("aT", None);
        check("", None);
    }
}
