//! What is sent after a first reply that was no answer.

use super::super::report::Report;
use super::attempt::{Attempt, Basis};
use super::{Chat, notices};
use crate::metrics::{Act, Again};
use crate::rewrite::chat_completions::asks_for_negative;
use crate::rewrite::compact::{Recovery, Rung, recover};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::images;
use crate::rewrite::overflow::{Evidence, Overflow, Verdict};
use crate::rewrite::placement::Placement;
use crate::rewrite::plan::{Outlook, Summaries, plan_untouched};
use crate::rewrite::policy::Policy;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::silence::Heard;
use crate::rewrite::window::{learn_beside, to_two_digits};

/// Between our count of a prompt and the upstream's, where only ours is there: real tokenizers were
/// up to 1.3 times the plain estimate on mixed code and prose.
const DENSER_PERCENT: u32 = 130;
/// Left free when an output is lowered to what the window leaves.
const OUTPUT_MARGIN: Tokens = Tokens::new(256);
/// An output is not lowered to less than this, or than a quarter of what was asked where that is less:
/// a call of a tool that is torn off helps nobody, and history can make room.
const LEAST_OUTPUT: Tokens = Tokens::new(1_024);
/// A reply that only looks like an overflow is one where the request is that near the window.
const NEAR_PERCENT: u32 = 75;

/// What follows a first reply.
#[derive(Debug)]
pub(in crate::proxy) enum Next {
    /// It was an overflow, and nothing would fit: it is relayed, so that the agent's own recovery
    /// still works.
    GiveUp,
    /// It is relayed.
    Relay,
    /// Another request is sent.
    Send(Box<Attempt>),
}

impl Next {
    /// Sends `second`, if there is one.
    fn of(second: Option<Attempt>) -> Self {
        second.map_or(Self::Relay, Self::send)
    }

    fn send(second: Attempt) -> Self {
        Self::Send(Box::new(second))
    }
}

/// Why a request is sent in second place: exactly one of these.
#[derive(Clone, Copy, Debug)]
pub(super) enum Second {
    /// The first reply was taken for an overflow.
    Compacted { rung: Rung, refused: TooLarge },
    /// The summary is in the other place: the first was refused for its form, and the original is not
    /// estimated to fit.
    Elsewhere,
    /// The first reply was a limit on bytes.
    FewerBytes,
    /// Our rewrite was refused, and the original is estimated to fit, or nobody knows what does.
    Original {
        why: Refusal,
        /// The form of the summary that was refused with it: it was for the form if the original is
        /// answered.
        suspected: Option<Placement>,
    },
    /// The history fits, and only the output asked for is too much.
    SmallerOutput {
        /// What shows a window that is smaller than it was taken to be.
        refused: Option<TooLarge>,
    },
}

/// What was taken for an overflow. Whether it was one is not sure before less was answered: an error may
/// quote what somebody wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooLarge {
    /// The size of what met it.
    pub(super) tokens: Tokens,
    pub(super) overflow: Overflow,
}

/// How our rewrite was refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    Malformed,
    /// For no known reason.
    Unexplained,
}

impl TooLarge {
    /// Whether it was a reply without a word.
    pub(super) fn is_silent(&self) -> bool {
        self.overflow.evidence == Evidence::Silent
    }
}

impl Second {
    /// Tells what is done with it: the conversation stands in `view`.
    pub(super) fn tell(self, conversation: &Conversation<'_>, view: &View, report: &mut Report) {
        match self {
            Self::Compacted { rung, .. } => report.retried(conversation, view, rung),
            Self::Elsewhere => {
                report.add(Act::Retry);
                report.see(conversation, view);
            }
            Self::FewerBytes => {
                report.add(Act::FewerBytes);
                report.see(conversation, view);
            }
            Self::Original { .. } => report.undone(),
            Self::SmallerOutput { .. } => report.add(Act::SmallerOutput),
        }
    }

    /// Whether it was a reply without a word that was taken for an overflow.
    pub(super) fn follows_silence(self) -> bool {
        match self {
            Self::Compacted { refused, .. } => refused.is_silent(),
            Self::Elsewhere
            | Self::FewerBytes
            | Self::Original { .. }
            | Self::SmallerOutput { .. } => false,
        }
    }

    /// Its name among what is counted.
    pub(super) fn kind(self) -> Again {
        match self {
            Self::Compacted { .. } | Self::Elsewhere => Again::Compacted,
            Self::FewerBytes => Again::FewerBytes,
            Self::Original { .. } => Again::Original,
            Self::SmallerOutput { .. } => Again::SmallerOutput,
        }
    }
}

impl Chat<'_> {
    /// What follows a reply to `first` with this verdict.
    pub(in crate::proxy) async fn next(&self, first: &Attempt, verdict: Verdict) -> Next {
        match verdict {
            Verdict::Failed | Verdict::Fine => Next::Relay,
            Verdict::FewerBytes => Next::of(self.fewer_bytes(first)),
            Verdict::Malformed => {
                if let Some(original) = self.original(first, Refusal::Malformed) {
                    return Next::send(original);
                }
                self.suspect_form(first);
                Next::of(self.elsewhere(first))
            }
            Verdict::Overflow(overflow) if self.is_of_the_client(&overflow) => Next::Relay,
            Verdict::Overflow(overflow) => self.overflowed(first, overflow).await,
            Verdict::SmallerOutput {
                limit,
                input,
                output,
            } => {
                if let Some(second) = self.smaller_output(first, limit, input) {
                    return Next::send(second);
                }
                // The history has to make room: for all of an output that no key of the request
                // asks for, or for one that can be lowered beside it.
                let stays = self.output().map_or(output, |_| 0);
                let overflow = Overflow::stated(Some(limit.saturating_sub(stays)), input);
                self.overflowed(first, overflow).await
            }
            Verdict::Unexplained => Next::of(self.unexplained(first)),
        }
    }

    /// Whether what is told to be too much by some number is a number of the client's own.
    fn is_of_the_client(&self, overflow: &Overflow) -> bool {
        overflow.excess.is_some()
            && overflow.limit.is_none()
            && asks_for_negative(self.came.conversation.body())
    }

    /// What came, in place of what we made of it, if it is estimated to fit, or nobody knows how much
    /// does.
    fn original(&self, first: &Attempt, why: Refusal) -> Option<Attempt> {
        let conversation = self.came.conversation;
        let fits = first.basis.policy.marks.fit(self.output());
        let rewritten = first.view().plan(conversation).is_some();
        let fits = conversation.tokens() <= fits || self.assumes_its_window(&first.basis);
        if !rewritten || !fits {
            return None;
        }
        let policy = &first.basis.policy;
        let summarised = first.view().is_summarised();
        let suspected = summarised.then_some(policy.placement);
        let outlook = plan_untouched(conversation, policy);
        let why = Second::Original { why, suspected };
        Some(self.second(first, first.basis.clone(), outlook, why))
    }

    /// The summary in the other place, where it was refused in this one and has not been in that. If it
    /// is answered there, the place was the reason.
    fn elsewhere(&self, first: &Attempt) -> Option<Attempt> {
        let forms = &self.shared().lessons.forms;
        let refusals = forms.refusals_in(&self.model, self.chains.oldest());
        if !self.has_another_form(refusals) {
            return None;
        }
        let outlook = Outlook {
            view: first.view().merged(self.came.conversation)?,
            ..first.outlook.clone()
        };
        let mut basis = first.basis.clone();
        basis.policy.placement = Placement::Merged;
        Some(self.second(first, basis, outlook, Second::Elsewhere))
    }

    /// What came, where what we made of it was refused and nobody knows why, unless the same
    /// conversation was refused as it came, too, and not answered since: the fault is its own.
    fn unexplained(&self, first: &Attempt) -> Option<Attempt> {
        let key = self.chains.oldest()?;
        if self
            .shared()
            .lessons
            .forms
            .doubts
            .is_excused(&self.with_its_model(key))
        {
            return None;
        }
        self.original(first, Refusal::Unexplained)
    }

    /// The oldest images by markers; the newest user turn's stay.
    fn fewer_bytes(&self, first: &Attempt) -> Option<Attempt> {
        let conversation = self.came.conversation;
        let before = images::before_newest_turn(conversation)?;
        let mut view = first.view().clone();
        view.drop_images_before(before);
        // What was refused is not sent again.
        let fewer = view.plan(conversation) != first.view().plan(conversation);
        fewer.then(|| self.in_view(first, view, Second::FewerBytes))
    }

    /// The output lowered to what is left of `limit`, where the history fits beside that.
    fn smaller_output(&self, first: &Attempt, limit: u32, input: Option<u32>) -> Option<Attempt> {
        let tokens = Tokens::new(limit);
        let view = self.lowered(first, tokens, input.map(Tokens::new))?;
        // It is to be learned that the window is smaller than it was taken to be, though the history
        // still fits: the next request would be refused for the same reason.
        let is_news = input.is_some() && tokens < first.basis.policy.rule_marks.window;
        let refused = is_news.then(|| TooLarge {
            tokens: self.tokens(first),
            overflow: Overflow::stated(Some(limit), input),
        });
        Some(self.in_view(first, view, Second::SmallerOutput { refused }))
    }

    /// What the ladder says, for a window that the refusal has shown.
    async fn overflowed(&self, first: &Attempt, overflow: Overflow) -> Next {
        let tokens = self.tokens(first);
        let refused = TooLarge { tokens, overflow };
        if refused.is_silent() && !self.is_for_its_size(first) {
            return Next::Relay;
        }
        if let Some(view) = self.lowered_by_estimate(first, &refused) {
            let why = Second::SmallerOutput { refused: None };
            return Next::send(self.in_view(first, view, why));
        }
        let before = self.shown_before(&first.basis);
        self.believe(&refused);
        let mut basis = self.basis_after(first, &refused, before);
        let Some((mut view, rung)) = self.climb(first, &mut basis).await else {
            notices::tell_given_up(first, &basis);
            return Next::GiveUp;
        };
        if let Some(left) = self.too_much_output(&view, &refused) {
            view.ask_for(left);
        }
        let why = Second::Compacted { rung, refused };
        Next::send(self.second(first, basis, Outlook::of(view), why))
    }

    /// What nothing that was accepted speaks against is believed at once: the client may leave
    /// before there is a proof, and come again.
    fn believe(&self, refused: &TooLarge) {
        let windows = &self.shared().lessons.windows;
        if !refused.is_silent() && refused.tokens > windows.of(&self.model).accepted {
            windows.refused(&self.model, refused.tokens, &refused.overflow);
        }
    }

    /// What is to be planned by with the window that a refusal has shown, beside what others had `before`.
    fn basis_after(&self, first: &Attempt, refused: &TooLarge, before: Option<Tokens>) -> Basis {
        let learned = learn_beside(refused.tokens, &refused.overflow, before);
        let window = to_two_digits(learned);
        let set = self.shared().config.conduct(&self.model).set_window();
        let window = set.map_or(window, |set| set.min(window));
        Basis {
            policy: Policy::new(&self.wishes, window).holding(learned),
            ..first.basis.clone()
        }
    }

    /// The ladder. A summary that it asks for is waited for.
    async fn climb(&self, first: &Attempt, basis: &mut Basis) -> Option<(View, Rung)> {
        let recovery = |basis: &Basis, summaries| {
            let (policy, known) = (&basis.policy, &basis.known);
            recover(
                self.came.conversation,
                policy,
                known,
                first.view(),
                summaries,
            )
        };
        let mut recovered = recovery(basis, self.summaries());
        if let Recovery::Ask(covers) = recovered {
            let still = |basis: &Basis| match recovery(basis, self.summaries()) {
                Recovery::Ask(covers) => Some(covers),
                Recovery::GiveUp | Recovery::Retry(..) => None,
            };
            self.wait_for_any_summary(basis, covers, still).await;
            recovered = recovery(basis, Summaries::Digest);
        }
        match recovered {
            Recovery::Ask(_) | Recovery::GiveUp => None,
            Recovery::Retry(view, rung) => Some((view, rung)),
        }
    }

    /// What is sent after `first` by the same, in another view.
    fn in_view(&self, first: &Attempt, view: View, why: Second) -> Attempt {
        self.second(first, first.basis.clone(), Outlook::of(view), why)
    }

    /// What the window leaves beside `view` for an output of which recovery counted only a part:
    /// one above half of the window would be refused again, however short the history is. All is
    /// as the upstream counts, by what it counted for what was refused.
    fn too_much_output(&self, view: &View, refused: &TooLarge) -> Option<Tokens> {
        let asked = self.output()?;
        let limit = Tokens::new(refused.overflow.limit?);
        let view = view.tokens(self.came.conversation);
        let input = refused.overflow.used.map_or_else(
            || view.percent(DENSER_PERCENT),
            |used| view.scaled(Tokens::new(used), refused.tokens),
        );
        let left = limit - input - OUTPUT_MARGIN;
        let is_enough = left > Tokens::ZERO && !self.came.conversation.may_think(left);
        (asked > limit.over(2) && asked > left && is_enough).then_some(left)
    }

    /// Whether the size of a request that met silence may be the reason: it is near the window, or
    /// where that is only assumed, one no larger met it before.
    fn is_for_its_size(&self, first: &Attempt) -> bool {
        let tokens = self.tokens(first);
        let basis = &first.basis;
        let is_near = tokens >= basis.policy.marks.window.percent(NEAR_PERCENT);
        match self.shared().lessons.windows.silent(&self.model, tokens) {
            Heard::Again => is_near || self.assumes_its_window(basis),
            Heard::First => is_near,
            Heard::Inexplicable => false,
        }
    }

    /// The output lowered where the upstream did not measure the prompt to its end, and by our own
    /// estimate that is all it takes.
    fn lowered_by_estimate(&self, first: &Attempt, refused: &TooLarge) -> Option<View> {
        let TooLarge { tokens, overflow } = refused;
        let (Some(limit), None, Some(_)) = (overflow.limit, overflow.used, overflow.output) else {
            return None;
        };
        let limit = Tokens::new(limit);
        if tokens.percent(DENSER_PERCENT) >= limit.percent(NEAR_PERCENT) {
            return None;
        }
        self.lowered(first, limit, None)
    }

    /// The output lowered to what the window leaves, in the key that the client used.
    fn lowered(&self, first: &Attempt, limit: Tokens, input: Option<Tokens>) -> Option<View> {
        let asked = self.output()?;
        let input = input.unwrap_or_else(|| self.tokens(first).percent(DENSER_PERCENT));
        let left = limit - input - OUTPUT_MARGIN;
        // Thought takes its part first, and no provider lets it have all.
        let starved = self.came.conversation.may_think(left - LEAST_OUTPUT);
        if left >= asked || left < asked.over(4).min(LEAST_OUTPUT) || starved {
            return None;
        }
        let mut view = first.view().clone();
        view.ask_for(left);
        Some(view)
    }
}
