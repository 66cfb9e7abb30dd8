//! The replacement text of a cut: its budgets, its expected size, and the messages that stay with it.

use super::HistoryFold;
use super::size::AssumedSummary;
use crate::policy::SummaryBudgets;
use crate::summary::digest::summary_budgets_with_requests;
use crate::summary::segments;
use crate::text::wording::wrap_summary;
use crate::units::tokens::Tokens;
use std::ops::Range;

impl HistoryFold<'_, '_> {
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
