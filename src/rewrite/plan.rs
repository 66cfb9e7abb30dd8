//! What to replace, in the words of conversations.

use super::conversation::Conversation;
use super::cut_point::{self, Kept};
use super::digest::{self, budgets};
use super::placement::Placement;
use super::policy::Policy;
use super::prune::Fold;
use super::record::{Found, Known};
use super::replay::{AtTheMark, Standing, replay};
use super::tokens::Tokens;
use super::view::View;
use std::borrow::Cow;
use std::sync::Arc;

/// One replacement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Cut {
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

impl Cut {
    /// Where among the messages and their parts it begins.
    pub(super) fn place(&self) -> (usize, usize) {
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
pub struct Plan {
    cuts: Vec<Cut>,
}

impl Plan {
    pub(crate) fn new(cuts: Vec<Cut>) -> Self {
        Self { cuts }
    }

    /// The cuts, in the order of the messages.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }
}

/// Who writes what stands for history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Summaries {
    /// Nobody: a digest does, by rule.
    Digest,
    /// A model does, and a digest where it does not.
    Model,
}

/// A summary that has to be made, of all that is before `covers`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// None.
    Nothing,
    /// Before the request goes on: it does not fit as it stands.
    Now(usize),
    /// Behind the request's back, for a later one.
    Soon(usize),
}

/// How a request is to be forwarded, and what is still missing for it.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// How it stands now.
    pub view: View,
    /// What has to be made.
    pub need: Need,
    /// The record that the view starts from.
    pub base: Option<Found>,
    /// Whether the view holds a digest that no record has yet.
    pub fresh_digest: bool,
    /// Whether results would be cleared by now, had there been enough user messages.
    pub waits_for_turns: bool,
}

impl Outlook {
    /// The conversation stands in `view`, nothing is missing, and nothing of it is to be adopted.
    pub fn of(view: View) -> Self {
        Self {
            view,
            need: Need::Nothing,
            base: None,
            fresh_digest: false,
            waits_for_turns: false,
        }
    }
}

/// Decides how a request is forwarded, from its history and what is known of it.
pub fn plan(
    conversation: &Conversation<'_>,
    policy: &Policy,
    known: &Known,
    summaries: Summaries,
) -> Outlook {
    // Met for the first time past its mark, a conversation gets the digest at its scheduled cut:
    // the same bytes on every replica, at once.
    let at_the_mark = match summaries {
        Summaries::Model if known.seen => AtTheMark::Note,
        Summaries::Digest | Summaries::Model => AtTheMark::Cut,
    };
    let candidate = |base| Candidate::of(conversation, policy, base, at_the_mark);
    let stands = candidate(known.adopted.as_ref());
    if !policy.proactive || at_the_mark == AtTheMark::Cut {
        return stands.outlook;
    }
    let ready = known.ready.as_ref();
    let ready = ready.filter(|_| stands.standing.size >= policy.marks.soft);
    // What was prepared long before it is needed covers little: it is used where it gives room, or
    // where nothing else is there.
    let (chosen, is_enough) = match ready.map(|ready| candidate(Some(ready))) {
        Some(ready) if !stands.fits() || stands.standing.due && ready.gives_room() => {
            // Made for a larger window, it may leave too much.
            let is_enough = ready.gives_room() || ready.fits();
            (ready, is_enough)
        }
        Some(ready) => (stands, ready.gives_room()),
        None => (stands, false),
    };
    let need = if is_enough {
        Need::Nothing
    } else {
        chosen.need()
    };
    Outlook {
        need,
        ..chosen.outlook
    }
}

/// The conversation as it came, whatever is known of it: for an upstream that took it only so.
pub fn plan_untouched(conversation: &Conversation<'_>, policy: &Policy) -> Outlook {
    let kept = Kept::of(conversation, policy, None);
    Outlook::of(View::new(kept, &Fold::new(conversation, None)))
}

/// The same with a digest where a summary was needed and none came.
pub fn plan_with_digest(
    conversation: &Conversation<'_>,
    policy: &Policy,
    known: &Known,
) -> Outlook {
    let base = known.adopted.as_ref();
    Candidate::of(conversation, policy, base, AtTheMark::Cut).outlook
}

/// The same compacted at `cut` whatever the marks say: by the record that is ready, or a digest.
/// `None` if that would gain nothing.
pub fn plan_now(
    conversation: &Conversation<'_>,
    policy: &Policy,
    known: &Known,
    cut: usize,
) -> Option<Outlook> {
    let base = known.ready.as_ref().or(known.adopted.as_ref());
    let Candidate {
        kept,
        standing,
        outlook: mut out,
        ..
    } = Candidate::of(conversation, policy, base, AtTheMark::Note);
    if known.ready.is_none() && cut > standing.covers {
        let history = kept.end..cut;
        let budgets = budgets(conversation, policy, history.clone());
        let text = digest::wrapped(conversation, history, cut..cut, &budgets);
        out.view.cover(cut, text);
        out.fresh_digest = true;
    }
    let gains = out.view.tokens(conversation) < conversation.tokens();
    (out.view.is_summarised() && gains).then_some(out)
}

/// One way to forward a request: from the record that it starts from, or from none.
struct Candidate<'c, 'a> {
    conversation: &'c Conversation<'a>,
    policy: &'c Policy,
    kept: Kept,
    standing: Standing,
    /// With nothing to be made.
    outlook: Outlook,
}

impl<'c, 'a> Candidate<'c, 'a> {
    fn of(
        conversation: &'c Conversation<'a>,
        policy: &'c Policy,
        base: Option<&Found>,
        at_the_mark: AtTheMark,
    ) -> Self {
        let kept = Kept::of(conversation, policy, base);
        let standing = replay(conversation, policy, kept, base, at_the_mark);
        let mut view = View::new(kept, &standing.fold).placing(policy.placement);
        if let Some(base) = base {
            view = view.after(&base.record);
        }
        view.clip(standing.clips.iter().copied());
        view.set_pace(standing.pace);
        if standing.cut_here {
            let history = kept.end..standing.covers;
            let budgets = budgets(conversation, policy, history.clone());
            let text = digest::wrapped(conversation, history, standing.stays.clone(), &budgets);
            view.cover(standing.covers, text);
        }
        let outlook = Outlook {
            view,
            need: Need::Nothing,
            base: base.cloned(),
            fresh_digest: standing.cut_here,
            waits_for_turns: standing.waits_for_turns,
        };
        Self {
            conversation,
            policy,
            kept,
            standing,
            outlook,
        }
    }

    /// Whether the request fits beside the output that it asks for.
    fn fits(&self) -> bool {
        let fit = self.policy.marks.fit(self.conversation.output());
        self.outlook.view.tokens(self.conversation) <= fit
    }

    /// Whether it leaves room for a while. What the requests take is there for good, as one that is kept
    /// is.
    fn gives_room(&self) -> bool {
        self.standing.size - self.standing.requests <= self.policy.marks.relief
    }

    /// The summary that it takes to go on.
    fn need(&self) -> Need {
        let Self {
            conversation,
            policy,
            standing,
            ..
        } = self;
        let messages = conversation.messages().len();
        let pace = standing.pace.compacted_at(conversation, messages);
        let cut = cut_point::find_at(conversation, policy, pace, self.kept, messages);
        let Some(cut) = cut.filter(|&cut| cut > standing.covers) else {
            return Need::Nothing;
        };
        let useful = standing.has_hope && !standing.pruning_suffices;
        if standing.due && !self.fits() {
            Need::Now(cut)
        } else if standing.size >= policy.marks.soft && useful {
            Need::Soon(cut)
        } else {
            Need::Nothing
        }
    }
}

#[cfg(test)]
mod tests;
