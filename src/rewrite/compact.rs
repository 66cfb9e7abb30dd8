//! The ladder: what to do with a request that the model refused as too long.
//!
//! Rungs are cumulative, and the first that fits the target is taken: clearing without the rule's
//! guards, a record or summary or digest in place of history, the newest batch's largest results
//! clipped, giving up. No rung asks a model itself; where one is wanted, the ladder says so and is
//! climbed again with the answer.

use super::conversation::Conversation;
use super::cut_point::{self, PinnedHead};
use super::digest::{self, summary_budgets};
use super::pace::ThrashDetector;
use super::plan::SummarySource;
use super::policy::{Policy, SummaryBudgets};
use super::prune::PruneState;
use super::record::{Clip, PriorRecords, RecordMatch};
use super::replay::{HardMarkMode, replay};
use super::splice::Splice;
use super::tokens::Tokens;
use super::view::ForwardedView;
use super::wording;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// How far up the ladder an attempt stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecoveryStep {
    /// Old results cleared.
    Cleared,
    /// Results of the newest batch clipped.
    Clipped,
    /// A digest in place of history.
    Digest,
    /// A summary, or a record that was ready, in place of history.
    Summary,
}

/// What the ladder came to.
#[derive(Debug)]
pub enum RecoveryDecision {
    /// A summary of all before this message is wanted first.
    Summarise(usize),
    /// Nothing would fit.
    GiveUp,
    /// Send this.
    Retry(ForwardedView, RecoveryStep),
}

/// Climbs the ladder for a request that was refused as it stood in `refused`. With
/// [`Summaries::Digest`] it never asks: a summary that has come is found as a record that is ready.
pub fn plan_recovery(
    conversation: &Conversation<'_>,
    policy: &Policy,
    known: &PriorRecords,
    refused: &ForwardedView,
    summaries: SummarySource,
) -> RecoveryDecision {
    if !policy.recover {
        return RecoveryDecision::GiveUp;
    }
    let ladder = RecoveryPlanner::new(conversation, policy, known, refused);
    ladder.decide(summaries)
}

struct RecoveryPlanner<'l, 'a> {
    conversation: &'l Conversation<'a>,
    policy: &'l Policy,
    ready: Option<&'l RecordMatch>,
    pinned_head: PinnedHead,
    /// Cleared as far as the rule goes.
    cleared_by_rule: ForwardedView,
    cleared: ForwardedView,
    target: Tokens,
    max_input: Tokens,
    /// At least a tenth has to go: what gains less would be back at the next turn.
    max_with_progress: Tokens,
}

impl<'l, 'a> RecoveryPlanner<'l, 'a> {
    fn new(
        conversation: &'l Conversation<'a>,
        policy: &'l Policy,
        known: &'l PriorRecords,
        refused: &ForwardedView,
    ) -> Self {
        let output = conversation.output_tokens();
        let base = known.adopted.as_ref();
        let kept = PinnedHead::new(conversation, policy, base);
        let standing = replay(conversation, policy, kept, base, HardMarkMode::Report);
        let (mut fold, clips) = (standing.prune_state, standing.clips);
        let mut clear = |protect| {
            if let Some(protect) = protect {
                clear_unguarded(&mut fold, protect);
            }
            let mut cleared = ForwardedView::new(kept, &fold).with_placement(policy.placement);
            if let Some(base) = base {
                cleared = cleared.with_record(&base.record);
            }
            cleared.add_clips(clips.clone());
            cleared
        };
        let [by_rule, cleared] = policy
            .recovery_protect
            .map_or([None; 2], |protects| protects.map(Some))
            .map(&mut clear);
        Self {
            conversation,
            policy,
            ready: known.ready.as_ref(),
            pinned_head: kept,
            cleared_by_rule: by_rule,
            cleared,
            target: policy.thresholds.recovery_target(output),
            max_input: policy.thresholds.max_input(output),
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
        let cut = cut_point::find(self.conversation, self.policy, self.pinned_head, messages);
        let deepest = cut_point::deepest(self.conversation, self.pinned_head, messages);
        let cuts = [cut, deepest.filter(|_| cut != deepest)];
        let mut last = (self.cleared.clone(), RecoveryStep::Cleared);
        for cut in cuts
            .into_iter()
            .flatten()
            .filter(|&cut| cut > self.cleared.summarised_until())
        {
            if summaries == SummarySource::Model && self.could_suffice(cut) {
                return RecoveryDecision::Summarise(cut);
            }
            let view = self.with_summary(cut, self.digest(cut));
            // What stands for a short history can be longer than it.
            if !self.can_splice(&view) {
                continue;
            }
            last = (view, RecoveryStep::Digest);
            if self.suffices(&last.0) {
                return RecoveryDecision::Retry(last.0, last.1);
            }
        }
        let (view, rung) = last;
        // Results that can be clipped give way to what was asked.
        let cut = view.summarised_until();
        let budgets = self.budgets(cut);
        if rung == RecoveryStep::Digest && budgets.requests > Tokens::ZERO {
            let whole = self.clip(self.with_summary(cut, self.digest_text(cut, &budgets)));
            if let RecoveryDecision::Retry(view, _) = &whole
                && self.meets_target(view.tokens(self.conversation))
            {
                return whole;
            }
        }
        self.clip(view)
    }

    /// The largest results behind the cut clipped, smaller and smaller, until it fits.
    fn clip(&self, mut view: ForwardedView) -> RecoveryDecision {
        let messages = self.conversation.messages();
        let mut results: Vec<(Tokens, usize)> = (view.summarised_until()..messages.len())
            .filter_map(|at| Some((messages.get(at)?, at)))
            .filter(|&(message, at)| message.role.is_tool_result() && !view.is_cleared(at))
            .map(|(message, at)| (message.text_tokens, at))
            .collect();
        results.sort_by(|one, other| other.cmp(one));
        // Many results may have to be clipped for a request to fit, so its size is kept with them.
        let mut tokens = view.tokens(self.conversation);
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
        self.meets_target(view.tokens(self.conversation)) && self.can_splice(view)
    }

    fn meets_target(&self, tokens: Tokens) -> bool {
        tokens <= self.target && tokens <= self.max_with_progress
    }

    /// Whether its bytes could be sent: a rung that they cannot be made of is none.
    fn can_splice(&self, view: &ForwardedView) -> bool {
        view.replacements(self.conversation)
            .is_some_and(|plan| Splice::new(self.conversation, &plan).is_some())
    }

    /// Whether a summary could bring it down to the target: nobody is asked to write what cannot
    /// be used.
    fn could_suffice(&self, cut: usize) -> bool {
        self.tokens_without_summary(cut) + self.budgets(cut).nominal() <= self.target
    }

    /// What stands beside the text that stands for the history before `cut`.
    fn tokens_without_summary(&self, cut: usize) -> Tokens {
        let mut view = self.cleared.clone();
        view.set_summary(cut, Arc::from(""));
        view.tokens(self.conversation)
    }

    fn with_summary(&self, cut: usize, text: Arc<str>) -> ForwardedView {
        let mut view = self.cleared.clone();
        view.set_summary(cut, text);
        view.set_thrash(ThrashDetector::restarted_at(
            self.conversation.messages().len(),
        ));
        view
    }

    /// A digest of the history before `cut` that is enough wherever one without the requests is.
    fn digest(&self, cut: usize) -> Arc<str> {
        let mut budgets = self.budgets(cut);
        let without = SummaryBudgets {
            requests: Tokens::ZERO,
            ..budgets
        };
        let taken = self.tokens_without_summary(cut)
            + Tokens::estimate_text(&wording::wrap_summary(""))
            + without.nominal();
        let left = self.target.min(self.max_with_progress) - taken;
        budgets.requests = budgets.requests.min(left);
        self.digest_text(cut, &budgets)
    }

    fn digest_text(&self, cut: usize, budgets: &SummaryBudgets) -> Arc<str> {
        let history = self.pinned_head.end..cut;
        digest::wrapped_digest(self.conversation, history, self.retained(cut), budgets)
    }

    fn budgets(&self, cut: usize) -> SummaryBudgets {
        summary_budgets(self.conversation, self.policy, self.pinned_head.end..cut)
    }

    /// What stands behind a cut, and will stand as long as it does: what is neither cleared nor may be
    /// clipped on a higher rung.
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

/// Clears all that the rule without its guards would.
fn clear_unguarded(fold: &mut PruneState, protect: Tokens) {
    fold.extend_clearable(protect);
    fold.clear_all_clearable();
}

#[cfg(test)]
mod tests;
