//! The replay: how a conversation stands now, worked out from its history alone.
//!
//! At each point at which the history once was a request, the pruning rule is asked and the size is
//! held against the marks, in order. So the same conversation stands the same on any replica and
//! after a restart. Sizes are the plain estimate, and a summary's is its nominal one, or its
//! own where it was made for a larger window. What is outside the history (system head, tools)
//! counts rounded up to an eighth of a power of two: small changes in it move nothing.
//!
//! There are two sets of marks. The rule's own say where it clears by itself, and are those of the
//! policy window. The others say where history gives way to a record, and may be those of a window
//! that the upstream was asked for, as each replica did at a time of its own. So what is cleared
//! without a record is the same everywhere, and where history is cut may differ, as far as the
//! replicas have different records. Below its own mark the rule clears nothing, in the break of a
//! cut neither.

mod saved;

use super::conversation::{Conversation, Role};
use super::cut_point::{self, PinnedHead};
use super::digest::summary_budgets_with_requests;
use super::housekeeping::is_agent_compaction;
use super::pace::{self, ThrashDetector};
use super::policy::{Policy, PruneTrigger};
use super::prune::PruneState;
use super::record::{Clip, RecordMatch};
use super::said::RequestSizes;
use super::tokens::Tokens;
use super::wording::unwrap_summary;
use saved::{clip_savings, image_savings};
use std::ops::Range;

/// What the replay does where the hard mark is reached and pruning is not enough.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HardMarkMode {
    /// Cut the history there, as a digest does on every replica alike.
    Cut,
    /// Go on, and say so: a summary has to be made first.
    Report,
}

/// How a conversation stands at its end.
#[derive(Debug)]
pub struct ReplayOutcome {
    /// Its tool results.
    pub prune_state: PruneState,
    /// Messages before this one are stood for by a summary; the kept front if there is none.
    pub summarised_until: usize,
    /// Whether `covers` was cut by this replay, not by the record it began from.
    pub cut_here: bool,
    /// Of what was behind that cut when it was made, the messages that stand until the next.
    pub retained: Range<usize>,
    /// Results that were clipped because the conversation was full again too soon.
    pub clips: Vec<Clip>,
    /// How fast it fills.
    pub thrash: ThrashDetector,
    /// Whether the hard mark was reached with nothing done about it.
    pub summary_due: bool,
    /// Its size by the replay's measure.
    pub size: Tokens,
    /// What the first request and the newest take of it in a summary.
    pub request_tokens: Tokens,
    /// Whether pruning at the mark would be enough, so that no summary is needed for it.
    pub pruning_suffices: bool,
    /// Whether a break at the mark can help at all.
    pub can_compact: bool,
    /// Whether results would be cleared by now, had there been enough user messages.
    pub blocked_by_turns: bool,
}

/// Replays a conversation from the record it starts from, if there is one.
pub fn replay(
    conversation: &Conversation<'_>,
    policy: &Policy,
    kept: PinnedHead,
    base: Option<&RecordMatch>,
    at_the_mark: HardMarkMode,
) -> ReplayOutcome {
    let mut state = Replay::new(conversation, policy, kept, base, at_the_mark);
    // Where nothing was ever done, the last point tells as much as all of them.
    let passed = if base.is_none() && state.is_idle() {
        conversation
            .request_points()
            .last()
            .map_or(0, |last| last - 1)
    } else {
        0
    };
    let mut done = HardMarkOutcome::NotReached;
    for point in conversation.request_points_after(passed) {
        done = state.step(point);
    }
    state.finish(done)
}

/// What a point comes to at the hard mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum HardMarkOutcome {
    /// Results were cleared.
    Cleared,
    /// The history was cut.
    Cut,
    /// The mark is not reached.
    NotReached,
    /// Neither helps.
    Unresolved,
}

/// What stands for history, by its nominal size.
#[derive(Clone, Copy, Debug)]
struct AssumedSummary {
    /// Beside the marks.
    nominal: Tokens,
    /// What the first request and the newest take of that.
    requests: Tokens,
    /// Beside the rule's own marks.
    for_pruning: Tokens,
}

/// Up to which message something new may be begun for a request.
fn plannable_until(conversation: &Conversation<'_>) -> usize {
    let messages = conversation.messages();
    if is_agent_compaction(conversation) {
        let reply = messages.iter().rposition(|it| it.role == Role::Assistant);
        reply.unwrap_or_default()
    } else {
        messages.len()
    }
}

/// The state between two points.
struct Replay<'r, 'a> {
    conversation: &'r Conversation<'a>,
    policy: &'r Policy,
    pinned_head: PinnedHead,
    hard_mark_mode: HardMarkMode,
    /// Up to where something may be begun: where this is an agent's own compaction, to the last reply.
    /// The results behind that were in no request before it.
    plannable_until: usize,
    /// Whether a break at the mark can help at all.
    can_compact: bool,
    /// Whether a digest stands in at once. Then clearing is not tried first: what it clears is in no
    /// index, and the next break comes the sooner. Where the rule's own mark comes first, it clears there.
    cuts_first: bool,
    turns: UserTurnCounter,
    prune_state: PruneState,
    summarised_until: usize,
    cut_here: bool,
    retained: Range<usize>,
    /// What is taken to stand for history, where it was cut.
    summary: Option<AssumedSummary>,
    /// What the first request and the newest take of it.
    request_sizes: RequestSizes,
    fixed_tokens: Tokens,
    /// Up to here the record has had its say.
    settled_until: usize,
    /// What the record cleared, until it is taken over.
    record_cleared: Option<usize>,
    /// What is clipped, and what each clip saves.
    clip_savings: Vec<(usize, Tokens)>,
    /// The messages whose images the record dropped, and what that saves of each.
    image_savings: Vec<(usize, Tokens)>,
    /// Clips of this replay's own.
    clips: Vec<Clip>,
    thrash: ThrashDetector,
    /// The requests since the compaction that the pace was worked out for.
    requests_since_cut: usize,
    /// Whether a record was made because compacting alone did not help, and what goes with that is
    /// still to be done: as late in the history as it was.
    tighten_pending: bool,
}

impl<'r, 'a> Replay<'r, 'a> {
    fn new(
        conversation: &'r Conversation<'a>,
        policy: &'r Policy,
        kept: PinnedHead,
        base: Option<&RecordMatch>,
        at_the_mark: HardMarkMode,
    ) -> Self {
        let fold = PruneState::new(conversation, policy.prune.as_ref().map(|(_, rule)| rule));
        let mut state = Self {
            conversation,
            policy,
            pinned_head: kept,
            hard_mark_mode: at_the_mark,
            plannable_until: plannable_until(conversation),
            can_compact: false,
            cuts_first: false,
            turns: UserTurnCounter::default(),
            prune_state: fold,
            summarised_until: kept.end,
            cut_here: false,
            retained: kept.end..kept.end,
            summary: None,
            request_sizes: RequestSizes::default(),
            fixed_tokens: conversation.fixed_tokens_before(conversation.head_len()),
            settled_until: base.map_or(0, |base| base.prefix_end),
            record_cleared: base.map(|base| base.record.cleared_before),
            clip_savings: base.map_or_else(Vec::new, |base| {
                clip_savings(&base.record.clips, conversation)
            }),
            image_savings: base
                .map_or_else(Vec::new, |base| image_savings(&base.record, conversation)),
            clips: Vec::new(),
            thrash: base.map(|base| base.record.pace).unwrap_or_default(),
            requests_since_cut: 0,
            tighten_pending: base.is_some_and(|base| base.record.pace.is_thrashing()),
        };
        if let Some(base) = base
            && let Some(text) = &base.record.text
        {
            let upto = base.record.compacted_message_count;
            let summary = state.assume_summary(upto);
            // Made for a larger window, it may take more than this one grants. A digest of this one's
            // never does: with its record and without, the conversation stands the same.
            let nominal = summary
                .nominal
                .max(Tokens::estimate_text(unwrap_summary(text)));
            state.set_summary(upto, AssumedSummary { nominal, ..summary });
        }
        // What can never go has to leave room for a summary below the mark. Where it does not, no break
        // helps, and the upstream says what it makes of the request.
        let stays = state.fixed_tokens + state.pinned_tokens() + policy.budgets.nominal();
        state.can_compact = stays < policy.thresholds.hard;
        state.cuts_first = policy.proactive
            && state.can_compact
            && at_the_mark == HardMarkMode::Cut
            && policy.prune_thresholds.hard >= policy.thresholds.hard;
        state
    }

    /// Whether there is nothing to do at any point: all results are among the newest, and the whole
    /// is below both hard marks.
    fn is_idle(&self) -> bool {
        let policy = self.policy;
        let rule = policy.prune.as_ref().map(|(_, rule)| rule);
        let lowest = policy.thresholds.hard.min(policy.prune_thresholds.hard);
        rule.is_none_or(|rule| self.prune_state.total_tokens() <= rule.protect)
            && self.size(self.conversation.messages().len()) < lowest
    }

    /// What once was a request up to `point`.
    fn step(&mut self, point: usize) -> HardMarkOutcome {
        self.turns.count_up_to(self.conversation, point);
        self.ingest_until(point);
        if point > self.plannable_until {
            return HardMarkOutcome::NotReached;
        }
        self.apply_rule(point);
        if !self.cuts_first {
            self.clear_at_hard_mark(point);
        }
        let marked = self.policy.proactive && self.can_compact && point > self.settled_until;
        if !marked || self.size(point) < self.policy.thresholds.hard {
            HardMarkOutcome::NotReached
        } else if self.cut(point) {
            HardMarkOutcome::Cut
        } else if self.cuts_first && self.clear_at_hard_mark(point) {
            HardMarkOutcome::Cleared
        } else {
            HardMarkOutcome::Unresolved
        }
    }

    /// How it stands behind the last point, which came to `done`.
    fn finish(mut self, done: HardMarkOutcome) -> ReplayOutcome {
        let (policy, messages) = (self.policy, self.conversation.messages().len());
        self.turns.count_up_to(self.conversation, messages);
        let size = self.size(messages);
        // A rule whose own mark lies beyond the one at which history is cut comes too late.
        let pruning_suffices = policy.prune_thresholds.hard <= policy.thresholds.hard
            && self.pruning_suffices(messages);
        let user_turns = self.turns.count;
        let waits_for_turns = policy.prune.as_ref().is_some_and(|(when, rule)| {
            let few = user_turns < rule.user_turns;
            few && *when == PruneTrigger::Always
                && self.prune_state.would_fire(rule, rule.user_turns)
        });
        if let Some((_, rule)) = &policy.prune {
            self.prune_state.assign_retention_reasons(rule, user_turns);
        }
        ReplayOutcome {
            prune_state: self.prune_state,
            summarised_until: self.summarised_until,
            cut_here: self.cut_here,
            retained: self.retained,
            clips: self.clips,
            thrash: self.thrash,
            summary_due: done == HardMarkOutcome::Unresolved,
            size,
            request_tokens: self.summary.map(|it| it.requests).unwrap_or_default(),
            pruning_suffices,
            can_compact: self.can_compact && messages <= self.plannable_until,
            blocked_by_turns: waits_for_turns,
        }
    }

    /// Takes the results up to `point` in, with what the record did to them, and moves the rule's limit.
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
        if self.tighten_pending && point >= self.thrash.compacted_len().max(self.settled_until) {
            self.tighten_pending = false;
            self.tighten(point);
        }
    }

    /// Clears all old results and clips the largest of those that still stand.
    fn tighten(&mut self, point: usize) {
        self.prune_state.extend_clearable(Tokens::ZERO);
        self.prune_state.clear_all_clearable();
        let stands = |at| !self.prune_state.is_cleared(at);
        let (conversation, policy) = (self.conversation, self.policy);
        let clip =
            pace::clip_largest_result(conversation, policy, self.summarised_until, point, stands);
        // What a record has clipped already is as short as it gets.
        let new = clip.filter(|clip| self.clip_savings.iter().all(|(at, _)| *at != clip.message));
        if let Some(clip) = new {
            self.clip_savings
                .extend(clip_savings(&[clip], conversation));
            self.clips.push(clip);
        }
    }

    /// Clears where the rule says so.
    fn apply_rule(&mut self, point: usize) {
        let Some((when, rule)) = &self.policy.prune else {
            return;
        };
        let asked = match when {
            PruneTrigger::Always => true,
            PruneTrigger::HardMark => false,
            PruneTrigger::Pressure => {
                point > self.settled_until
                    && self.prune_size(point) > self.policy.prune_thresholds.pressure
            }
        };
        if asked && self.prune_state.would_fire(rule, self.turns.count) {
            self.prune_state.clear_all_clearable();
        }
    }

    /// At the rule's own hard mark: clears if that is much. Whether it did.
    fn clear_at_hard_mark(&mut self, point: usize) -> bool {
        if !self.is_at_prune_mark(point) {
            return false;
        }
        let clears = self.pruning_suffices(point) || {
            // Where no record comes in the same break, clearing has to be worth one by itself.
            let tenth = self.prune_size(point).percent(10);
            !self.policy.proactive && self.rule_would_fire() && self.clearable_tokens() >= tenth
        };
        if clears {
            self.prune_state.clear_all_clearable();
        }
        clears
    }

    /// At the hard mark, where clearing alone was not much: cuts the history, and clears in the same
    /// break. Whether anything was done. What would not gain a tenth is not done: it would be back at
    /// the next turn, and each time break the prompt cache.
    fn cut(&mut self, point: usize) -> bool {
        let prunes = self.is_at_prune_mark(point) && self.rule_would_fire();
        let size = self.size(point);
        let pace = self.thrash.after_requests(self.requests_since_cut, point);
        let cut = cut_point::find_adaptive(
            self.conversation,
            self.policy,
            pace,
            self.pinned_head,
            point,
        );
        let Some(cut) = cut.filter(|&cut| cut > self.summarised_until) else {
            return false;
        };
        let summary = self.assume_summary(cut);
        let after = self.fixed_tokens
            + self.pinned_tokens()
            + summary.nominal
            + self.conversation.tokens_of(cut..point);
        if self.hard_mark_mode == HardMarkMode::Report || after > size.percent(90) {
            return false;
        }
        if prunes {
            self.prune_state.clear_all_clearable();
        }
        self.set_summary(cut, summary);
        self.cut_here = true;
        self.thrash = pace;
        self.requests_since_cut = 0;
        self.retained = self.surely_retained(cut, point);
        if pace.is_thrashing() {
            self.retained = point..point;
            self.tighten(point);
        }
        true
    }

    /// Of the messages from `cut` up to `point`, those that stay as they are until the next cut.
    fn surely_retained(&self, cut: usize, point: usize) -> Range<usize> {
        if self.policy.prunes_between_cuts() {
            return point..point;
        }
        // The break of the cut may clear results too, but none of these.
        let protect = self.policy.prune.as_ref().map(|(_, rule)| rule.protect);
        let is_protected = |&at: &usize| {
            protect.is_none_or(|protect| self.conversation.tokens_of(at..point) <= protect)
        };
        (cut..point).find(is_protected).unwrap_or(point)..point
    }

    /// What is taken to stand for the history before `cut`.
    fn assume_summary(&mut self, cut: usize) -> AssumedSummary {
        let (conversation, policy) = (self.conversation, self.policy);
        let history = self.pinned_head.end..cut;
        let requests = self.request_sizes.measure(conversation, history.clone());
        let budgets = summary_budgets_with_requests(conversation, policy, history, requests);
        let beside = self.fixed_tokens + self.pinned_tokens() + policy.prune_summary_size;
        let room = policy.prune_thresholds.requests_budget(beside);
        AssumedSummary {
            nominal: budgets.nominal(),
            requests: budgets.requests,
            for_pruning: policy.prune_summary_size + requests.min(room),
        }
    }

    /// Whether the rule has something to clear where it is asked at the mark.
    fn rule_would_fire(&self) -> bool {
        match &self.policy.prune {
            Some((PruneTrigger::HardMark, rule)) => {
                self.prune_state.would_fire(rule, self.turns.count)
            }
            Some((PruneTrigger::Always | PruneTrigger::Pressure, _)) | None => false,
        }
    }

    /// Whether clearing at the rule's mark brings the size down far enough to stand alone.
    fn pruning_suffices(&self, point: usize) -> bool {
        self.rule_would_fire()
            && self.prune_size(point) - self.clearable_tokens()
                <= self.policy.prune_thresholds.relief
    }

    fn is_at_prune_mark(&self, point: usize) -> bool {
        point > self.settled_until
            && self.prune_size(point) >= self.policy.prune_thresholds.hard
            && self.fixed_tokens + self.pinned_tokens() + self.policy.prune_summary_size
                < self.policy.prune_thresholds.hard
    }

    fn set_summary(&mut self, upto: usize, summary: AssumedSummary) {
        self.summarised_until = upto;
        self.summary = Some(summary);
        self.prune_state.mark_summarised(upto);
    }

    /// What the conversation measures up to `point`, beside the marks.
    fn size(&self, point: usize) -> Tokens {
        self.size_with(point, |summary| summary.nominal)
    }

    /// What it measures beside the rule's own marks.
    fn prune_size(&self, point: usize) -> Tokens {
        self.size_with(point, |summary| summary.for_pruning)
    }

    fn size_with(&self, point: usize, nominal: impl Fn(&AssumedSummary) -> Tokens) -> Tokens {
        let summary = self.summary.as_ref().map(nominal).unwrap_or_default();
        self.fixed_tokens
            + self.pinned_tokens()
            + summary
            + self.conversation.tokens_of(self.summarised_until..point)
            - self.prune_state.freed_tokens()
            - self.saved_by_clips()
            - self.saved_by_images()
    }

    /// The first user message, where it is kept.
    fn pinned_tokens(&self) -> Tokens {
        self.conversation
            .tokens_of(self.conversation.head_len()..self.pinned_head.end)
    }
}

/// Counts user messages as the points pass.
#[derive(Default)]
struct UserTurnCounter {
    counted_until: usize,
    count: u32,
}

impl UserTurnCounter {
    fn count_up_to(&mut self, conversation: &Conversation<'_>, point: usize) {
        let new = conversation
            .messages()
            .get(self.counted_until..point)
            .unwrap_or_default();
        let users = new.iter().filter(|message| message.role.is_user()).count();
        self.count = self
            .count
            .saturating_add(u32::try_from(users).unwrap_or(u32::MAX));
        self.counted_until = point;
    }
}

#[cfg(test)]
pub(super) mod tests;
