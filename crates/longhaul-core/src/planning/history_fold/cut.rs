//! Cuts of the fold: a digest takes the place of the history before the cut.

use crate::planning::history_fold::HistoryFold;
use crate::planning::history_fold::sizes::AssumedSummary;
use crate::policy::cut_point;
use crate::policy::cut_point::RetainedSteps;
use crate::policy::thrash::ThrashState;
use crate::policy::{PruneTrigger, SummaryBudgets};
use crate::pruning::rule::Clearing;
use crate::summary::segments;
use crate::summary::segments::SegmentPlace;
use crate::units::tokens::Tokens;

/// Cut at a request point, with the text to expect in place of the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduledCut {
    /// First message after the cut.
    until: usize,
    /// Thrash state after the cut.
    thrash: ThrashState,
    budgets: SummaryBudgets,
    summary: AssumedSummary,
}

impl HistoryFold<'_, '_> {
    /// Whether a digest extends the record at `point`, whatever the size.
    pub(super) fn extends_at(&self, point: usize) -> bool {
        self.extended_at == Some(point)
    }

    /// Returns the results that a cut at `point` leaves cleared.
    fn clearing_at_cut(&self, point: usize) -> Clearing {
        let is_at_mark = self.extends_at(point) || self.is_at_prune_mark(point);
        let clears = self.rule_would_fire(PruneTrigger::HardThreshold)
            || self.policy.weighs_clearing && self.rule_would_fire(PruneTrigger::Always);
        if is_at_mark && clears { Clearing::UpToLimit } else { Clearing::Past }
    }

    /// Returns the room for steps after a cut: what the replacement text leaves of the size to aim at.
    ///
    /// The next break clears the newest results, so large ones take room of the steps only beyond the size that
    /// clearing alone may leave.
    pub(super) fn steps_room(&self, point: usize) -> Tokens {
        let (conversation, policy) = (self.conversation, self.policy);
        let fixed = self.fixed_tokens + self.pinned_tokens();
        let expected = policy.budgets_excluding(fixed).nominal().divided_by(3);
        let text = self.summary.map(|it| it.nominal).unwrap_or_default();
        let room = policy.thresholds.hard - fixed;
        let usual = self.break_target(point, policy.cut_target).of(room);
        let most = self.break_target(point, policy.clear_target).of(room);
        let protect = policy.prune.as_ref().map(|(_, rule)| rule.protect);
        let newest = conversation.tokens_of(conversation.newest_unit(point)..point);
        let passing = newest - protect.unwrap_or(newest);
        (usual + passing).min(most).max(usual) - text.max(expected)
    }

    /// Returns the cut at `point`, or `None` if it is not worthwhile.
    ///
    /// A cut has to save 15%: otherwise the threshold would be reached again at the next turn, with a broken
    /// prompt cache each time. The digest before may have been smaller than its nominal size, so that
    /// less is saved than the fold computes. The record of an extended cut breaks the prefix anyway, so
    /// that cut only has to save tokens.
    pub(super) fn scheduled_cut(&mut self, point: usize) -> Option<ScheduledCut> {
        let size = self.size(point);
        let thrash = if self.extends_at(point) {
            // The compaction that the record was prepared for.
            self.thrash.map_position(|_| point)
        } else {
            self.thrash.after_requests(self.requests_since_cut, point)
        };
        let (conversation, policy, pinned) = (self.conversation, self.policy, self.pinned_head);
        let clearing = self.clearing_at_cut(point);
        let steps =
            RetainedSteps { results: &self.prune_state, clearing, room: self.steps_room(point) };
        let until = cut_point::find_adaptive(conversation, policy, steps, thrash, pinned, point)
            .filter(|&cut| cut > self.summarised_until)?;
        let (budgets, summary) = self.assume_summary(until);
        let fixed = self.fixed_tokens + self.pinned_tokens();
        let text = self.largest_text(until, &budgets);
        let cleared = self.prune_state.frees_in(clearing, until..point);
        let likely = text - (budgets.nominal() - budgets.usual());
        let after = fixed + likely + conversation.tokens_of(until..point) - cleared;
        let is_shorter = text < conversation.tokens_of(pinned.end..until)
            && Some(text.to_chars()) < self.replaced_bytes(until);
        let saves_enough =
            if self.extends_at(point) { after < size } else { after <= size.percent(85) };
        (is_shorter && saves_enough).then_some(ScheduledCut { until, thrash, budgets, summary })
    }

    /// Counts the bytes of the history before `until`. A splice refuses a longer text, and an image by
    /// reference has fewer bytes than its tokens would take.
    fn replaced_bytes(&self, until: usize) -> Option<usize> {
        let first = self.conversation.message(self.pinned_head.end)?;
        let last = self.conversation.message(until.checked_sub(1)?)?;
        last.span.end().checked_sub(first.span.start())
    }

    /// Cuts the history, and clears results in the same cache break.
    pub(super) fn cut(&mut self, cut: ScheduledCut, point: usize) {
        let ScheduledCut { until, thrash, budgets, summary } = cut;
        if self.clearing_at_cut(point) == Clearing::UpToLimit {
            self.prune_state.clear_all_clearable();
        }
        let place = SegmentPlace {
            earlier: self.text.as_ref().map(|text| (text, self.summarised_until)),
            covered: self.pinned_head.end..until,
            retained: if thrash.is_thrashing() {
                point..point
            } else {
                self.surely_retained(until, point)
            },
            said_until: point,
            words: &self.policy.settings.words,
        };
        let text = segments::with_segment(self.conversation, &place, None, &budgets);
        self.text = Some(text);
        self.set_replacement(until, summary);
        self.cut_here = true;
        self.thrash = thrash;
        self.requests_since_cut = 0;
        if thrash.is_thrashing() {
            self.clip_after_thrash(point);
        }
    }
}
