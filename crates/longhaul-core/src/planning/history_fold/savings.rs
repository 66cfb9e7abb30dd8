//! Tokens that a record's clips and dropped images save, by message.

use crate::conversation::Conversation;
use crate::conversation::images;
use crate::planning::history_fold::HistoryFold;
use crate::policy::record::CompactionRecord;
use crate::units::tokens::Tokens;
use std::ops::Range;

/// Returns the messages whose images a record dropped, each with the tokens that this saves.
pub(super) fn image_savings(
    record: &CompactionRecord,
    conversation: &Conversation<'_>,
) -> Vec<(usize, Tokens)> {
    let before = conversation.messages().iter().take(record.images_before);
    before
        .enumerate()
        .filter(|(_, message)| !message.role.is_instruction())
        .map(|(at, message)| {
            let images = images::image_parts(conversation, message);
            (at, images.map(|(_, saves)| saves).sum())
        })
        .filter(|(_, saves)| *saves > Tokens::ZERO)
        .collect()
}

/// Tokens that removals of bound thinking save, by prefix. Empty without a removal.
#[derive(Debug, Default)]
pub(super) struct ThinkingSavings(Vec<Tokens>);

impl ThinkingSavings {
    pub(super) fn new(conversation: &Conversation<'_>, removed: &[Range<usize>]) -> Self {
        if removed.is_empty() {
            return Self::default();
        }
        let messages = conversation.messages().iter().enumerate();
        let sizes = messages.map(|(at, message)| {
            let is_removed = removed.iter().any(|range| range.contains(&at));
            let thinking = message.bound_thinking.filter(|_| is_removed);
            thinking.unwrap_or_default()
        });
        Self(Tokens::prefix_sums(sizes))
    }

    pub(super) fn tokens_of(&self, messages: Range<usize>) -> Tokens {
        let sum = |end: usize| self.0.get(end).copied().unwrap_or_default();
        sum(messages.end) - sum(messages.start)
    }
}

impl HistoryFold<'_, '_> {
    /// Returns the tokens that clearing would free now, less those that clips and dropped images
    /// already saved.
    pub(super) fn clearable_tokens(&self) -> Tokens {
        let is_clipped = |at| self.clip_savings.iter().any(|(clipped, _)| *clipped == at);
        let images = self.image_savings.iter().filter(|(at, _)| !is_clipped(*at));
        let saved = self.clip_savings.iter().chain(images);
        let saved = saved.filter(|(at, _)| self.prune_state.is_clearable(*at));
        self.prune_state.clearable_tokens() - saved.map(|(_, saved)| *saved).sum()
    }

    /// Returns the tokens that clips save in messages that are still present.
    pub(super) fn saved_by_clips(&self) -> Tokens {
        let is_shown =
            |message| message >= self.summarised_until && !self.prune_state.is_cleared(message);
        let clips = self.clip_savings.iter().filter(|(at, _)| is_shown(*at));
        clips.map(|(_, saved)| *saved).sum()
    }

    /// Returns the tokens that dropped images save in messages that are still present.
    pub(super) fn saved_by_images(&self) -> Tokens {
        let is_replaced = |at| {
            self.prune_state.is_cleared(at)
                || self.clip_savings.iter().any(|(clipped, _)| *clipped == at)
        };
        let is_shown =
            |at| (at < self.pinned_head.end || at >= self.summarised_until) && !is_replaced(at);
        let images = self.image_savings.iter().filter(|(at, _)| is_shown(*at));
        images.map(|(_, saved)| *saved).sum()
    }
}
