//! What is sent after a first reply that was no answer.

use super::super::report::Report;
use super::Chat;
use crate::metrics::{Act, Again};
use crate::rewrite::compact::{Recovery, Rung, recover};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::images;
use crate::rewrite::overflow::{Evidence, Overflow, Verdict};
use crate::rewrite::placement::Placement;
use crate::rewrite::plan::{Outlook, Summaries};
use crate::rewrite::policy::Policy;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::silence::Heard;
use crate::rewrite::window::{learn, policy_window};

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
    Send(Second),
}

impl Next {
    /// Sends `second`, if there is one.
    fn of(second: Option<Second>) -> Self {
        second.map_or(Self::Relay, Self::Send)
    }
}

/// What the second send is: exactly one of these.
#[derive(Debug)]
pub(in crate::proxy) enum Second {
    /// The first reply was taken for an overflow.
    Compacted { view: View, rung: Rung, met: Met },
    /// The first reply was a limit on bytes.
    FewerBytes(View),
    /// The same with its summary in the other place: the first was refused for its form, and the
    /// original is not estimated to fit.
    Elsewhere(Outlook),
    /// Our rewrite was refused, and the original is estimated to fit, or nobody knows what does.
    Original {
        why: Refusal,
        /// The form of the summary that was refused with it: it was for the form if the original is
        /// answered.
        suspected: Option<Placement>,
    },
    /// The history fits, and only the output asked for is too much.
    SmallerOutput {
        view: View,
        /// A window that is smaller than it was taken to be.
        met: Option<Met>,
    },
}

/// What was taken for an overflow. Whether it was one is not sure before less was answered: an error may
/// quote what somebody wrote.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct Met {
    /// The size of what met it.
    pub(super) tokens: Tokens,
    pub(super) overflow: Overflow,
}

/// How our rewrite was refused.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) enum Refusal {
    Malformed,
    /// For no known reason.
    Unexplained,
}

impl Second {
    /// How it is forwarded; none where that is as it came.
    pub(super) fn view(&self) -> Option<&View> {
        match self {
            Self::Compacted { view, .. }
            | Self::FewerBytes(view)
            | Self::SmallerOutput { view, .. } => Some(view),
            Self::Elsewhere(outlook) => Some(&outlook.view),
            Self::Original { .. } => None,
        }
    }

    /// The plain estimate of what it costs.
    pub(super) fn tokens(&self, conversation: &Conversation<'_>) -> Tokens {
        let came = || conversation.tokens();
        self.view()
            .map_or_else(came, |view| view.tokens(conversation))
    }

    /// Whether it was a reply without a word that was taken for an overflow.
    pub(super) fn follows_silence(&self) -> bool {
        match self {
            Self::Compacted { met, .. } => met.overflow.evidence == Evidence::Silent,
            Self::Elsewhere(_)
            | Self::FewerBytes(_)
            | Self::Original { .. }
            | Self::SmallerOutput { .. } => false,
        }
    }

    /// Tells what is done with it.
    pub(super) fn tell(&self, conversation: &Conversation<'_>, report: &mut Report) {
        match self {
            Self::Compacted { view, rung, .. } => report.retried(conversation, view, *rung),
            Self::Elsewhere(outlook) => {
                report.add(Act::Retry);
                report.see(conversation, &outlook.view);
            }
            Self::FewerBytes(view) => {
                report.add(Act::FewerBytes);
                report.see(conversation, view);
            }
            Self::Original { .. } => {
                report.add(Act::Original);
                report.after = report.before;
            }
            Self::SmallerOutput { .. } => report.add(Act::SmallerOutput),
        }
    }

    /// Its name among what is counted.
    pub(in crate::proxy) fn kind(&self) -> Again {
        match self {
            Self::Compacted { .. } | Self::Elsewhere(_) => Again::Compacted,
            Self::FewerBytes(_) => Again::FewerBytes,
            Self::Original { .. } => Again::Original,
            Self::SmallerOutput { .. } => Again::SmallerOutput,
        }
    }
}

impl Chat<'_> {
    /// What follows a reply to `first` with this verdict.
    pub(in crate::proxy) async fn next(&mut self, first: &Outlook, verdict: Verdict) -> Next {
        match verdict {
            Verdict::Fine => Next::Relay,
            Verdict::FewerBytes => Next::of(self.fewer_bytes(first)),
            Verdict::Malformed => {
                if let Some(original) = self.original(first, Refusal::Malformed) {
                    return Next::Send(original);
                }
                if first.view.is_summarised() {
                    self.suspect_form();
                }
                Next::of(self.elsewhere(first))
            }
            Verdict::Overflow(overflow) => self.overflowed(first, &overflow).await,
            Verdict::SmallerOutput {
                limit,
                input,
                output,
            } => {
                let lowered =
                    self.smaller_output(first, Tokens::new(limit), input.map(Tokens::new));
                if let Some(view) = lowered {
                    let met = self.smaller_window(first, limit, input);
                    return Next::Send(Second::SmallerOutput { view, met });
                }
                // The history has to make room: for all of an output that no key of the request
                // asks for, or for one that can be lowered beside it.
                let stays = self.output().map_or(output, |_| 0);
                let overflow = Overflow::stated(Some(limit.saturating_sub(stays)), input);
                self.overflowed(first, &overflow).await
            }
            Verdict::Unexplained => Next::of(self.unexplained(first)),
        }
    }

    /// What came, in place of what we made of it, if it is estimated to fit, or nobody knows how much
    /// does.
    fn original(&self, first: &Outlook, why: Refusal) -> Option<Second> {
        let fits = self.policy.marks.fit(self.output());
        let rewritten = first.view.plan(self.conversation).is_some();
        let summarised = first.view.is_summarised();
        let suspected = summarised.then_some(self.policy.placement);
        let fits = self.conversation.tokens() <= fits || self.assumes_its_window();
        (rewritten && fits).then_some(Second::Original { why, suspected })
    }

    /// The summary in the other place, where it was refused in this one and has not been in that. If it
    /// is answered there, the place was the reason.
    fn elsewhere(&mut self, first: &Outlook) -> Option<Second> {
        let forms = &self.shared().lessons.forms;
        let refusals = forms.refusals_in(&self.model, self.chains.oldest());
        if !self.has_another_form(refusals) {
            return None;
        }
        let view = first.view.merged(self.conversation)?;
        self.policy.placement = Placement::Merged;
        Some(Second::Elsewhere(Outlook {
            view,
            ..first.clone()
        }))
    }

    /// What came, where what we made of it was refused and nobody knows why, unless the same
    /// conversation was refused as it came, too, and not answered since: the fault is its own.
    fn unexplained(&self, first: &Outlook) -> Option<Second> {
        let key = self.chains.oldest()?;
        if self.shared().lessons.forms.doubts.is_excused(key) {
            return None;
        }
        self.original(first, Refusal::Unexplained)
    }

    /// What the ladder says, for a window that the refusal has shown.
    async fn overflowed(&mut self, first: &Outlook, overflow: &Overflow) -> Next {
        let tokens = first.view.tokens(self.conversation);
        let silent = overflow.evidence == Evidence::Silent;
        if silent && !self.is_for_its_size(tokens) {
            return Next::Relay;
        }
        if let (Some(limit), None, Some(_)) = (overflow.limit, overflow.used, overflow.output) {
            let limit = Tokens::new(limit);
            if tokens.percent(DENSER_PERCENT) < limit.percent(NEAR_PERCENT)
                && let Some(view) = self.smaller_output(first, limit, None)
            {
                return Next::Send(Second::SmallerOutput { view, met: None });
            }
        }
        let windows = &self.shared().lessons.windows;
        // What nothing that was accepted speaks against is believed at once: the client may leave
        // before there is a proof, and come again.
        if !silent && tokens > windows.of(&self.model).accepted {
            windows.refused(&self.model, tokens, overflow);
        }
        let learned = learn(tokens, overflow);
        let window = policy_window(learned);
        let set = self.shared().config.conduct(&self.model).set_window();
        let window = set.map_or(window, |set| set.min(window));
        self.policy = Policy::new(&self.wishes, window).holding(learned);
        let mut recovery = self.climb(first, self.summaries());
        if let Recovery::Ask(covers) = recovery {
            self.wait_for_summary(covers).await;
            recovery = self.climb(first, Summaries::Digest);
        }
        match recovery {
            Recovery::Ask(_) | Recovery::GiveUp => Next::GiveUp,
            Recovery::Retry(mut view, rung) => {
                if let Some(left) = self.too_much_output(&view, tokens, overflow) {
                    view.ask_for(left);
                }
                let overflow = *overflow;
                let met = Met { tokens, overflow };
                Next::Send(Second::Compacted { view, rung, met })
            }
        }
    }

    /// What shows that the window is smaller than it was taken to be. It is to be learned, though the
    /// history still fits: the next request would be refused for the same reason.
    fn smaller_window(&self, first: &Outlook, limit: u32, input: Option<u32>) -> Option<Met> {
        if input.is_none() || Tokens::new(limit) >= self.policy.rule_marks.window {
            return None;
        }
        let overflow = Overflow::stated(Some(limit), input);
        let tokens = first.view.tokens(self.conversation);
        Some(Met { tokens, overflow })
    }

    /// What the window leaves beside `view` for an output of which recovery counted only a part:
    /// one above half of the window would be refused again, however short the history is. All is
    /// as the upstream counts, by what it counted for the refused request of `tokens`.
    fn too_much_output(&self, view: &View, tokens: Tokens, overflow: &Overflow) -> Option<Tokens> {
        let asked = self.output()?;
        let limit = Tokens::new(overflow.limit?);
        let view = view.tokens(self.conversation);
        let input = overflow.used.map_or_else(
            || view.percent(DENSER_PERCENT),
            |used| view.scaled(Tokens::new(used), tokens),
        );
        let left = limit - input - OUTPUT_MARGIN;
        (asked > limit.over(2) && asked > left && left > Tokens::ZERO).then_some(left)
    }

    /// Whether the size of a request that met silence may be the reason: it is near the window, or
    /// where that is only assumed, one no larger met it before.
    fn is_for_its_size(&self, tokens: Tokens) -> bool {
        let is_near = tokens >= self.policy.marks.window.percent(NEAR_PERCENT);
        match self.shared().lessons.windows.silent(&self.model, tokens) {
            Heard::Again => is_near || self.assumes_its_window(),
            Heard::First => is_near,
            Heard::Inexplicable => false,
        }
    }

    /// The oldest images by markers; the newest user turn's stay.
    fn fewer_bytes(&self, first: &Outlook) -> Option<Second> {
        let before = images::before_newest_turn(self.conversation)?;
        let mut view = first.view.clone();
        view.drop_images_before(before);
        // What was refused is not sent again.
        let fewer = view.plan(self.conversation) != first.view.plan(self.conversation);
        fewer.then_some(Second::FewerBytes(view))
    }

    fn climb(&self, first: &Outlook, summaries: Summaries) -> Recovery {
        recover(
            self.conversation,
            &self.policy,
            &self.known,
            &first.view,
            summaries,
        )
    }

    /// The output lowered to what the window leaves, in the key that the client used.
    fn smaller_output(
        &self,
        first: &Outlook,
        limit: Tokens,
        input: Option<Tokens>,
    ) -> Option<View> {
        let asked = self.output()?;
        let tokens = first.view.tokens(self.conversation);
        let input = input.unwrap_or_else(|| tokens.percent(DENSER_PERCENT));
        let left = limit - input - OUTPUT_MARGIN;
        if left >= asked || left < asked.over(4).min(LEAST_OUTPUT) {
            return None;
        }
        let mut view = first.view.clone();
        view.ask_for(left);
        Some(view)
    }
}
