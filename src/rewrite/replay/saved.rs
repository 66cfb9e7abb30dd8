//! What a record's clips and dropped images save, message by message.

use super::Replay;
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

impl Replay<'_, '_> {
    /// What clearing would free now: less what clips and dropped images have saved of it already.
    pub(super) fn waiting(&self) -> Tokens {
        let is_clipped = |at| self.clipped.iter().any(|(clipped, _)| *clipped == at);
        let images = self.images.iter().filter(|(at, _)| !is_clipped(*at));
        let saved = self.clipped.iter().chain(images);
        let saved = saved.filter(|(at, _)| self.fold.waits(*at));
        self.fold.waiting() - saved.map(|(_, saved)| *saved).sum()
    }

    /// What the clips save of what still stands.
    pub(super) fn clipped(&self) -> Tokens {
        let stands = |message| message >= self.covers && !self.fold.clears(message);
        let clips = self.clipped.iter().filter(|(at, _)| stands(*at));
        clips.map(|(_, saved)| *saved).sum()
    }

    /// What the images save that were dropped of what still stands.
    pub(super) fn without_images(&self) -> Tokens {
        let is_replaced =
            |at| self.fold.clears(at) || self.clipped.iter().any(|(clipped, _)| *clipped == at);
        let stands = |at| (at < self.kept.end || at >= self.covers) && !is_replaced(at);
        let images = self.images.iter().filter(|(at, _)| stands(*at));
        images.map(|(_, saved)| *saved).sum()
    }
}
