//! Cut points: positions between two units at which history may be cut, with the newest tokens
//! kept.

use crate::conversation::{Conversation, Role};
use crate::policy::Policy;
use crate::policy::record::RecordMatch;
use crate::policy::thrash::ThrashState;
use crate::pruning::rule::{Clearing, PruneState};
use crate::units::tokens::Tokens;
use std::ops::Range;

/// Head of a conversation that is never replaced: the leading system and developer messages, and
/// the first user message if it is small. A summary that the agent wrote itself may be larger.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PinnedHead {
    /// First message that may be replaced.
    pub end: usize,
}

impl PinnedHead {
    /// Determines the pinned head. A conversation that starts from a record with a text keeps that
    /// record's head, because the text covers everything after it; otherwise `policy` decides.
    pub fn new(
        conversation: &Conversation<'_>,
        policy: &Policy,
        base: Option<&RecordMatch>,
    ) -> Self {
        if let Some(base) = base.filter(|base| base.record.text.is_some()) {
            return Self { end: base.record.history_from };
        }
        let head = conversation.head_len();
        let first = conversation.message(head).filter(|first| {
            let most = if conversation.is_agent_summary(first) {
                policy.max_pinned_summary
            } else {
                policy.max_pinned_first
            };
            first.role == Role::User && first.tokens <= most
        });
        let end = head + usize::from(first.is_some());
        if !conversation.dialect().facts().may_keep_calls {
            return Self { end };
        }
        // No cut can be before a result, and the provider may keep its call.
        let behind = conversation.messages().iter().skip(end);
        let results = behind.take_while(|it| it.role.is_tool_result()).count();
        Self { end: end + results }
    }
}

/// The steps that stay messages after a cut.
#[derive(Clone, Copy, Debug)]
pub struct RetainedSteps<'r> {
    /// Results of the conversation.
    pub(crate) results: &'r PruneState,
    /// The results that are cleared after the cut.
    pub(crate) clearing: Clearing,
    /// Room for the steps, with the results that are not cleared.
    pub(crate) room: Tokens,
}

impl RetainedSteps<'_> {
    /// Whether the steps among `messages` fit.
    fn fit(&self, conversation: &Conversation<'_>, messages: Range<usize>) -> bool {
        let cleared = self.results.frees_in(self.clearing, messages.clone());
        conversation.tokens_of(messages) - cleared <= self.room
    }
}

/// Finds the cut for a history of `upto` messages. At least `keep_recent` is kept after
/// it, and the `steps` of a break that clears results. More is kept if that keeps a turn or a run of
/// reasoning whole. Returns `None` if there is nothing to cut.
pub fn find(
    conversation: &Conversation<'_>,
    keep_recent: Tokens,
    steps: Option<RetainedSteps<'_>>,
    pinned_head: PinnedHead,
    upto: usize,
) -> Option<usize> {
    let newest = conversation.newest_unit(upto);
    // A long history has many request points: a walk to the answer for each would cost too much.
    let enough = conversation.suffix_start(pinned_head.end..upto, keep_recent)?;
    let boundaries = inner_boundaries(conversation, pinned_head.end, upto);
    let steps = steps.and_then(|steps| {
        let at = boundaries.partition_point(|&cut| !steps.fit(conversation, cut..upto));
        boundaries.get(at).copied()
    });
    let latest = enough.min(steps.unwrap_or(enough)).min(newest);
    let (earlier, later) = boundaries.split_at(boundaries.partition_point(|&cut| cut <= latest));
    let is_accepted = &accepts_turn_start(conversation, upto);
    let at_or_before = || earlier.iter().rev().copied().filter(is_accepted);
    let turn = at_or_before()
        .take_while(|&cut| conversation.tokens_of(cut..latest) <= keep_recent.divided_by(4))
        .find(|&cut| conversation.message(cut).is_some_and(|it| it.role.is_user()));
    let candidates =
        || at_or_before().take_while(|&cut| conversation.tokens_of(cut..latest) <= keep_recent);
    // Providers that sign reasoning require it whole: all steps of a turn after the first with reasoning, or
    // consecutive steps that each carry some.
    let follows_result = |cut: usize| {
        let before = cut.checked_sub(1).and_then(|at| conversation.message(at));
        before.is_some_and(|message| message.role.is_tool_result())
    };
    let is_in_run = |cut| follows_result(cut) && conversation.reasoning_run(cut).is_some();
    let splits_run = |cut| follows_result(cut) && has_reasoning(conversation, cut);
    let all_reasoned = || candidates().find(|&cut| !is_in_run(cut));
    let whole_run = || candidates().find(|&cut| !splits_run(cut));
    let until_newest = || later.iter().copied().take_while(|&cut| cut <= newest);
    let after = || until_newest().find(is_accepted);
    turn.or_else(all_reasoned).or_else(whole_run).or_else(|| at_or_before().next()).or_else(after)
}

/// Like [`find`], but keeps half as much if the conversation is thrashing.
pub(crate) fn find_adaptive(
    conversation: &Conversation<'_>,
    policy: &Policy,
    mut steps: RetainedSteps<'_>,
    thrash: ThrashState,
    pinned_head: PinnedHead,
    upto: usize,
) -> Option<usize> {
    let mut keep_recent = policy.keep_recent;
    if thrash.is_thrashing() {
        keep_recent = keep_recent.divided_by(2);
        steps.room = steps.room.divided_by(2);
    }
    find(conversation, keep_recent, Some(steps), pinned_head, upto)
}

/// Finds the deepest possible cut, which keeps only the pinned head and the newest unit.
pub fn deepest(
    conversation: &Conversation<'_>,
    pinned_head: PinnedHead,
    upto: usize,
) -> Option<usize> {
    let newest = conversation.newest_unit(upto);
    let is_accepted = accepts_turn_start(conversation, upto);
    let boundaries = inner_boundaries(conversation, pinned_head.end, upto);
    boundaries.iter().rev().copied().find(|cut| *cut <= newest && is_accepted(cut))
}

/// Returns the user request whose turn is still open at `cut`. A turn is open if the messages
/// before `cut` end with the request itself or with results, so that the agent is still at work.
/// Messages after `cut` do not count: their number grows.
pub(crate) fn open_turn(conversation: &Conversation<'_>, cut: usize) -> Option<usize> {
    let before = conversation.messages().get(..cut)?;
    match before.last()?.role {
        Role::Function | Role::Tool | Role::User => {
            before.iter().rposition(|message| message.role.is_user())
        }
        Role::Assistant | Role::Developer | Role::Other | Role::System => None,
    }
}

/// Returns the boundaries that leave something on both sides.
fn inner_boundaries<'c>(
    conversation: &'c Conversation<'_>,
    start: usize,
    upto: usize,
) -> &'c [usize] {
    let boundaries = conversation.boundaries();
    let from = boundaries.partition_point(|&cut| cut <= start);
    let to = boundaries.partition_point(|&cut| cut < upto);
    boundaries.get(from..to).unwrap_or_default()
}

/// Returns whether the upstream accepts the messages from a cut on after a replacement text, as a test of cuts.
///
/// Some providers demand that the newest turn of a request begins with thinking, if it has any. A replacement
/// text is a user message, so the turn then begins with the first step that stays.
fn accepts_turn_start(conversation: &Conversation<'_>, upto: usize) -> impl Fn(&usize) -> bool {
    let demands = conversation.has_reasoning() && conversation.turns_begin_with_thinking();
    move |&cut| {
        let run = conversation.reasoning_run(cut);
        let splits_newest = run.is_some_and(|run| demands && run.end >= upto);
        !splits_newest || has_reasoning(conversation, cut)
    }
}

fn has_reasoning(conversation: &Conversation<'_>, at: usize) -> bool {
    conversation.message(at).is_some_and(|it| it.has_reasoning)
}

#[cfg(test)]
pub(crate) mod tests;
