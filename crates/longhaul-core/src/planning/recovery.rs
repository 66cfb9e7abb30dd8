//! Recovery from a request that the model refused as too long.
//!
//! Recovery tries cumulative steps and takes the first that fits the target:
//!
//! 1. Clear results without the rule's guards.
//! 2. Replace history by a record, a summary or a digest.
//! 3. Clip the largest results of the newest batch.
//! 4. Give up.
//!
//! No step calls a model itself. If a summary is needed, recovery returns the need and runs again with the
//! result.

use crate::conversation::Conversation;
use crate::planning::history_fold::{HardThresholdMode, fold_without_thinking};
use crate::planning::plan::{RequestPlan, SummarySource};
use crate::planning::splice::Splice;
use crate::planning::view::ForwardedView;
use crate::policy::cut_point;
use crate::policy::cut_point::{PinnedHead, RetainedSteps};
use crate::policy::record::{Clip, PriorRecords, RecordMatch};
use crate::policy::segments::SegmentedText;
use crate::policy::thinking_removal::PriorThinking;
use crate::policy::thrash::ThrashState;
use crate::policy::{OutputWindow, Policy, SummaryBudgets};
use crate::pruning::rule::{Clearing, PruneState};
use crate::summary::digest::summary_budgets;
use crate::summary::segments;
use crate::summary::segments::SegmentPlace;
use crate::text::wording;
use crate::units::tokens::Tokens;
use std::collections::BTreeMap;
use std::ops::Range;

/// Recovery step that an attempt has reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecoveryStep {
    /// Old results are cleared.
    Cleared,
    /// Results of the newest batch are clipped.
    Clipped,
    /// A digest replaces history.
    Digest,
    /// A summary, or a record that was ready, replaces history.
    Summary,
}

/// Decision on a refused request.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a request has one decision at a time"
)]
pub enum RecoveryDecision {
    /// Make a summary of all messages before this index first.
    Summarise(usize),
    /// No rewrite would fit.
    GiveUp,
    /// Send this view.
    Retry(ForwardedView, RecoveryStep),
}

/// Plans recovery for a request that was refused in the form `refused`. With
/// [`SummarySource::Digest`] it never requests a summary: a finished summary is found as a record
/// that is ready.
pub fn plan_recovery(
    conversation: &Conversation<'_>,
    policy: &Policy,
    prior: &PriorRecords,
    refused: &ForwardedView,
    summaries: SummarySource,
) -> RecoveryDecision {
    if !policy.recover || conversation.is_stateful() {
        return RecoveryDecision::GiveUp;
    }
    RecoveryPlanner::new(conversation, policy, prior, refused).decide(summaries)
}

struct RecoveryPlanner<'l, 'a> {
    conversation: &'l Conversation<'a>,
    policy: &'l Policy,
    ready: Option<&'l RecordMatch>,
    thinking: &'l PriorThinking,
    pinned_head: PinnedHead,
    /// View with results cleared as far as the rule allows.
    cleared_by_rule: ForwardedView,
    cleared: ForwardedView,
    results: PruneState,
    /// Room for the steps that stay messages after a cut.
    steps_room: Tokens,
    target: Tokens,
    max_input: Tokens,
    /// Largest size that saves at least a tenth. With a smaller gain the request would be too long
    /// again at the next turn.
    max_with_progress: Tokens,
}

impl<'l, 'a> RecoveryPlanner<'l, 'a> {
    fn new(
        conversation: &'l Conversation<'a>,
        policy: &'l Policy,
        prior: &'l PriorRecords,
        refused: &ForwardedView,
    ) -> Self {
        let output = conversation.output_tokens();
        let mut max_input = policy.thresholds.max_input(output);
        if policy.thresholds.output == OutputWindow::Shared && output.is_some() {
            // A limit at or below the granted reasoning would be refused.
            let least = conversation.least_output().min(output.unwrap_or_default());
            max_input = max_input.min(policy.thresholds.actual_window - least);
        }
        let base = prior.adopted.as_ref();
        let pinned_head = PinnedHead::new(conversation, policy, base);
        let outcome = fold_without_thinking(
            conversation,
            policy,
            pinned_head,
            base,
            HardThresholdMode::Report,
            prior.thinking.removed(),
        );
        let (mut prune_state, clips) = (outcome.prune_state, outcome.clips);
        let clear = |protect| {
            if let Some(protect) = protect {
                clear_unguarded(&mut prune_state, protect);
            }
            let mut cleared = ForwardedView::new(pinned_head, &prune_state)
                .with_placement(policy.placement)
                .with_added_cache_mark(policy.adds_cache_mark)
                .with_recall(policy.recall.as_ref());
            if let Some(base) = base {
                cleared = cleared.with_record(&base.record);
            }
            cleared.add_clips(clips.clone());
            cleared
        };
        let [by_rule, cleared] = policy
            .recovery_protect
            .map_or([None; 2], |protects| protects.map(Some))
            .map(clear);
        Self {
            conversation,
            policy,
            ready: prior.ready.as_ref(),
            thinking: &prior.thinking,
            pinned_head,
            cleared_by_rule: by_rule,
            cleared,
            results: prune_state,
            steps_room: outcome.steps_room,
            target: policy.thresholds.recovery_target(output).min(max_input),
            max_input,
            max_with_progress: refused.tokens(conversation).percent(90),
        }
    }

    fn decide(&self, summaries: SummarySource) -> RecoveryDecision {
        for cleared in [&self.cleared_by_rule, &self.cleared] {
            if self.suffices(cleared) {
                return RecoveryDecision::Retry(cleared.clone(), RecoveryStep::Cleared);
            }
        }
        if let Some(ready) = self.ready {
            let view = self.cleared.clone().with_record(&ready.record);
            if self.suffices(&view) {
                return RecoveryDecision::Retry(view, RecoveryStep::Summary);
            }
        }
        let messages = self.conversation.messages().len();
        let steps = RetainedSteps {
            results: &self.results,
            clearing: Clearing::Past,
            room: self.steps_room,
        };
        let (conversation, policy, pinned) = (self.conversation, self.policy, self.pinned_head);
        let [with_steps, newest] = [Some(steps), None]
            .map(|steps| cut_point::find(conversation, policy, steps, pinned, messages));
        let deepest = cut_point::deepest(conversation, pinned, messages);
        let covered = self.cleared.summarised_until();
        let cuts = [with_steps, newest, deepest].into_iter().flatten();
        let mut cuts: Vec<usize> = cuts.filter(|&cut| cut > covered).collect();
        cuts.dedup();
        let mut cuts = cuts.into_iter().peekable();
        let mut last = None;
        while let Some(cut) = cuts.next() {
            // No digest makes the rest smaller.
            let is_hopeless = || !self.meets_target(self.tokens_without_summary(cut));
            if cuts.peek().is_some() && is_hopeless() {
                continue;
            }
            if summaries == SummarySource::Model && self.could_suffice(cut) {
                return RecoveryDecision::Summarise(cut);
            }
            let whole = self.budgets(cut);
            let budgets = self.with_fitting_requests(cut, whole);
            let view = self.with_summary(cut, self.digest_text(cut, &budgets));
            // A replacement can be longer than a short history.
            if !self.can_splice(&view) {
                continue;
            }
            if self.suffices(&view) {
                return RecoveryDecision::Retry(view, RecoveryStep::Digest);
            }
            last = Some((view, whole, budgets));
        }
        let Some((view, budgets, used)) = last else {
            return self.clip(self.cleared.clone());
        };
        // Clips results rather than shorten the user's requests.
        let cut = view.summarised_until();
        if budgets.requests > used.requests {
            let with_requests = self.clip(self.with_summary(cut, self.digest_text(cut, &budgets)));
            if let RecoveryDecision::Retry(view, _) = &with_requests
                && self.meets_target(self.tokens(view))
            {
                return with_requests;
            }
        }
        self.clip(view)
    }

    /// Clips the largest results after the cut, in ever smaller sizes, until the request fits.
    fn clip(&self, mut view: ForwardedView) -> RecoveryDecision {
        let messages = self.conversation.messages();
        let mut results: Vec<(Tokens, usize)> = (view.summarised_until()..messages.len())
            .filter_map(|at| Some((messages.get(at)?, at)))
            .filter(|&(message, at)| message.is_replaceable_result() && !view.is_cleared(at))
            .map(|(message, at)| (message.text_tokens, at))
            .collect();
        results.sort_by(|one, other| other.cmp(one));
        // Many results may need clips before the request fits, so the size is updated
        // incrementally.
        let mut tokens = self.tokens(&view);
        let mut clips: BTreeMap<usize, Clip> = view.clips_by_message();
        for end in Clip::SIZES {
            for &(size, message) in &results {
                let Some(clip) = Clip::new(message, size, end) else {
                    break;
                };
                let before = clips.insert(message, clip);
                let before = before.map(|before| before.saved_tokens(size));
                tokens = tokens + before.unwrap_or_default() - clip.saved_tokens(size);
                if self.meets_target(tokens) {
                    view.add_clips(clips.values().copied());
                    if self.can_splice(&view) {
                        return RecoveryDecision::Retry(view, RecoveryStep::Clipped);
                    }
                }
            }
        }
        view.add_clips(clips.into_values());
        if tokens <= self.max_input && tokens <= self.max_with_progress && self.can_splice(&view) {
            RecoveryDecision::Retry(view, RecoveryStep::Clipped)
        } else {
            RecoveryDecision::GiveUp
        }
    }

    fn suffices(&self, view: &ForwardedView) -> bool {
        self.meets_target(self.tokens(view)) && self.can_splice(view)
    }

    /// Returns the size of a view without the thinking that it makes stale.
    fn tokens(&self, view: &ForwardedView) -> Tokens {
        if !self.conversation.has_bound_thinking() {
            return view.tokens(self.conversation);
        }
        let plan = RequestPlan::from_view(view.clone());
        let plan = plan.without_stale_thinking(self.conversation, self.thinking);
        plan.view.tokens(self.conversation)
    }

    fn meets_target(&self, tokens: Tokens) -> bool {
        tokens <= self.target && tokens <= self.max_with_progress
    }

    /// Whether the view can be spliced into a body. A view that cannot be sent is skipped.
    fn can_splice(&self, view: &ForwardedView) -> bool {
        view.replacements(self.conversation)
            .is_some_and(|plan| Splice::new(self.conversation, &plan).is_some())
    }

    /// Whether a summary could reduce the size to the target. No model is called for a summary that
    /// cannot be used.
    fn could_suffice(&self, cut: usize) -> bool {
        self.tokens_without_summary(cut) + self.budgets(cut).nominal() <= self.target
    }

    /// Returns the size of everything except the replacement text for the history before `cut`.
    fn tokens_without_summary(&self, cut: usize) -> Tokens {
        let mut view = self.cleared.clone();
        view.set_replacement(cut, SegmentedText::from(""));
        self.tokens(&view)
    }

    fn with_summary(&self, cut: usize, text: SegmentedText) -> ForwardedView {
        let mut view = self.cleared.clone();
        view.set_replacement(cut, text);
        view.set_thrash(ThrashState::restarted_at(
            self.conversation.messages().len(),
        ));
        view
    }

    /// Returns the budgets of a digest of the history before `cut`. User requests get only space beyond a digest
    /// without them, so they never make it too large.
    fn with_fitting_requests(&self, cut: usize, budgets: SummaryBudgets) -> SummaryBudgets {
        let without = SummaryBudgets {
            requests: Tokens::ZERO,
            ..budgets
        };
        let fixed = self.tokens_without_summary(cut)
            + Tokens::estimate_text(&wording::wrap_summary(""))
            + without.nominal();
        let left = self.target.min(self.max_with_progress) - fixed;
        SummaryBudgets {
            requests: budgets.requests.min(left),
            ..budgets
        }
    }

    /// Builds the text for the history before `cut`. Earlier segments keep their bytes if all of them
    /// fit `budgets`.
    fn digest_text(&self, cut: usize, budgets: &SummaryBudgets) -> SegmentedText {
        let until = self.cleared.summarised_until();
        let earlier = self.cleared.summary().map(|text| (text, until));
        let text = |earlier| {
            let place = SegmentPlace {
                earlier,
                covered: self.pinned_head.end..cut,
                retained: self.retained(cut),
                words: &self.policy.words,
            };
            segments::with_digest(self.conversation, &place, budgets)
        };
        let appended = earlier.map(|earlier| text(Some(earlier)));
        let fits = |text: &SegmentedText| {
            Tokens::estimate_text(wording::unwrap_summary(text)) <= budgets.nominal()
        };
        appended.filter(fits).unwrap_or_else(|| text(None))
    }

    /// Returns the budgets for the replacement text of the history before `cut`.
    fn budgets(&self, cut: usize) -> SummaryBudgets {
        summary_budgets(self.conversation, self.policy, self.pinned_head.end..cut)
    }

    /// Returns the messages after `cut` that are retained as long as the digest: not cleared, and
    /// not clipped in a later step.
    fn retained(&self, cut: usize) -> Range<usize> {
        let newest = self
            .conversation
            .newest_unit(self.conversation.messages().len());
        if self.policy.prunes_between_cuts() {
            return newest..newest;
        }
        let cleared = (cut..newest).rev().find(|&at| self.cleared.is_cleared(at));
        cleared.map_or(cut, |at| at + 1)..newest
    }
}

/// Clears everything that the rule would clear without its guards.
fn clear_unguarded(prune_state: &mut PruneState, protect: Tokens) {
    prune_state.extend_clearable(protect);
    prune_state.clear_all_clearable();
}

#[cfg(test)]
mod tests;
