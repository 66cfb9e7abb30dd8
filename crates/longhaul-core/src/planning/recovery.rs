//! Recovery from a request that the model refused as too long.
//!
//! Recovery tries cumulative steps and takes the first that fits the target:
//!
//! 1. Replace images that the model has answered, if the body is too large.
//! 2. Clear results without the rule's guards.
//! 3. Replace history by a record, a summary or a digest.
//! 4. Clip results behind the cut that the model has seen.
//! 5. Clip the newest results, only as far as the window demands.
//! 6. Give up.
//!
//! No step calls a model. If a summary is needed, recovery returns the need and runs again with the result.

use crate::conversation::{Conversation, images};
use crate::planning::history_fold::{HardThresholdMode, fold};
use crate::planning::plan::{RequestPlan, SummarySource};
use crate::planning::splice::{admits_body, body_excess};
use crate::planning::view::ForwardedView;
use crate::policy::cut_point;
use crate::policy::cut_point::{PinnedHead, RetainedSteps};
use crate::policy::record::{Clip, PriorRecords};
use crate::policy::segments::SegmentedText;
use crate::policy::thrash::ThrashState;
use crate::policy::{OutputWindow, Policy, SummaryBudgets};
use crate::pruning::rule::{Clearing, PruneState};
use crate::summary::digest::summary_budgets;
use crate::summary::segments;
use crate::summary::segments::SegmentPlace;
use crate::text::wording;
use crate::units::tokens::Tokens;
use crate::window::to_two_digits;
use std::ops::Range;

/// Recovery step that an attempt has reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecoveryStep {
    /// Old results are cleared.
    Cleared,
    /// Results that stay are clipped.
    Clipped,
    /// A digest replaces history.
    Digest,
    /// Images are replaced by markers.
    Images,
    /// A summary, or a record that was ready, replaces history.
    Summary,
}

/// Decision on a refused request.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a request has one decision at a time")]
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
    if !policy.settings.recover || conversation.is_stateful() {
        return RecoveryDecision::GiveUp;
    }
    RecoveryPlanner::new(conversation, policy, prior, refused).decide(summaries)
}

struct RecoveryPlanner<'l, 'a> {
    conversation: &'l Conversation<'a>,
    policy: &'l Policy,
    prior: &'l PriorRecords,
    pinned_head: PinnedHead,
    /// Views without images, or with ever more results cleared.
    unsummarised: Vec<(ForwardedView, RecoveryStep)>,
    /// The last of these views.
    cleared: ForwardedView,
    results: PruneState,
    /// Room for the steps that stay messages after a cut.
    steps_room: Tokens,
    target: Tokens,
    /// Largest size that fits the window.
    max_input: Tokens,
    /// Largest size of a retry. A window that no reply stated may be larger than its estimate.
    max_retry: Tokens,
    /// Largest size that saves at least a tenth, unless the body is too long: a smaller gain would not last.
    max_with_progress: Tokens,
}

/// Size of a retry that is not worth a send if it is larger, in percent of the refused request.
const LEAST_PROGRESS: u32 = 97;

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
        let (mode, removed) = (HardThresholdMode::Report, prior.thinking.removed());
        let outcome = fold(conversation, policy, pinned_head, base, mode, removed);
        let (mut prune_state, clips) = (outcome.prune_state, outcome.clips);
        let has_long_body = !admits_body(conversation, refused, &policy.body);
        let mut images_before = 0;
        let view = |prune_state: &PruneState, images_before| {
            let mut cleared =
                ForwardedView::of_request(policy, pinned_head, prune_state, base, &clips);
            cleared.drop_images_before(images_before);
            cleared
        };
        let mut unsummarised = Vec::new();
        if has_long_body {
            let prefixes = images::droppable_prefixes(conversation);
            let without_images = |before| {
                let mut view = refused.clone();
                view.drop_images_before(before);
                view
            };
            let is_long = |&before: &usize| {
                let (view, limits) = (without_images(before), &policy.body);
                body_excess(conversation, &view, limits.goal, limits).is_none_or(|it| it > 0)
            };
            let fewest = prefixes.get(prefixes.partition_point(is_long));
            images_before = fewest.or_else(|| prefixes.last()).copied().unwrap_or_default();
            if images_before > 0 {
                unsummarised.push((without_images(images_before), RecoveryStep::Images));
            }
        }
        for protect in protected(policy, has_long_body) {
            prune_state.extend_clearable(protect);
            prune_state.clear_all_clearable();
            unsummarised.push((view(&prune_state, images_before), RecoveryStep::Cleared));
        }
        let last = unsummarised.last().map(|(view, _)| view.clone());
        let cleared = last.unwrap_or_else(|| view(&prune_state, images_before));
        let (target, progress, least_progress) = if has_long_body {
            (max_input, 100, 100)
        } else {
            (policy.thresholds.recovery_target(output).min(max_input), 90, LEAST_PROGRESS)
        };
        let most = refused.tokens(conversation).percent(least_progress);
        let max_input = max_input.min(most);
        Self {
            conversation,
            policy,
            prior,
            pinned_head,
            unsummarised,
            cleared,
            results: prune_state,
            steps_room: outcome.steps_room,
            target,
            max_input,
            max_retry: if policy.is_window_stated { max_input } else { most },
            max_with_progress: refused.tokens(conversation).percent(progress),
        }
    }

    fn decide(&self, summaries: SummarySource) -> RecoveryDecision {
        for (view, step) in &self.unsummarised {
            let limits = &self.policy.body;
            // Texts stay if images hold about a quarter of the bytes.
            let without_images = limits.goal.max(limits.bytes / 6 * 5);
            let goal = if *step == RecoveryStep::Images { without_images } else { limits.goal };
            if self.meets_target(self.tokens(view)) && self.excess(view, goal) == Some(0) {
                return RecoveryDecision::Retry(view.clone(), *step);
            }
        }
        if let Some(ready) = &self.prior.ready {
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
        let [with_steps, newest] = [Some(steps), None].map(|steps| {
            cut_point::find(conversation, policy.keep_recent, steps, pinned, messages)
        });
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
            let history = self.pinned_head.end..cut;
            let whole = summary_budgets(self.conversation, self.policy, history);
            // No model is called for a summary that cannot be used.
            let with_summary = self.tokens_without_summary(cut) + whole.nominal();
            if summaries == SummarySource::Model && with_summary <= self.target {
                return RecoveryDecision::Summarise(cut);
            }
            let budgets = self.with_fitting_requests(cut, whole);
            let view = self.with_summary(cut, self.digest_text(cut, &budgets));
            // A replacement can be longer than a short history.
            if self.excess(&view, 0).is_none() {
                continue;
            }
            if self.suffices(&view) {
                return RecoveryDecision::Retry(view, RecoveryStep::Digest);
            }
            last = Some((view, whole, budgets));
        }
        let Some((view, budgets, used)) = last else {
            let is_pruned = self.unsummarised.iter().any(|(view, _)| view.is_pruned());
            let step = if !is_pruned && self.cleared.drops_images(conversation) {
                RecoveryStep::Images
            } else {
                RecoveryStep::Cleared
            };
            return self.clip(self.cleared.clone(), step, self.max_retry);
        };
        // Clips results rather than shorten the user's requests.
        let cut = view.summarised_until();
        if budgets.requests > used.requests {
            let with_requests = self.with_summary(cut, self.digest_text(cut, &budgets));
            let clipped = self.clip(with_requests, RecoveryStep::Digest, self.max_input);
            if let RecoveryDecision::Retry(..) = clipped {
                return clipped;
            }
        }
        self.clip(view, RecoveryStep::Digest, self.max_retry)
    }

    /// Clips results after the cut until the request fits. Those that the model has seen are clipped towards the
    /// target, the newest only as far as the window demands. Gives up if more than `most` tokens remain.
    fn clip(&self, mut view: ForwardedView, step: RecoveryStep, most: Tokens) -> RecoveryDecision {
        let messages = self.conversation.messages().len();
        let newest = self.conversation.newest_unit(messages);
        let body = &self.policy.body;
        let seen = view.summarised_until()..newest;
        let is_clipped = self.clip_range(&mut view, seen, self.target, body.goal)
            | (!self.has_room(&view, self.max_input) && {
                let room = if self.policy.is_window_stated { self.max_input } else { self.target };
                self.clip_range(&mut view, newest..messages, room, body.bytes)
            });
        if !self.has_room(&view, most) {
            RecoveryDecision::GiveUp
        } else if is_clipped {
            RecoveryDecision::Retry(view, RecoveryStep::Clipped)
        } else {
            RecoveryDecision::Retry(view, step)
        }
    }

    fn has_room(&self, view: &ForwardedView, tokens: Tokens) -> bool {
        let is_short = self.excess(view, self.policy.body.bytes) == Some(0);
        is_short && self.tokens(view) <= tokens
    }

    /// Clips the results in `range` to one size, the largest with which the view fits `room` and `bytes`. Returns
    /// whether any is clipped.
    fn clip_range(
        &self,
        view: &mut ForwardedView,
        range: Range<usize>,
        room: Tokens,
        bytes: usize,
    ) -> bool {
        let over = self.excess(view, bytes).unwrap_or_default().div_ceil(4);
        let over = Tokens::new(u32::try_from(over).unwrap_or(u32::MAX));
        let excess = over.max(self.tokens(view) - room);
        if excess == Tokens::ZERO {
            return false;
        }
        let clips = view.clips_by_message();
        let results = range.filter_map(|at| {
            let message = self.conversation.message(at)?;
            let is_shown = message.is_replaceable_result() && !view.is_cleared(at);
            let clip = clips.get(&at).map(|clip| clip.head + clip.tail);
            is_shown.then(|| (clip.unwrap_or(message.text_tokens), at, message.text_tokens))
        });
        let mut results: Vec<(Tokens, usize, Tokens)> = results.collect();
        results.sort_by(|one, other| other.cmp(one));
        let end = Clip::end_that_frees(excess, results.iter().map(|(shown, ..)| *shown));
        let end = to_two_digits(end);
        let is_longer = |(shown, ..): &&(Tokens, usize, Tokens)| *shown > end + end;
        let longer = results.iter().take_while(is_longer);
        let clips = longer.filter_map(|&(_, at, text)| Clip::new(at, text, end));
        let clips: Vec<Clip> = clips.collect();
        let is_clipped = !clips.is_empty();
        view.add_clips(clips);
        is_clipped
    }

    /// Returns the bytes by which a view exceeds `bytes`. `None` if the view cannot be spliced.
    fn excess(&self, view: &ForwardedView, bytes: usize) -> Option<usize> {
        body_excess(self.conversation, view, bytes, &self.policy.body)
    }

    fn suffices(&self, view: &ForwardedView) -> bool {
        self.meets_target(self.tokens(view)) && self.excess(view, self.policy.body.goal) == Some(0)
    }

    /// Returns the size of a view without the thinking that it makes stale.
    fn tokens(&self, view: &ForwardedView) -> Tokens {
        if !self.conversation.has_bound_thinking() {
            return view.tokens(self.conversation);
        }
        let plan = RequestPlan::from_view(view.clone());
        let plan = plan.without_stale_thinking(self.conversation, &self.prior.thinking);
        plan.view.tokens(self.conversation)
    }

    fn meets_target(&self, tokens: Tokens) -> bool {
        tokens <= self.target && tokens <= self.max_with_progress
    }

    /// Returns the size of everything except the replacement text for the history before `cut`.
    fn tokens_without_summary(&self, cut: usize) -> Tokens {
        self.tokens(&self.with_summary(cut, SegmentedText::from("")))
    }

    fn with_summary(&self, cut: usize, text: SegmentedText) -> ForwardedView {
        let mut view = self.cleared.clone();
        view.set_replacement(cut, text);
        view.set_thrash(ThrashState::restarted_at(self.conversation.messages().len()));
        view
    }

    /// Returns the budgets of a digest of the history before `cut`. User requests get only space beyond a digest
    /// without them, so they never make it too large.
    fn with_fitting_requests(&self, cut: usize, budgets: SummaryBudgets) -> SummaryBudgets {
        let without = SummaryBudgets { requests: Tokens::ZERO, ..budgets };
        let fixed = self.tokens_without_summary(cut)
            + Tokens::estimate_text(&wording::wrap_summary(""))
            + without.nominal();
        let left = self.target.min(self.max_with_progress) - fixed;
        SummaryBudgets { requests: budgets.requests.min(left), ..budgets }
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
                said_until: self.conversation.messages().len(),
                words: &self.policy.settings.words,
            };
            segments::with_segment(self.conversation, &place, None, budgets)
        };
        let appended = earlier.map(|earlier| text(Some(earlier)));
        let fits = |text: &SegmentedText| {
            Tokens::estimate_text(wording::unwrap_summary(text)) <= budgets.nominal()
        };
        appended.filter(fits).unwrap_or_else(|| text(None))
    }

    /// Returns the messages after `cut` that are retained as long as the digest: not cleared, and
    /// not clipped in a later step.
    fn retained(&self, cut: usize) -> Range<usize> {
        let newest = self.conversation.newest_unit(self.conversation.messages().len());
        if self.policy.prunes_between_cuts() {
            return newest..newest;
        }
        let cleared = (cut..newest).rev().find(|&at| self.cleared.is_cleared(at));
        cleared.map_or(cut, |at| at + 1)..newest
    }
}

/// Returns how many tokens of the newest results stay: as many as the rule protects, at last the policy's share.
/// If the body is too long, ever smaller halves lead there.
fn protected(policy: &Policy, has_long_body: bool) -> Vec<Tokens> {
    let Some([most, least]) = policy.recovery_protect else {
        return Vec::new();
    };
    let halves = std::iter::successors(Some(most), |it| Some(it.divided_by(2)));
    let halves = halves.skip(1).take_while(|it| has_long_body && *it > least);
    std::iter::once(most).chain(halves).chain([least]).collect()
}

#[cfg(test)]
mod tests;
