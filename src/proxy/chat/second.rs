//! What is sent after a first reply that was no answer.

use super::super::report::ChatReport;
use super::attempt::{Attempt, PlanInputs};
use super::{Chat, notices};
use crate::metrics::{Action, RetryKind};
use crate::rewrite::chat_completions::has_negative_output_limit;
use crate::rewrite::compact::{RecoveryDecision, RecoveryStep, plan_recovery};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::images;
use crate::rewrite::overflow::{Evidence, Overflow, Verdict};
use crate::rewrite::placement::Placement;
use crate::rewrite::plan::{RequestPlan, SummarySource, plan_unmodified};
use crate::rewrite::policy::Policy;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::ForwardedView;
use crate::rewrite::window::silence::EmptyReplyCause;
use crate::rewrite::window::{to_two_digits, window_from_repeated_refusal};

/// Between our count of a prompt and the upstream's, where only ours is there: real tokenizers were
/// up to 1.3 times the plain estimate on mixed code and prose.
const TOKENIZER_MARGIN_PERCENT: u32 = 130;
/// Left free when an output is lowered to what the window leaves.
const OUTPUT_MARGIN: Tokens = Tokens::new(256);
/// An output is not lowered to less than this, or than a quarter of what was asked where that is less:
/// a call of a tool that is torn off helps nobody, and history can make room.
const MIN_OUTPUT: Tokens = Tokens::new(1_024);
/// A reply that only looks like an overflow is one where the request is that near the window.
const NEAR_WINDOW_PERCENT: u32 = 75;

/// What follows a first reply.
#[derive(Debug)]
pub(in crate::proxy) enum NextStep {
    /// It was an overflow, and nothing would fit: it is relayed, so that the agent's own recovery
    /// still works.
    GiveUp,
    /// It is relayed.
    Relay,
    /// Another request is sent.
    Retry(Box<Attempt>),
}

impl NextStep {
    /// Sends `second`, if there is one.
    fn from_retry(second: Option<Attempt>) -> Self {
        second.map_or(Self::Relay, Self::retry)
    }

    fn retry(second: Attempt) -> Self {
        Self::Retry(Box::new(second))
    }
}

/// Why a request is sent in second place: exactly one of these.
#[derive(Clone, Copy, Debug)]
pub(super) enum RetryReason {
    /// The first reply was taken for an overflow.
    Compacted {
        rung: RecoveryStep,
        refused: SuspectedOverflow,
    },
    /// The summary is in the other place: the first was refused for its form, and the original is not
    /// estimated to fit.
    OtherPlacement,
    /// The first reply was a limit on bytes.
    FewerBytes,
    /// Our rewrite was refused, and the original is estimated to fit, or nobody knows what does.
    Original {
        why: RewriteRefusal,
        /// The form of the summary that was refused with it: it was for the form if the original is
        /// answered.
        suspected: Option<Placement>,
    },
    /// The history fits, and only the output asked for is too much.
    SmallerOutput {
        /// What shows a window that is smaller than it was taken to be.
        refused: Option<SuspectedOverflow>,
    },
}

/// What was taken for an overflow. Whether it was one is not sure before less was answered: an error may
/// quote what somebody wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuspectedOverflow {
    /// The size of what met it.
    pub(super) tokens: Tokens,
    pub(super) overflow: Overflow,
}

/// How our rewrite was refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum RewriteRefusal {
    Malformed,
    /// For no known reason.
    Unexplained,
}

impl SuspectedOverflow {
    /// Whether it was a reply without a word.
    pub(super) fn is_empty_reply(&self) -> bool {
        self.overflow.evidence == Evidence::EmptyReply
    }
}

impl RetryReason {
    /// Tells what is done with it: the conversation stands in `view`.
    pub(super) fn add_to_report(
        self,
        conversation: &Conversation<'_>,
        view: &ForwardedView,
        report: &mut ChatReport,
    ) {
        match self {
            Self::Compacted { rung, .. } => report.add_retry(conversation, view, rung),
            Self::OtherPlacement => {
                report.add(Action::Retry);
                report.update_sizes(conversation, view);
            }
            Self::FewerBytes => {
                report.add(Action::FewerBytes);
                report.update_sizes(conversation, view);
            }
            Self::Original { .. } => report.revert_to_original(),
            Self::SmallerOutput { .. } => report.add(Action::SmallerOutput),
        }
    }

    /// Whether it was a reply without a word that was taken for an overflow.
    pub(super) fn follows_empty_reply(self) -> bool {
        match self {
            Self::Compacted { refused, .. } => refused.is_empty_reply(),
            Self::OtherPlacement
            | Self::FewerBytes
            | Self::Original { .. }
            | Self::SmallerOutput { .. } => false,
        }
    }

    /// Its name among what is counted.
    pub(super) fn kind(self) -> RetryKind {
        match self {
            Self::Compacted { .. } | Self::OtherPlacement => RetryKind::Compacted,
            Self::FewerBytes => RetryKind::FewerBytes,
            Self::Original { .. } => RetryKind::Original,
            Self::SmallerOutput { .. } => RetryKind::SmallerOutput,
        }
    }
}

impl Chat<'_> {
    /// What follows a reply to `first` with this verdict.
    pub(in crate::proxy) async fn next_step(&self, first: &Attempt, verdict: Verdict) -> NextStep {
        match verdict {
            Verdict::Failed | Verdict::Fine => NextStep::Relay,
            Verdict::TooManyBytes => NextStep::from_retry(self.retry_fewer_bytes(first)),
            Verdict::Malformed => {
                if let Some(original) = self.retry_original(first, RewriteRefusal::Malformed) {
                    return NextStep::retry(original);
                }
                self.suspect_attempt(first);
                NextStep::from_retry(self.retry_other_placement(first))
            }
            Verdict::Overflow(overflow) if self.is_negative_parameter_error(&overflow) => {
                NextStep::Relay
            }
            Verdict::Overflow(overflow) => self.recover_from_overflow(first, overflow).await,
            Verdict::OutputTooLarge {
                limit,
                input,
                output,
            } => {
                if let Some(second) = self.retry_smaller_output(first, limit, input) {
                    return NextStep::retry(second);
                }
                // The history has to make room: for all of an output that no key of the request
                // asks for, or for one that can be lowered beside it.
                let stays = self.requested_output().map_or(output, |_| 0);
                let overflow = Overflow::stated(Some(limit.saturating_sub(stays)), input);
                self.recover_from_overflow(first, overflow).await
            }
            Verdict::Unexplained => NextStep::from_retry(self.retry_unexplained(first)),
        }
    }

    /// Whether what is told to be too much by some number is a number of the client's own.
    fn is_negative_parameter_error(&self, overflow: &Overflow) -> bool {
        overflow.excess.is_some()
            && overflow.limit.is_none()
            && has_negative_output_limit(self.request.conversation.body())
    }

    /// What came, in place of what we made of it, if it is estimated to fit, or nobody knows how much
    /// does.
    fn retry_original(&self, first: &Attempt, why: RewriteRefusal) -> Option<Attempt> {
        let conversation = self.request.conversation;
        let fits = first
            .inputs
            .policy
            .thresholds
            .max_input(self.requested_output());
        let rewritten = first.view().replacements(conversation).is_some();
        let fits = conversation.tokens() <= fits || self.window_is_assumed(&first.inputs);
        if !rewritten || !fits {
            return None;
        }
        let policy = &first.inputs.policy;
        let summarised = first.view().is_summarised();
        let suspected = summarised.then_some(policy.placement);
        let outlook = plan_unmodified(conversation, policy);
        let why = RetryReason::Original { why, suspected };
        Some(self.retry_attempt(first, first.inputs.clone(), outlook, why))
    }

    /// The summary in the other place, where it was refused in this one and has not been in that. If it
    /// is answered there, the place was the reason.
    fn retry_other_placement(&self, first: &Attempt) -> Option<Attempt> {
        let forms = &self.shared().knowledge.placements;
        let refusals = forms.refusals_in_conversation(&self.model, self.prefix_keys.first_key());
        if !self.has_other_placement(refusals) {
            return None;
        }
        let outlook = RequestPlan {
            view: first
                .view()
                .merged_into_neighbours(self.request.conversation)?,
            ..first.plan.clone()
        };
        let mut basis = first.inputs.clone();
        basis.policy.placement = Placement::Merged;
        Some(self.retry_attempt(first, basis, outlook, RetryReason::OtherPlacement))
    }

    /// What came, where what we made of it was refused and nobody knows why, unless the same
    /// conversation was refused as it came, too, and not answered since: the fault is its own.
    fn retry_unexplained(&self, first: &Attempt) -> Option<Attempt> {
        let key = self.prefix_keys.first_key()?;
        if self
            .shared()
            .knowledge
            .placements
            .suspicions
            .was_original_refused(&self.conversation_model_key(key))
        {
            return None;
        }
        self.retry_original(first, RewriteRefusal::Unexplained)
    }

    /// The oldest images by markers; the newest user turn's stay.
    fn retry_fewer_bytes(&self, first: &Attempt) -> Option<Attempt> {
        let conversation = self.request.conversation;
        let before = images::droppable_before(conversation)?;
        let mut view = first.view().clone();
        view.drop_images_before(before);
        // What was refused is not sent again.
        let fewer = view.replacements(conversation) != first.view().replacements(conversation);
        fewer.then(|| self.retry_with_view(first, view, RetryReason::FewerBytes))
    }

    /// The output lowered to what is left of `limit`, where the history fits beside that.
    fn retry_smaller_output(
        &self,
        first: &Attempt,
        limit: u32,
        input: Option<u32>,
    ) -> Option<Attempt> {
        let tokens = Tokens::new(limit);
        let view = self.lower_output(first, tokens, input.map(Tokens::new))?;
        // It is to be learned that the window is smaller than it was taken to be, though the history
        // still fits: the next request would be refused for the same reason.
        let is_news = input.is_some() && tokens < first.inputs.policy.prune_thresholds.window;
        let refused = is_news.then(|| SuspectedOverflow {
            tokens: self.tokens(first),
            overflow: Overflow::stated(Some(limit), input),
        });
        Some(self.retry_with_view(first, view, RetryReason::SmallerOutput { refused }))
    }

    /// What the ladder says, for a window that the refusal has shown.
    async fn recover_from_overflow(&self, first: &Attempt, overflow: Overflow) -> NextStep {
        let tokens = self.tokens(first);
        let refused = SuspectedOverflow { tokens, overflow };
        if refused.is_empty_reply() && !self.size_may_explain_empty_reply(first) {
            return NextStep::Relay;
        }
        if let Some(view) = self.lower_output_by_estimate(first, &refused) {
            let why = RetryReason::SmallerOutput { refused: None };
            return NextStep::retry(self.retry_with_view(first, view, why));
        }
        let before = self.smallest_refused_window(&first.inputs);
        self.adopt_window(&refused);
        let mut basis = self.inputs_after_refusal(first, &refused, before);
        let Some((mut view, rung)) = self.run_recovery(first, &mut basis).await else {
            notices::log_gave_up(first, &basis);
            return NextStep::GiveUp;
        };
        if let Some(left) = self.reduced_output(&view, &refused) {
            view.set_output_limit(left);
        }
        let why = RetryReason::Compacted { rung, refused };
        NextStep::retry(self.retry_attempt(first, basis, RequestPlan::from_view(view), why))
    }

    /// What nothing that was accepted speaks against is believed at once: the client may leave
    /// before there is a proof, and come again.
    fn adopt_window(&self, refused: &SuspectedOverflow) {
        let windows = &self.shared().knowledge.windows;
        if !refused.is_empty_reply()
            && refused.tokens > windows.observations(&self.model).largest_accepted
        {
            windows.learn_from_refusal(&self.model, refused.tokens, &refused.overflow);
        }
    }

    /// What is to be planned by with the window that a refusal has shown, beside what others had `before`.
    fn inputs_after_refusal(
        &self,
        first: &Attempt,
        refused: &SuspectedOverflow,
        before: Option<Tokens>,
    ) -> PlanInputs {
        let learned = window_from_repeated_refusal(refused.tokens, &refused.overflow, before);
        let window = to_two_digits(learned);
        let set = self
            .shared()
            .config
            .settings_for(&self.model)
            .configured_window();
        let window = set.map_or(window, |set| set.min(window));
        PlanInputs {
            policy: Policy::new(&self.settings, window).with_actual_window(learned),
            ..first.inputs.clone()
        }
    }

    /// The ladder. A summary that it asks for is waited for.
    async fn run_recovery(
        &self,
        first: &Attempt,
        basis: &mut PlanInputs,
    ) -> Option<(ForwardedView, RecoveryStep)> {
        let recovery = |basis: &PlanInputs, summaries| {
            let (policy, known) = (&basis.policy, &basis.prior_records);
            plan_recovery(
                self.request.conversation,
                policy,
                known,
                first.view(),
                summaries,
            )
        };
        let mut recovered = recovery(basis, self.summaries());
        if let RecoveryDecision::Summarise(covers) = recovered {
            let still = |basis: &PlanInputs| match recovery(basis, self.summaries()) {
                RecoveryDecision::Summarise(covers) => Some(covers),
                RecoveryDecision::GiveUp | RecoveryDecision::Retry(..) => None,
            };
            self.wait_for_any_summary(basis, covers, still).await;
            recovered = recovery(basis, SummarySource::Digest);
        }
        match recovered {
            RecoveryDecision::Summarise(_) | RecoveryDecision::GiveUp => None,
            RecoveryDecision::Retry(view, rung) => Some((view, rung)),
        }
    }

    /// What is sent after `first` by the same, in another view.
    fn retry_with_view(&self, first: &Attempt, view: ForwardedView, why: RetryReason) -> Attempt {
        self.retry_attempt(
            first,
            first.inputs.clone(),
            RequestPlan::from_view(view),
            why,
        )
    }

    /// What the window leaves beside `view` for an output of which recovery counted only a part:
    /// one above half of the window would be refused again, however short the history is. All is
    /// as the upstream counts, by what it counted for what was refused.
    fn reduced_output(&self, view: &ForwardedView, refused: &SuspectedOverflow) -> Option<Tokens> {
        let asked = self.requested_output()?;
        let limit = Tokens::new(refused.overflow.limit?);
        let view = view.tokens(self.request.conversation);
        let input = refused.overflow.used.map_or_else(
            || view.percent(TOKENIZER_MARGIN_PERCENT),
            |used| view.scaled(Tokens::new(used), refused.tokens),
        );
        let left = limit - input - OUTPUT_MARGIN;
        let is_enough =
            left > Tokens::ZERO && !self.request.conversation.grants_reasoning_tokens(left);
        (asked > limit.divided_by(2) && asked > left && is_enough).then_some(left)
    }

    /// Whether the size of a request that met silence may be the reason: it is near the window, or
    /// where that is only assumed, one no larger met it before.
    fn size_may_explain_empty_reply(&self, first: &Attempt) -> bool {
        let tokens = self.tokens(first);
        let basis = &first.inputs;
        let is_near = tokens >= basis.policy.thresholds.window.percent(NEAR_WINDOW_PERCENT);
        match self
            .shared()
            .knowledge
            .windows
            .record_empty_reply(&self.model, tokens)
        {
            EmptyReplyCause::LikelySize => is_near || self.window_is_assumed(basis),
            EmptyReplyCause::PossiblySize => is_near,
            EmptyReplyCause::UnrelatedToSize => false,
        }
    }

    /// The output lowered where the upstream did not measure the prompt to its end, and by our own
    /// estimate that is all it takes.
    fn lower_output_by_estimate(
        &self,
        first: &Attempt,
        refused: &SuspectedOverflow,
    ) -> Option<ForwardedView> {
        let SuspectedOverflow { tokens, overflow } = refused;
        let (Some(limit), None, Some(_)) = (overflow.limit, overflow.used, overflow.output) else {
            return None;
        };
        let limit = Tokens::new(limit);
        if tokens.percent(TOKENIZER_MARGIN_PERCENT) >= limit.percent(NEAR_WINDOW_PERCENT) {
            return None;
        }
        self.lower_output(first, limit, None)
    }

    /// The output lowered to what the window leaves, in the key that the client used.
    fn lower_output(
        &self,
        first: &Attempt,
        limit: Tokens,
        input: Option<Tokens>,
    ) -> Option<ForwardedView> {
        let asked = self.requested_output()?;
        let input = input.unwrap_or_else(|| self.tokens(first).percent(TOKENIZER_MARGIN_PERCENT));
        let left = limit - input - OUTPUT_MARGIN;
        // Thought takes its part first, and no provider lets it have all.
        let starved = self
            .request
            .conversation
            .grants_reasoning_tokens(left - MIN_OUTPUT);
        if left >= asked || left < asked.divided_by(4).min(MIN_OUTPUT) || starved {
            return None;
        }
        let mut view = first.view().clone();
        view.set_output_limit(left);
        Some(view)
    }
}
