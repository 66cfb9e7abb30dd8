//! Which images may go when a request has too many bytes.

use super::conversation::{Conversation, PartKind};

/// The message before which images may be replaced by markers: where the newest user turn begins.
/// `None` if there is none to replace.
pub fn before_newest_turn(conversation: &Conversation<'_>) -> Option<usize> {
    let messages = conversation.messages();
    let last = messages
        .iter()
        .rposition(|message| message.role.is_user())?;
    let turn = messages
        .get(..last)?
        .iter()
        .rposition(|message| !message.role.is_user());
    let begins = turn.map_or(0, |before| before + 1);
    let has_image = |message| {
        conversation
            .parts(message)
            .iter()
            .any(|part| part.kind == PartKind::Image)
    };
    messages
        .get(..begins)?
        .iter()
        .any(has_image)
        .then_some(begins)
}
