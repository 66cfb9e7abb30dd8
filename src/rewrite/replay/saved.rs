//! What a record's clips and dropped images save, message by message.

use crate::rewrite::conversation::Conversation;
use crate::rewrite::images;
use crate::rewrite::record::{Clip, Record};
use crate::rewrite::tokens::Tokens;

/// The clipped messages of a record, each with what its clip saves.
pub(super) fn clipped(clips: &[Clip], conversation: &Conversation<'_>) -> Vec<(usize, Tokens)> {
    let saves = |clip: &Clip| {
        let message = conversation.message(clip.message)?;
        Some((clip.message, clip.saves(message.text_tokens)))
    };
    clips.iter().filter_map(saves).collect()
}

/// The messages whose images a record dropped, each with what that saves.
pub(super) fn without_images(
    record: &Record,
    conversation: &Conversation<'_>,
) -> Vec<(usize, Tokens)> {
    let before = conversation.messages().iter().take(record.images_before);
    before
        .enumerate()
        .filter(|(_, message)| !message.role.instructs())
        .map(|(at, message)| {
            let images = images::of(conversation, message);
            (at, images.map(|(_, saves)| saves).sum())
        })
        .filter(|(_, saves)| *saves > Tokens::ZERO)
        .collect()
}
