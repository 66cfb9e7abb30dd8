//! What to replace, in the words of conversations.

use super::conversation::Conversation;
use super::cut_point::{self, PinnedHead};
use super::digest::{self, summary_budgets};
use super::placement::Placement;
use super::policy::Policy;
use super::prune::PruneState;
use super::record::{PriorRecords, RecordMatch};
use super::replay::{HardMarkMode, ReplayOutcome, replay};
use super::tokens::Tokens;
use super::view::ForwardedView;
use std::borrow::Cow;
use std::sync::Arc;

/// One replacement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Replacement {
    /// The messages from `from` up to `to` become one user message that says `text`.
    History {
        /// The first message that goes.
        from: usize,
        /// The first that stays.
        to: usize,
        /// What stands for them.
        text: Arc<str>,
        /// Where that goes.
        placement: Placement,
    },
    /// An image becomes a marker.
    Image {
        /// The message.
        at: usize,
        /// Which of its parts.
        part: usize,
    },
    /// The output asked for is lowered.
    Output {
        /// To so much.
        tokens: Tokens,
    },
    /// The content of the result at `at` becomes `text`, in the shape that it had.
    Result {
        /// The message.
        at: usize,
        /// What stands in place of its content.
        text: Cow<'static, str>,
    },
}

impl Replacement {
    /// Where among the messages and their parts it begins.
    pub(super) fn position(&self) -> (usize, usize) {
        match self {
            Self::History { from, .. } => (*from, 0),
            Self::Image { at, part } => (*at, *part),
            Self::Output { .. } => (usize::MAX, 0),
            Self::Result { at, .. } => (*at, 0),
        }
    }
}

/// All replacements of one request.
///
/// Invariant: the cuts in messages ascend and do not overlap.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Replacements {
    replacements: Vec<Replacement>,
}

impl Replacements {
    pub(crate) fn new(cuts: Vec<Replacement>) -> Self {
        Self { replacements: cuts }
    }

    /// The cuts, in the order of the messages.
    pub fn as_slice(&self) -> &[Replacement] {
        &self.replacements
    }
}

/// Who writes what stands for history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummarySource {
    /// Nobody: a digest does, by rule.
    Digest,
    /// A model does, and a digest where it does not.
    Model,
}

/// A summary that has to be made, of all that is before `covers`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummaryNeed {
    /// None.
    Nothing,
    /// Before the request goes on: it does not fit as it stands.
    Now(usize),
    /// Behind the request's back, for a later one.
    InBackground(usize),
}

/// How a request is to be forwarded, and what is still missing for it.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    /// How it stands now.
    pub view: ForwardedView,
    /// What has to be made.
    pub need: SummaryNeed,
    /// The record that the view starts from.
    pub base: Option<RecordMatch>,
    /// Whether the view holds a digest that no record has yet.
    pub fresh_digest: bool,
    /// Whether results would be cleared by now, had there been enough user messages.
    pub blocked_by_turns: bool,
}

impl RequestPlan {
    /// The conversation stands in `view`, nothing is missing, and nothing of it is to be adopted.
    pub fn from_view(view: ForwardedView) -> Self {
        Self {
            view,
            need: SummaryNeed::Nothing,
            base: None,
            fresh_digest: false,
            blocked_by_turns: false,
        }
    }
}

/// Decides how a request is forwarded, from its history and what is known of it.
pub fn plan(
    conversation: &Conversation<'_>,
    policy: &Policy,
    known: &PriorRecords,
    summaries: SummarySource,
) -> RequestPlan {
    // Met for the first time past its mark, a conversation gets the digest at its scheduled cut:
    // the same bytes on every replica, at once.
    let at_the_mark = match summaries {
        SummarySource::Model if known.seen => HardMarkMode::Report,
        SummarySource::Digest | SummarySource::Model => HardMarkMode::Cut,
    };
    let candidate = |base| Candidate::new(conversation, policy, base, at_the_mark);
    let stands = candidate(known.adopted.as_ref());
    if !policy.proactive || at_the_mark == HardMarkMode::Cut {
        return stands.plan;
    }
    let ready = known.ready.as_ref();
    let ready = ready.filter(|_| stands.outcome.size >= policy.thresholds.soft);
    // What was prepared long before it is needed covers little: it is used where it gives room, or
    // where nothing else is there.
    let (chosen, is_enough) = match ready.map(|ready| candidate(Some(ready))) {
        Some(ready) if !stands.fits() || stands.outcome.summary_due && ready.has_headroom() => {
            // Made for a larger window, it may leave too much.
            let is_enough = ready.has_headroom() || ready.fits();
            (ready, is_enough)
        }
        Some(ready) => (stands, ready.has_headroom()),
        None => (stands, false),
    };
    let need = if is_enough {
        SummaryNeed::Nothing
    } else {
        chosen.need()
    };
    RequestPlan {
        need,
        ..chosen.plan
    }
}

/// The conversation as it came, whatever is known of it: for an upstream that took it only so.
pub fn plan_unmodified(conversation: &Conversation<'_>, policy: &Policy) -> RequestPlan {
    let kept = PinnedHead::new(conversation, policy, None);
    RequestPlan::from_view(ForwardedView::new(
        kept,
        &PruneState::new(conversation, None),
    ))
}

/// The same with a digest where a summary was needed and none came.
pub fn plan_with_digest(
    conversation: &Conversation<'_>,
    policy: &Policy,
    known: &PriorRecords,
) -> RequestPlan {
    let base = known.adopted.as_ref();
    Candidate::new(conversation, policy, base, HardMarkMode::Cut).plan
}

/// The same compacted at `cut` whatever the marks say: by the record that is ready, or a digest.
/// `None` if that would gain nothing.
pub fn plan_explicit_compaction(
    conversation: &Conversation<'_>,
    policy: &Policy,
    known: &PriorRecords,
    cut: usize,
) -> Option<RequestPlan> {
    let base = known.ready.as_ref().or(known.adopted.as_ref());
    let Candidate {
        pinned_head: kept,
        outcome: standing,
        plan: mut out,
        ..
    } = Candidate::new(conversation, policy, base, HardMarkMode::Report);
    if known.ready.is_none() && cut > standing.summarised_until {
        let history = kept.end..cut;
        let budgets = summary_budgets(conversation, policy, history.clone());
        let text = digest::wrapped_digest(conversation, history, cut..cut, &budgets);
        out.view.set_summary(cut, text);
        out.fresh_digest = true;
    }
    let gains = out.view.tokens(conversation) < conversation.tokens();
    (out.view.is_summarised() && gains).then_some(out)
}

/// One way to forward a request: from the record that it starts from, or from none.
struct Candidate<'c, 'a> {
    conversation: &'c Conversation<'a>,
    policy: &'c Policy,
    pinned_head: PinnedHead,
    outcome: ReplayOutcome,
    /// With nothing to be made.
    plan: RequestPlan,
}

impl<'c, 'a> Candidate<'c, 'a> {
    fn new(
        conversation: &'c Conversation<'a>,
        policy: &'c Policy,
        base: Option<&RecordMatch>,
        at_the_mark: HardMarkMode,
    ) -> Self {
        let kept = PinnedHead::new(conversation, policy, base);
        let standing = replay(conversation, policy, kept, base, at_the_mark);
        let mut view =
            ForwardedView::new(kept, &standing.prune_state).with_placement(policy.placement);
        if let Some(base) = base {
            view = view.with_record(&base.record);
        }
        view.add_clips(standing.clips.iter().copied());
        view.set_thrash(standing.thrash);
        if standing.cut_here {
            let history = kept.end..standing.summarised_until;
            let budgets = summary_budgets(conversation, policy, history.clone());
            let text =
                digest::wrapped_digest(conversation, history, standing.retained.clone(), &budgets);
            view.set_summary(standing.summarised_until, text);
        }
        let outlook = RequestPlan {
            view,
            need: SummaryNeed::Nothing,
            base: base.cloned(),
            fresh_digest: standing.cut_here,
            blocked_by_turns: standing.blocked_by_turns,
        };
        Self {
            conversation,
            policy,
            pinned_head: kept,
            outcome: standing,
            plan: outlook,
        }
    }

    /// Whether the request fits beside the output that it asks for.
    fn fits(&self) -> bool {
        let fit = self
            .policy
            .thresholds
            .max_input(self.conversation.output_tokens());
        self.plan.view.tokens(self.conversation) <= fit
    }

    /// Whether it leaves room for a while. What the requests take is there for good, as one that is kept
    /// is.
    fn has_headroom(&self) -> bool {
        self.outcome.size - self.outcome.request_tokens <= self.policy.thresholds.relief
    }

    /// The summary that it takes to go on.
    fn need(&self) -> SummaryNeed {
        let Self {
            conversation,
            policy,
            outcome: standing,
            ..
        } = self;
        let messages = conversation.messages().len();
        let pace = standing.thrash.after_compaction(conversation, messages);
        let cut = cut_point::find_adaptive(conversation, policy, pace, self.pinned_head, messages);
        let Some(cut) = cut.filter(|&cut| cut > standing.summarised_until) else {
            return SummaryNeed::Nothing;
        };
        let useful = standing.can_compact && !standing.pruning_suffices;
        if standing.summary_due && !self.fits() {
            SummaryNeed::Now(cut)
        } else if standing.size >= policy.thresholds.soft && useful {
            SummaryNeed::InBackground(cut)
        } else {
            SummaryNeed::Nothing
        }
    }
}

#[cfg(test)]
mod tests;
