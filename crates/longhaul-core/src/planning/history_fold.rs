//! Fold of the history: derives a conversation's current state from its history alone.
//!
//! The points at which the history once was a request are visited in order. At each, the fold
//! applies the clearing rule and compares the size with the thresholds. So a conversation has the
//! same state on any replica and after a restart.
//!
//! - Sizes are plain estimates. A cut is decided with the largest size of its text, and counts with
//!   the text's own size afterwards.
//! - Content outside the history (system head, tools) counts rounded up to an eighth of a power of
//!   two. Small changes there have no effect.
//!
//! There are two sets of thresholds:
//!
//! - The clearing rule's own thresholds decide when the rule clears by itself. They are those of the
//!   policy window.
//! - The others decide when history gives way to a record. They may belong to a window reported by
//!   the upstream, which each replica queries at a different time.
//!
//! So clearing without a record is the same everywhere. The place of a cut may differ between
//! replicas that have different records.

mod cut;
mod payback;
mod sizes;

use crate::conversation::Conversation;
use crate::planning::agent_compaction::plannable_until;
use crate::policy::cut_point::PinnedHead;
use crate::policy::record::{Clip, RecordMatch};
use crate::policy::segments::SegmentedText;
use crate::policy::thrash;
use crate::policy::thrash::ThrashState;
use crate::policy::{BreakTarget, Policy, PruneTrigger};
use crate::pruning::rule::PruneState;
use crate::pruning::tool_result::ClearDecision;
use crate::summary::user_messages::UserRequestSizes;
use crate::text::wording::MAX_CLIP_NOTE;
use crate::units::tokens::Tokens;
use sizes::{AssumedSummary, image_savings, thinking_savings};
use std::ops::Range;

/// Behaviour at the hard threshold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HardThresholdMode {
    /// Cut the history there: a digest takes its place, on every replica alike.
    Cut,
    /// Like [`Cut`](Self::Cut). At the newest request, cut below the threshold too: a digest then extends the
    /// record, which was prepared for this break.
    Extend,
    /// Continue and report it: a summary has to be made first.
    Report,
}

/// State of a conversation at its end.
#[derive(Debug)]
pub struct FoldOutcome {
    /// Tool results.
    pub prune_state: PruneState,
    /// A replacement text covers the messages before this index. Without one, the end of the pinned
    /// head.
    pub summarised_until: usize,
    /// Whether this fold made the cut at `summarised_until`, not the record that it started from.
    pub cut_here: bool,
    /// Text of the cuts of this fold, after the record's segments. `None` without a cut.
    pub text: Option<SegmentedText>,
    /// Results clipped at their arrival, or because the conversation filled up again too soon.
    pub clips: Vec<Clip>,
    /// Tracks how fast the conversation fills.
    pub thrash: ThrashState,
    /// Whether the hard threshold was reached and nothing was done.
    pub summary_due: bool,
    /// Size as the fold measures it.
    pub size: Tokens,
    /// Tokens of `size` that the first and the newest user request take in a replacement text.
    pub request_tokens: Tokens,
    /// Room for the steps so far after a cut at the hard threshold.
    pub(crate) steps_room: Tokens,
    /// Whether clearing at the threshold would be enough, so that no summary is needed.
    pub pruning_suffices: bool,
    /// Whether compacting at the threshold helps, and is either required or worthwhile.
    pub can_compact: bool,
    /// Whether only a lack of user messages keeps the rule from clearing results.
    pub blocked_by_turns: bool,
}

/// Folds a conversation, starting from record `base` if there is one. The bound thinking of the messages in
/// `removed` counts for the clearing rule alone: clearing needs no memory.
pub fn fold(
    conversation: &Conversation<'_>,
    policy: &Policy,
    pinned_head: PinnedHead,
    base: Option<&RecordMatch>,
    hard_threshold_mode: HardThresholdMode,
    removed: &[Range<usize>],
) -> FoldOutcome {
    let mut state = HistoryFold::new(conversation, policy, pinned_head, base, hard_threshold_mode);
    state.thinking_savings = thinking_savings(conversation, removed);
    // If nothing was ever done, the last point gives the same result as all of them.
    let passed = if base.is_none() && state.is_idle() {
        let points = conversation.request_points();
        let (requests, last) = points.fold((0, 0_usize), |(count, _), at| (count + 1, at));
        state.requests = usize::saturating_sub(requests, 1);
        last.saturating_sub(1)
    } else {
        0
    };
    let mut summary_due = false;
    for point in conversation.request_points_after(passed) {
        summary_due = state.step(point);
    }
    state.finish(summary_due)
}

/// State of the fold between two request points.
struct HistoryFold<'r, 'a> {
    conversation: &'r Conversation<'a>,
    policy: &'r Policy,
    pinned_head: PinnedHead,
    hard_threshold_mode: HardThresholdMode,
    /// Message up to which something new may start. For an agent's own compaction, that is its last
    /// reply: no earlier request contained the results after it.
    plannable_until: usize,
    /// Newest request point, if a digest extends the record there.
    extended_at: Option<usize>,
    /// Whether compacting at the threshold can help at all.
    can_compact: bool,
    /// Whether a cut is tried before the rule clears at the threshold: a cut frees more in the same cache
    /// break, and keeps an index. If the rule's own threshold comes first, the rule clears there.
    cuts_first: bool,
    /// User messages so far.
    user_turns: u32,
    turns_counted_until: usize,
    /// Requests of the conversation so far.
    requests: usize,
    prune_state: PruneState,
    summarised_until: usize,
    cut_here: bool,
    /// Replacement text so far.
    text: Option<SegmentedText>,
    /// Size of that text.
    summary: Option<AssumedSummary>,
    /// Sizes of the first and the newest user request.
    request_sizes: UserRequestSizes,
    fixed_tokens: Tokens,
    /// The record determines everything up to this message.
    settled_until: usize,
    /// Message before which the record cleared results, until this has been applied.
    record_cleared: Option<usize>,
    /// Clipped messages, each with the tokens that its clip saves.
    clip_savings: Vec<(usize, Tokens)>,
    /// Messages whose images the record dropped, each with the tokens that this saves.
    image_savings: Vec<(usize, Tokens)>,
    thinking_savings: Vec<Tokens>,
    /// Clips made by this fold.
    clips: Vec<Clip>,
    thrash: ThrashState,
    /// Requests since the last compaction that `thrash` counts.
    requests_since_cut: usize,
    /// Whether the record was made while thrashing and its extra measures are still to be applied.
    /// They are applied at the request point of the original run.
    clip_pending: bool,
}

impl<'r, 'a> HistoryFold<'r, 'a> {
    fn new(
        conversation: &'r Conversation<'a>,
        policy: &'r Policy,
        pinned_head: PinnedHead,
        base: Option<&RecordMatch>,
        hard_threshold_mode: HardThresholdMode,
    ) -> Self {
        let prune_state =
            PruneState::new(conversation, policy.prune.as_ref().map(|(_, rule)| rule));
        let plannable_until = plannable_until(conversation);
        // A digest would be summarised in the history's place.
        let is_planned_whole = plannable_until == conversation.messages().len();
        let hard_threshold_mode =
            if is_planned_whole { hard_threshold_mode } else { HardThresholdMode::Report };
        let mut state = Self {
            conversation,
            policy,
            pinned_head,
            hard_threshold_mode,
            plannable_until,
            extended_at: (hard_threshold_mode == HardThresholdMode::Extend)
                .then(|| conversation.request_points().last())
                .flatten(),
            can_compact: false,
            cuts_first: false,
            user_turns: 0,
            turns_counted_until: 0,
            requests: 0,
            prune_state,
            summarised_until: pinned_head.end,
            cut_here: false,
            text: base.and_then(|base| base.record.segmented_text()),
            summary: None,
            request_sizes: UserRequestSizes::default(),
            fixed_tokens: conversation.fixed_tokens_before(conversation.head_len()),
            settled_until: base.map_or(0, |base| base.prefix_end),
            record_cleared: base.map(|base| base.record.cleared_before),
            clip_savings: base.map_or_else(Vec::new, |base| {
                let clips = base.record.clips.iter();
                let saves = |it: &Clip| (it.message, it.saved_tokens(conversation));
                clips.map(saves).collect()
            }),
            image_savings: base
                .map_or_else(Vec::new, |base| image_savings(&base.record, conversation)),
            thinking_savings: Vec::new(),
            clips: Vec::new(),
            thrash: base.map(|base| base.record.thrash).unwrap_or_default(),
            requests_since_cut: 0,
            clip_pending: base.is_some_and(|base| base.record.thrash.is_thrashing()),
        };
        state.clip_at_arrival();
        if let Some(base) = base.filter(|base| base.record.text.is_some()) {
            let upto = base.record.compacted_message_count;
            let (_, mut summary) = state.assume_summary(upto);
            let item = base.record.provider_item().map(|(provider, _)| provider.tokens);
            summary.requests = item.map_or(summary.requests, |_| Tokens::ZERO);
            state.set_replacement(upto, summary);
            if let (Some(item), Some(summary)) = (item, &mut state.summary) {
                summary.nominal = item;
            }
        }
        // Content that can never be removed has to leave room for a replacement text below the threshold.
        // Otherwise no compaction helps, and the upstream decides about the request.
        let fixed = state.fixed_tokens + state.pinned_tokens();
        let least_room = policy.budgets.usual().min(policy.thresholds.capacity.divided_by(5));
        state.can_compact = fixed + least_room < policy.thresholds.hard;
        state.cuts_first = policy.settings.proactive
            && state.can_compact
            && policy.prune_thresholds.hard >= policy.thresholds.hard;
        state
    }

    /// Whether there is nothing to do at any point: all results are among the newest, and the whole
    /// conversation is below both hard thresholds.
    fn is_idle(&self) -> bool {
        let policy = self.policy;
        let rule = policy.prune.as_ref().map(|(_, rule)| rule);
        let lowest = policy.thresholds.hard.min(policy.prune_thresholds.hard);
        rule.is_none_or(|rule| self.prune_state.total_tokens() <= rule.protect)
            && self.size(self.conversation.messages().len()) < lowest
    }

    /// Advances over the request that ended at `point`. Returns whether the hard threshold was reached and
    /// neither clearing nor cutting helped, or a cut helps and is only reported.
    fn step(&mut self, point: usize) -> bool {
        self.count_user_turns(point);
        self.requests += 1;
        self.ingest_until(point);
        if point > self.plannable_until {
            return false;
        }
        if self.rule_would_fire(PruneTrigger::Always) && self.clearing_is_worthwhile(point) {
            self.prune_state.clear_all_clearable();
        }
        if !self.cuts_first {
            self.clear_at_hard_threshold(point);
        }
        let may_compact =
            self.policy.settings.proactive && self.can_compact && point > self.settled_until;
        let is_at_mark = may_compact && {
            let size = self.size(point);
            self.extends_at(point)
                || size >= self.policy.thresholds.hard && self.cutting_is_worthwhile(size)
        };
        if !is_at_mark {
            return false;
        }
        let clears = self.cuts_first && self.is_at_prune_mark(point) && !self.extends_at(point);
        if clears && self.clearing_makes_room(point) {
            self.prune_state.clear_all_clearable();
            return false;
        }
        match self.scheduled_cut(point) {
            Some(_) if self.hard_threshold_mode == HardThresholdMode::Report => true,
            Some(cut) => {
                self.cut(cut, point);
                false
            }
            None if self.extends_at(point) => false,
            None if self.cuts_first => {
                !self.clear_at_hard_threshold(point) && !self.clear_by_rule()
            }
            None => true,
        }
    }

    /// Counts the user messages up to `point`.
    fn count_user_turns(&mut self, point: usize) {
        let messages = self.conversation.messages();
        let new = messages.get(self.turns_counted_until..point);
        let new = new.unwrap_or_default().iter();
        let users = new.filter(|message| message.role.is_user()).count();
        let users = u32::try_from(users).unwrap_or(u32::MAX);
        self.user_turns = self.user_turns.saturating_add(users);
        self.turns_counted_until = point;
    }

    /// Returns the final state; `summary_due` is the outcome of the last point.
    fn finish(mut self, summary_due: bool) -> FoldOutcome {
        let (policy, messages) = (self.policy, self.conversation.messages().len());
        self.count_user_turns(messages);
        let size = self.size(messages);
        // A rule whose own threshold is above the threshold for cutting history comes too late.
        let pruning_suffices = if self.cuts_first {
            self.clearing_will_make_room(size)
        } else {
            policy.prune_thresholds.hard <= policy.thresholds.hard
                && self.pruning_suffices(messages)
        };
        let worthwhile = self.cutting_is_worthwhile(size);
        let user_turns = self.user_turns;
        let waits_for_turns = policy.prune.as_ref().is_some_and(|(when, rule)| {
            let few = user_turns < rule.user_turns;
            few && *when == PruneTrigger::Always
                && self.prune_state.would_fire(rule, rule.user_turns)
        });
        if let Some((_, rule)) = &policy.prune {
            self.prune_state.assign_retention_reasons(rule, user_turns);
        }
        // The messages until the hard threshold need room too.
        let steps_room = self.steps_room(messages) - (policy.thresholds.hard - size);
        FoldOutcome {
            steps_room,
            prune_state: self.prune_state,
            summarised_until: self.summarised_until,
            cut_here: self.cut_here,
            text: self.text.filter(|_| self.cut_here),
            clips: self.clips,
            thrash: self.thrash,
            summary_due,
            size,
            request_tokens: self.summary.map(|it| it.requests).unwrap_or_default(),
            pruning_suffices,
            can_compact: self.can_compact && messages <= self.plannable_until && worthwhile,
            blocked_by_turns: waits_for_turns,
        }
    }

    /// Adds the results up to `point`, applies the record's clearing, and extends the rule's limit.
    fn ingest_until(&mut self, point: usize) {
        self.requests_since_cut += usize::from(point > self.thrash.compacted_len());
        self.prune_state.ingest_until(point);
        if point >= self.settled_until
            && let Some(before) = self.record_cleared.take()
        {
            self.prune_state.clear_before(before);
        }
        if let Some((_, rule)) = &self.policy.prune {
            self.prune_state.extend_clearable(rule.protect);
        }
        if self.clip_pending && point >= self.thrash.compacted_len().max(self.settled_until) {
            self.clip_pending = false;
            self.clip_after_thrash(point);
        }
    }

    /// Clips the results above the size of the policy, unless the record has clipped them to another size.
    fn clip_at_arrival(&mut self) {
        let Some(most) = self.policy.settings.clip_above else {
            return;
        };
        let end = (most - MAX_CLIP_NOTE).divided_by(2);
        let results = self.prune_state.results().iter();
        let large =
            results.filter(|it| it.decision == ClearDecision::Protected && it.tokens > most);
        for clip in large.filter_map(|it| Clip::new(it.message, it.tokens, end)) {
            if self.clip_savings.iter().all(|(at, _)| *at != clip.message) {
                let saves = clip.saved_tokens(self.conversation);
                self.clip_savings.push((clip.message, saves));
                self.clips.push(clip);
            }
        }
    }

    /// Clears all old results and clips the largest of the remaining ones.
    fn clip_after_thrash(&mut self, point: usize) {
        self.prune_state.extend_clearable(Tokens::ZERO);
        self.prune_state.clear_all_clearable();
        let is_shown = |at| !self.prune_state.is_cleared(at);
        let (conversation, policy) = (self.conversation, self.policy);
        let until = self.summarised_until;
        let clip = thrash::clip_largest_result(conversation, policy, until, point, is_shown);
        // A result that the record has clipped already is as short as it gets.
        let new = clip.filter(|clip| self.clip_savings.iter().all(|(at, _)| *at != clip.message));
        if let Some(clip) = new {
            let saves = clip.saved_tokens(conversation);
            self.clip_savings.push((clip.message, saves));
            self.clips.push(clip);
        }
    }

    /// Clears results at the rule's own hard threshold if that frees enough. Returns whether it did.
    fn clear_at_hard_threshold(&mut self, point: usize) -> bool {
        if !self.is_at_prune_mark(point) {
            return false;
        }
        let clears = self.pruning_suffices(point) || {
            // Without a record in the same cache break, clearing alone must justify the break.
            let tenth = self.prune_size(point).percent(10);
            let fires = self.rule_would_fire(PruneTrigger::HardThreshold);
            !self.policy.settings.proactive && fires && self.clearable_tokens() >= tenth
        };
        if clears {
            self.prune_state.clear_all_clearable();
        }
        clears
    }

    /// Whether the rule is applied at `trigger` and has something to clear.
    fn rule_would_fire(&self, trigger: PruneTrigger) -> bool {
        let rule = self.policy.prune.as_ref().filter(|(when, _)| *when == trigger);
        rule.is_some_and(|(_, rule)| self.prune_state.would_fire(rule, self.user_turns))
    }

    /// Whether clearing at the rule's threshold reduces the size enough without a cut.
    fn pruning_suffices(&self, point: usize) -> bool {
        self.rule_would_fire(PruneTrigger::HardThreshold)
            && self.prune_size(point) - self.clearable_tokens()
                <= self.policy.prune_thresholds.prune_target
    }

    /// Whether clearing alone makes as much room at the hard threshold as a break of the prefix is worth.
    /// The steps stay messages, and the text before them keeps its bytes.
    fn clearing_makes_room(&self, point: usize) -> bool {
        let fires = self.rule_would_fire(PruneTrigger::HardThreshold)
            || self.rule_would_fire(PruneTrigger::Always);
        fires && self.size(point) - self.prune_state.clearable_tokens() <= self.clear_target(point)
    }

    /// Whether clearing alone is expected to make that room once the conversation of `size` has grown to
    /// the hard threshold. New messages are taken to hold as large a share of results as those so far.
    fn clearing_will_make_room(&self, size: Tokens) -> bool {
        self.policy.prune.as_ref().is_some_and(|(_, rule)| {
            let hard = self.policy.prune_thresholds.hard;
            let results = self.prune_state.clearable_beyond(Tokens::ZERO);
            let new_results = (hard - size).scaled(results, size);
            let cleared = self.prune_state.clearable_beyond(rule.protect - new_results);
            hard.max(size) - cleared <= self.clear_target(self.conversation.messages().len())
        })
    }

    /// Returns the size that clearing alone may leave at `point`. Token counts do not move that size.
    fn clear_target(&self, point: usize) -> Tokens {
        let fixed = self.fixed_tokens + self.pinned_tokens();
        let room = self.policy.prune_thresholds.hard - fixed;
        fixed + self.break_target(point, self.policy.clear_target).of(room)
    }

    /// Returns the target of a break at `point`, which is `usual` without bound reasoning.
    fn break_target(&self, point: usize, usual: BreakTarget) -> BreakTarget {
        let is_bound = self.conversation.bound_reasoning(0..point) > Tokens::ZERO;
        if is_bound { self.policy.bound_target } else { usual }
    }

    fn is_at_prune_mark(&self, point: usize) -> bool {
        point > self.settled_until
            && self.prune_size(point) >= self.policy.prune_thresholds.hard
            && self.fixed_tokens + self.pinned_tokens() + self.policy.prune_summary_size
                < self.policy.prune_thresholds.hard
    }

    /// Takes over the text of a cut at `upto`, with its own size.
    fn set_replacement(&mut self, upto: usize, assumed: AssumedSummary) {
        let tokens = self.text.as_deref().map(Tokens::estimate_text);
        let nominal = tokens.unwrap_or_default();
        self.summarised_until = upto;
        self.summary =
            Some(AssumedSummary { nominal, requests: assumed.requests.min(nominal), ..assumed });
        self.prune_state.mark_summarised(upto);
    }
}

#[cfg(test)]
pub(crate) mod tests;
