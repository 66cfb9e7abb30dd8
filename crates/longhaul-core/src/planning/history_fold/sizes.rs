//! Sizes at a point of the fold: of the conversation, of its replacement text, and of what a record saves.

use super::HistoryFold;
use crate::conversation::Conversation;
use crate::conversation::images;
use crate::policy::SummaryBudgets;
use crate::policy::record::CompactionRecord;
use crate::summary::digest::summary_budgets_with_requests;
use crate::summary::segments;
use crate::text::wording::wrap_summary;
use crate::units::tokens::Tokens;
use std::ops::Range;

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
            - Tokens::sum_of(&self.thinking_savings, 0..self.pinned_head.end)
            - Tokens::sum_of(&self.thinking_savings, self.summarised_until..point)
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

    /// Returns the messages from `cut` to `point` that stay unchanged until the next cut.
    pub(super) fn surely_retained(&self, cut: usize, point: usize) -> Range<usize> {
        if self.policy.prunes_between_cuts() {
            return point..point;
        }
        // The cut may clear results in the same cache break, but none of these.
        let protect = self.policy.prune.as_ref().map(|(_, rule)| rule.protect);
        let is_protected = |&at: &usize| {
            protect.is_none_or(|protect| self.conversation.tokens_of(at..point) <= protect)
        };
        (cut..point).find(is_protected).unwrap_or(point)..point
    }

    /// Computes the budgets of a replacement text for the history before `cut`, and its assumed size.
    pub(super) fn assume_summary(&mut self, cut: usize) -> (SummaryBudgets, AssumedSummary) {
        let (conversation, policy) = (self.conversation, self.policy);
        let history = self.pinned_head.end..cut;
        let requests = self.request_sizes.measure(conversation, history.clone());
        let budgets = summary_budgets_with_requests(conversation, policy, history, requests);
        let fixed = self.fixed_tokens + self.pinned_tokens() + policy.prune_summary_size;
        let max_requests = policy.prune_thresholds.requests_budget(fixed);
        let assumed = AssumedSummary {
            nominal: budgets.nominal(),
            requests: budgets.requests,
            for_pruning: policy.prune_summary_size + requests.min(max_requests),
        };
        (budgets, assumed)
    }

    /// Returns the maximum size of the text of a cut: the whole budget, or the text so far with
    /// one more segment, if smaller.
    pub(super) fn largest_text(&self, cut: usize, budgets: &SummaryBudgets) -> Tokens {
        let frame = Tokens::estimate_text(&wrap_summary(""));
        let so_far = self.summary.as_ref().filter(|_| self.text.is_some());
        let from = so_far.map_or(self.pinned_head.end, |_| self.summarised_until);
        let so_far = so_far.map_or(frame, |summary| summary.nominal);
        let part = self.conversation.tokens_of(from..cut);
        let own = budgets.of_segment(part, so_far - frame).nominal();
        (budgets.nominal() + frame).min(so_far + own + segments::HEADING_TOKENS)
    }
}

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

/// Returns the tokens that removals of bound thinking save, as sums over the first messages. Empty without a
/// removal.
pub(super) fn thinking_savings(
    conversation: &Conversation<'_>,
    removed: &[Range<usize>],
) -> Vec<Tokens> {
    if removed.is_empty() {
        return Vec::new();
    }
    let messages = conversation.messages().iter().enumerate();
    Tokens::prefix_sums(messages.map(|(at, message)| {
        let is_removed = removed.iter().any(|range| range.contains(&at));
        message.bound_thinking.filter(|_| is_removed).unwrap_or_default()
    }))
}
