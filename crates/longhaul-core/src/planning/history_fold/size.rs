//! Size of a conversation at a point of its fold.

use super::HistoryFold;
use crate::units::tokens::Tokens;

/// Assumed sizes of the replacement text.
#[derive(Clone, Copy, Debug)]
pub(super) struct AssumedSummary {
    /// Compared with the compaction thresholds.
    pub(super) nominal: Tokens,
    /// The part of `nominal` that the first and the newest user request take.
    pub(super) requests: Tokens,
    /// Compared with the clearing rule's own thresholds.
    pub(super) for_pruning: Tokens,
}

impl HistoryFold<'_, '_> {
    /// Returns the size up to `point` that is compared with the compaction thresholds.
    pub(super) fn size(&self, point: usize) -> Tokens {
        self.size_with(point, |summary| summary.nominal)
            - self.thinking_savings.tokens_of(0..self.pinned_head.end)
            - self.thinking_savings.tokens_of(self.summarised_until..point)
    }

    /// Returns the size up to `point` that is compared with the clearing rule's own thresholds.
    pub(super) fn prune_size(&self, point: usize) -> Tokens {
        self.size_with(point, |summary| summary.for_pruning)
    }

    fn size_with(&self, point: usize, nominal: impl Fn(&AssumedSummary) -> Tokens) -> Tokens {
        let summary = self.summary.as_ref().map(nominal).unwrap_or_default();
        self.fixed_tokens
            + self.pinned_tokens()
            + summary
            + self.conversation.tokens_of(self.summarised_until..point)
            - self.prune_state.freed()
            - self.saved_by_clips()
            - self.saved_by_images()
    }

    /// Returns the size of the first user message if it is pinned.
    pub(super) fn pinned_tokens(&self) -> Tokens {
        self.conversation.tokens_of(self.conversation.head_len()..self.pinned_head.end)
    }
}
