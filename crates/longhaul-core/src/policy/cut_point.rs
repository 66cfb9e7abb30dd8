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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
            return Self {
                end: base.record.history_from,
            };
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

/// Finds the cut for a history of `upto` messages. At least [`Policy::keep_recent`] is kept after
/// it, and the `steps` of a break that clears results. More is kept if that keeps a turn or a run of
/// reasoning whole. Returns `None` if there is nothing to cut.
pub fn find(
    conversation: &Conversation<'_>,
    policy: &Policy,
    steps: Option<RetainedSteps<'_>>,
    pinned_head: PinnedHead,
    upto: usize,
) -> Option<usize> {
    let newest = conversation.newest_unit(upto);
    // A long history has many request points: a walk to the answer for each would cost too much.
    let enough = conversation.suffix_start(pinned_head.end..upto, policy.keep_recent)?;
    let boundaries = inner_boundaries(conversation, pinned_head.end, upto);
    let steps = steps.and_then(|steps| {
        let at = boundaries.partition_point(|&cut| !steps.fit(conversation, cut..upto));
        boundaries.get(at).copied()
    });
    let latest = enough.min(steps.unwrap_or(enough)).min(newest);
    let (earlier, later) = boundaries.split_at(boundaries.partition_point(|&cut| cut <= latest));
    let rule = TurnStartRule::of(conversation, upto);
    let is_accepted = |cut: &usize| rule.accepts(conversation, *cut);
    let at_or_before = || earlier.iter().rev().copied().filter(is_accepted);
    let turn = at_or_before()
        .take_while(|&cut| conversation.tokens_of(cut..latest) <= policy.keep_recent.divided_by(4))
        .find(|&cut| starts_turn(conversation, cut));
    let candidates = || {
        at_or_before().take_while(|&cut| conversation.tokens_of(cut..latest) <= policy.keep_recent)
    };
    let all_reasoned =
        || candidates().find(|&cut| !splits_reasoning(conversation, cut, ReasoningExtent::Turn));
    let whole_run =
        || candidates().find(|&cut| !splits_reasoning(conversation, cut, ReasoningExtent::Run));
    let until_newest = || later.iter().copied().take_while(|&cut| cut <= newest);
    let after = || until_newest().find(is_accepted);
    turn.or_else(all_reasoned)
        .or_else(whole_run)
        .or_else(|| at_or_before().next())
        .or_else(after)
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
    if !thrash.is_thrashing() {
        return find(conversation, policy, Some(steps), pinned_head, upto);
    }
    steps.room = steps.room.divided_by(2);
    let tightened = policy.tightened();
    find(conversation, &tightened, Some(steps), pinned_head, upto)
}

/// Finds the deepest possible cut, which keeps only the pinned head and the newest unit.
pub fn deepest(
    conversation: &Conversation<'_>,
    pinned_head: PinnedHead,
    upto: usize,
) -> Option<usize> {
    let newest = conversation.newest_unit(upto);
    let rule = TurnStartRule::of(conversation, upto);
    inner_boundaries(conversation, pinned_head.end, upto)
        .iter()
        .rev()
        .copied()
        .find(|&cut| cut <= newest && rule.accepts(conversation, cut))
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

fn starts_turn(conversation: &Conversation<'_>, cut: usize) -> bool {
    conversation
        .message(cut)
        .is_some_and(|message| message.role.is_user())
}

/// The rule that the newest turn of a request begins with thinking, if it has any. A
/// replacement text is a user message, so the turn then begins with the first step that stays.
#[derive(Clone, Copy, Debug)]
enum TurnStartRule {
    /// A turn that reaches the end of the first `upto` messages.
    Applies { upto: usize },
    /// A step may stand without the thinking before it.
    None,
}

impl TurnStartRule {
    fn of(conversation: &Conversation<'_>, upto: usize) -> Self {
        if conversation.has_reasoning() && conversation.turns_begin_with_thinking() {
            Self::Applies { upto }
        } else {
            Self::None
        }
    }

    /// Whether the upstream accepts the messages from `cut` on after a replacement text.
    fn accepts(self, conversation: &Conversation<'_>, cut: usize) -> bool {
        let Self::Applies { upto } = self else {
            return true;
        };
        let run = conversation.reasoning_run(cut);
        let begins_with_reasoning = || conversation.message(cut).is_some_and(|it| it.has_reasoning);
        run.is_none_or(|run| run.end < upto || begins_with_reasoning())
    }
}

/// Extent of a run of reasoning that belongs together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReasoningExtent {
    /// Consecutive steps that each carry reasoning.
    Run,
    /// All steps of a turn after the first that carries reasoning.
    Turn,
}

/// Whether `cut` falls between two steps of such a run. Providers that sign reasoning require it
/// whole.
fn splits_reasoning(conversation: &Conversation<'_>, cut: usize, run: ReasoningExtent) -> bool {
    let before = cut.checked_sub(1).and_then(|at| conversation.message(at));
    before.is_some_and(|message| message.role.is_tool_result())
        && match run {
            ReasoningExtent::Run => conversation.message(cut).is_some_and(|it| it.has_reasoning),
            ReasoningExtent::Turn => conversation.is_in_reasoning_run(cut),
        }
}

#[cfg(test)]
pub(crate) mod tests;
