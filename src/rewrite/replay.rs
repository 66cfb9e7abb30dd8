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
use super::cut_point::{self, Kept};
use super::digest::budgets_for;
use super::housekeeping::is_housekeeping;
use super::pace::{self, Pace};
use super::policy::{Policy, When};
use super::prune::Fold;
use super::record::{Clip, Found};
use super::said::Requests;
use super::tokens::Tokens;
use super::wording::unwrap;
use saved::{clipped, without_images};
use std::ops::Range;

/// What the replay does where the hard mark is reached and pruning is not enough.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtTheMark {
    /// Cut the history there, as a digest does on every replica alike.
    Cut,
    /// Go on, and say so: a summary has to be made first.
    Note,
}

/// How a conversation stands at its end.
#[derive(Debug)]
pub struct Standing {
    /// Its tool results.
    pub fold: Fold,
    /// Messages before this one are stood for by a summary; the kept front if there is none.
    pub covers: usize,
    /// Whether `covers` was cut by this replay, not by the record it began from.
    pub cut_here: bool,
    /// Of what was behind that cut when it was made, the messages that stand until the next.
    pub stays: Range<usize>,
    /// Results that were clipped because the conversation was full again too soon.
    pub clips: Vec<Clip>,
    /// How fast it fills.
    pub pace: Pace,
    /// Whether the hard mark was reached with nothing done about it.
    pub due: bool,
    /// Its size by the replay's measure.
    pub size: Tokens,
    /// What the first request and the newest take of it in a summary.
    pub requests: Tokens,
    /// Whether pruning at the mark would be enough, so that no summary is needed for it.
    pub pruning_suffices: bool,
    /// Whether a break at the mark can help at all.
    pub has_hope: bool,
    /// Whether results would be cleared by now, had there been enough user messages.
    pub waits_for_turns: bool,
}

/// Replays a conversation from the record it starts from, if there is one.
pub fn replay(
    conversation: &Conversation<'_>,
    policy: &Policy,
    kept: Kept,
    base: Option<&Found>,
    at_the_mark: AtTheMark,
) -> Standing {
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
    let mut done = Done::NotNeeded;
    for point in conversation.request_points_past(passed) {
        done = state.step(point);
    }
    state.end(done)
}

/// What a point comes to at the hard mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Done {
    /// Results were cleared.
    Cleared,
    /// The history was cut.
    Cut,
    /// The mark is not reached.
    NotNeeded,
    /// Neither helps.
    Nothing,
}

/// What stands for history, by its nominal size.
#[derive(Clone, Copy, Debug)]
struct Summary {
    /// Beside the marks.
    nominal: Tokens,
    /// What the first request and the newest take of that.
    requests: Tokens,
    /// Beside the rule's own marks.
    by_rule: Tokens,
}

/// Up to which message something new may be begun for a request.
fn begins_upto(conversation: &Conversation<'_>) -> usize {
    let messages = conversation.messages();
    if is_housekeeping(conversation) {
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
    kept: Kept,
    at_the_mark: AtTheMark,
    /// Up to where something may be begun: where this is an agent's own compaction, to the last reply.
    /// The results behind that were in no request before it.
    upto: usize,
    /// Whether a break at the mark can help at all.
    has_hope: bool,
    /// Whether a digest stands in at once. Then clearing is not tried first: what it clears is in no
    /// index, and the next break comes the sooner. Where the rule's own mark comes first, it clears there.
    digests: bool,
    turns: Turns,
    fold: Fold,
    covers: usize,
    cut_here: bool,
    stays: Range<usize>,
    /// What is taken to stand for history, where it was cut.
    summary: Option<Summary>,
    /// What the first request and the newest take of it.
    asked: Requests,
    outside: Tokens,
    /// Up to here the record has had its say.
    settled: usize,
    /// What the record cleared, until it is taken over.
    record_cleared: Option<usize>,
    /// What is clipped, and what each clip saves.
    clipped: Vec<(usize, Tokens)>,
    /// The messages whose images the record dropped, and what that saves of each.
    images: Vec<(usize, Tokens)>,
    /// Clips of this replay's own.
    clips: Vec<Clip>,
    pace: Pace,
    /// The requests since the compaction that the pace was worked out for.
    since_cut: usize,
    /// Whether a record was made because compacting alone did not help, and what goes with that is
    /// still to be done: as late in the history as it was.
    tightens: bool,
}

impl<'r, 'a> Replay<'r, 'a> {
    fn new(
        conversation: &'r Conversation<'a>,
        policy: &'r Policy,
        kept: Kept,
        base: Option<&Found>,
        at_the_mark: AtTheMark,
    ) -> Self {
        let fold = Fold::new(conversation, policy.prune.as_ref().map(|(_, rule)| rule));
        let mut state = Self {
            conversation,
            policy,
            kept,
            at_the_mark,
            upto: begins_upto(conversation),
            has_hope: false,
            digests: false,
            turns: Turns::default(),
            fold,
            covers: kept.end,
            cut_here: false,
            stays: kept.end..kept.end,
            summary: None,
            asked: Requests::default(),
            outside: conversation.stands_before(conversation.head()),
            settled: base.map_or(0, |base| base.at),
            record_cleared: base.map(|base| base.record.cleared_before),
            clipped: base.map_or_else(Vec::new, |base| clipped(&base.record.clips, conversation)),
            images: base.map_or_else(Vec::new, |base| without_images(&base.record, conversation)),
            clips: Vec::new(),
            pace: base.map(|base| base.record.pace).unwrap_or_default(),
            since_cut: 0,
            tightens: base.is_some_and(|base| base.record.pace.is_thrash()),
        };
        if let Some(base) = base
            && let Some(text) = &base.record.text
        {
            let upto = base.record.compacted_message_count;
            let summary = state.summary_of(upto);
            // Made for a larger window, it may take more than this one grants. A digest of this one's
            // never does: with its record and without, the conversation stands the same.
            let nominal = summary.nominal.max(Tokens::of_text(unwrap(text)));
            state.cover(upto, Summary { nominal, ..summary });
        }
        // What can never go has to leave room for a summary below the mark. Where it does not, no break
        // helps, and the upstream says what it makes of the request.
        let stays = state.outside + state.front() + policy.budgets.nominal();
        state.has_hope = stays < policy.marks.hard;
        state.digests = policy.proactive
            && state.has_hope
            && at_the_mark == AtTheMark::Cut
            && policy.rule_marks.hard >= policy.marks.hard;
        state
    }

    /// Whether there is nothing to do at any point: all results are among the newest, and the whole
    /// is below both hard marks.
    fn is_idle(&self) -> bool {
        let policy = self.policy;
        let rule = policy.prune.as_ref().map(|(_, rule)| rule);
        let lowest = policy.marks.hard.min(policy.rule_marks.hard);
        rule.is_none_or(|rule| self.fold.tokens() <= rule.protect)
            && self.size(self.conversation.messages().len()) < lowest
    }

    /// What once was a request up to `point`.
    fn step(&mut self, point: usize) -> Done {
        self.turns.count_up_to(self.conversation, point);
        self.arrive(point);
        if point > self.upto {
            return Done::NotNeeded;
        }
        self.ask_the_rule(point);
        if !self.digests {
            self.clear_at_the_mark(point);
        }
        let marked = self.policy.proactive && self.has_hope && point > self.settled;
        if !marked || self.size(point) < self.policy.marks.hard {
            Done::NotNeeded
        } else if self.cut(point) {
            Done::Cut
        } else if self.digests && self.clear_at_the_mark(point) {
            Done::Cleared
        } else {
            Done::Nothing
        }
    }

    /// How it stands behind the last point, which came to `done`.
    fn end(mut self, done: Done) -> Standing {
        let (policy, messages) = (self.policy, self.conversation.messages().len());
        self.turns.count_up_to(self.conversation, messages);
        let size = self.size(messages);
        // A rule whose own mark lies beyond the one at which history is cut comes too late.
        let pruning_suffices =
            policy.rule_marks.hard <= policy.marks.hard && self.pruning_suffices(messages);
        let user_turns = self.turns.count;
        let waits_for_turns = policy.prune.as_ref().is_some_and(|(when, rule)| {
            let few = user_turns < rule.user_turns;
            few && *when == When::Always && self.fold.would_fire(rule, rule.user_turns)
        });
        if let Some((_, rule)) = &policy.prune {
            self.fold.explain(rule, user_turns);
        }
        Standing {
            fold: self.fold,
            covers: self.covers,
            cut_here: self.cut_here,
            stays: self.stays,
            clips: self.clips,
            pace: self.pace,
            due: done == Done::Nothing,
            size,
            requests: self.summary.map(|it| it.requests).unwrap_or_default(),
            pruning_suffices,
            has_hope: self.has_hope && messages <= self.upto,
            waits_for_turns,
        }
    }

    /// Takes the results up to `point` in, with what the record did to them, and moves the rule's limit.
    fn arrive(&mut self, point: usize) {
        self.since_cut += usize::from(point > self.pace.since());
        self.fold.arrive(point);
        if point >= self.settled
            && let Some(before) = self.record_cleared.take()
        {
            self.fold.clear_before(before);
        }
        if let Some((_, rule)) = &self.policy.prune {
            self.fold.reach(rule.protect);
        }
        if self.tightens && point >= self.pace.since().max(self.settled) {
            self.tightens = false;
            self.tighten(point);
        }
    }

    /// Clears all old results and clips the largest of those that still stand.
    fn tighten(&mut self, point: usize) {
        self.fold.reach(Tokens::ZERO);
        self.fold.advance();
        let stands = |at| !self.fold.clears(at);
        let (conversation, policy) = (self.conversation, self.policy);
        let clip = pace::clip_of_largest(conversation, policy, self.covers, point, stands);
        // What a record has clipped already is as short as it gets.
        let new = clip.filter(|clip| self.clipped.iter().all(|(at, _)| *at != clip.message));
        if let Some(clip) = new {
            self.clipped.extend(clipped(&[clip], conversation));
            self.clips.push(clip);
        }
    }

    /// Clears where the rule says so.
    fn ask_the_rule(&mut self, point: usize) {
        let Some((when, rule)) = &self.policy.prune else {
            return;
        };
        let asked = match when {
            When::Always => true,
            When::Mark => false,
            When::Pressure => {
                point > self.settled && self.rule_size(point) > self.policy.rule_marks.pressure
            }
        };
        if asked && self.fold.would_fire(rule, self.turns.count) {
            self.fold.advance();
        }
    }

    /// At the rule's own hard mark: clears if that is much. Whether it did.
    fn clear_at_the_mark(&mut self, point: usize) -> bool {
        if !self.is_at_the_rules_mark(point) {
            return false;
        }
        let clears = self.pruning_suffices(point) || {
            // Where no record comes in the same break, clearing has to be worth one by itself.
            let tenth = self.rule_size(point).percent(10);
            !self.policy.proactive && self.may_prune() && self.waiting() >= tenth
        };
        if clears {
            self.fold.advance();
        }
        clears
    }

    /// At the hard mark, where clearing alone was not much: cuts the history, and clears in the same
    /// break. Whether anything was done. What would not gain a tenth is not done: it would be back at
    /// the next turn, and each time break the prompt cache.
    fn cut(&mut self, point: usize) -> bool {
        let prunes = self.is_at_the_rules_mark(point) && self.may_prune();
        let size = self.size(point);
        let pace = self.pace.compacted_after(self.since_cut, point);
        let cut = cut_point::find_at(self.conversation, self.policy, pace, self.kept, point);
        let Some(cut) = cut.filter(|&cut| cut > self.covers) else {
            return false;
        };
        let summary = self.summary_of(cut);
        let after =
            self.outside + self.front() + summary.nominal + self.conversation.tokens_of(cut..point);
        if self.at_the_mark == AtTheMark::Note || after > size.percent(90) {
            return false;
        }
        if prunes {
            self.fold.advance();
        }
        self.cover(cut, summary);
        self.cut_here = true;
        self.pace = pace;
        self.since_cut = 0;
        self.stays = self.surely_stays(cut, point);
        if pace.is_thrash() {
            self.stays = point..point;
            self.tighten(point);
        }
        true
    }

    /// Of the messages from `cut` up to `point`, those that stay as they are until the next cut.
    fn surely_stays(&self, cut: usize, point: usize) -> Range<usize> {
        if self.policy.clears_by_itself() {
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
    fn summary_of(&mut self, cut: usize) -> Summary {
        let (conversation, policy) = (self.conversation, self.policy);
        let history = self.kept.end..cut;
        let requests = self.asked.of(conversation, history.clone());
        let budgets = budgets_for(conversation, policy, history, requests);
        let beside = self.outside + self.front() + policy.rule_summary;
        let room = policy.rule_marks.requests_beside(beside);
        Summary {
            nominal: budgets.nominal(),
            requests: budgets.requests,
            by_rule: policy.rule_summary + requests.min(room),
        }
    }

    /// Whether the rule has something to clear where it is asked at the mark.
    fn may_prune(&self) -> bool {
        match &self.policy.prune {
            Some((When::Mark, rule)) => self.fold.would_fire(rule, self.turns.count),
            Some((When::Always | When::Pressure, _)) | None => false,
        }
    }

    /// Whether clearing at the rule's mark brings the size down far enough to stand alone.
    fn pruning_suffices(&self, point: usize) -> bool {
        self.may_prune() && self.rule_size(point) - self.waiting() <= self.policy.rule_marks.relief
    }

    fn is_at_the_rules_mark(&self, point: usize) -> bool {
        point > self.settled
            && self.rule_size(point) >= self.policy.rule_marks.hard
            && self.outside + self.front() + self.policy.rule_summary < self.policy.rule_marks.hard
    }

    fn cover(&mut self, upto: usize, summary: Summary) {
        self.covers = upto;
        self.summary = Some(summary);
        self.fold.hide_before(upto);
    }

    /// What the conversation measures up to `point`, beside the marks.
    fn size(&self, point: usize) -> Tokens {
        self.size_with(point, |summary| summary.nominal)
    }

    /// What it measures beside the rule's own marks.
    fn rule_size(&self, point: usize) -> Tokens {
        self.size_with(point, |summary| summary.by_rule)
    }

    fn size_with(&self, point: usize, nominal: impl Fn(&Summary) -> Tokens) -> Tokens {
        let summary = self.summary.as_ref().map(nominal).unwrap_or_default();
        self.outside + self.front() + summary + self.conversation.tokens_of(self.covers..point)
            - self.fold.freed()
            - self.clipped()
            - self.without_images()
    }

    /// The first user message, where it is kept.
    fn front(&self) -> Tokens {
        self.conversation
            .tokens_of(self.conversation.head()..self.kept.end)
    }
}

/// Counts user messages as the points pass.
#[derive(Default)]
struct Turns {
    at: usize,
    count: u32,
}

impl Turns {
    fn count_up_to(&mut self, conversation: &Conversation<'_>, point: usize) {
        let new = conversation
            .messages()
            .get(self.at..point)
            .unwrap_or_default();
        let users = new.iter().filter(|message| message.role.is_user()).count();
        self.count = self
            .count
            .saturating_add(u32::try_from(users).unwrap_or(u32::MAX));
        self.at = point;
    }
}

#[cfg(test)]
pub(super) mod tests;
