//! Decides whether a refused first send is retried, and how.

use crate::chat::attempt::{Attempt, PlanInputs};
use crate::chat::{Chat, notices};
use crate::metrics::{Action, RetryKind};
use crate::report::ChatReport;
use longhaul_core::conversation::Conversation;
use longhaul_core::conversation::images;
use longhaul_core::dialect::chat_completions::has_negative_output_limit;
use longhaul_core::overflow::{Evidence, Overflow, Verdict};
use longhaul_core::planning::plan::{RequestPlan, SummarySource, plan_unmodified};
use longhaul_core::planning::recovery::{RecoveryDecision, RecoveryStep, plan_recovery};
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Policy;
use longhaul_core::policy::placement::Placement;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::empty_reply::EmptyReplyCause;
use longhaul_core::window::{to_two_digits, window_from_repeated_refusal};

/// Upstream tokens per 100 estimated tokens, used without an upstream count. Real tokenizers
/// counted up to 1.3 times the plain estimate on mixed code and prose.
const TOKENIZER_MARGIN_PERCENT: u32 = 130;
/// Tokens left free when an output limit is lowered to fit the window.
const OUTPUT_MARGIN: Tokens = Tokens::new(256);
/// Lowest output limit: this, or a quarter of the requested limit if that is less. A truncated tool
/// call is useless, and compacting history can make space instead.
const MIN_OUTPUT: Tokens = Tokens::new(1_024);
/// Share of the window above which an empty reply may be an overflow.
const NEAR_WINDOW_PERCENT: u32 = 75;

/// Next step after the first reply.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// Relay the overflow because nothing would fit, so that the agent's own recovery still works.
    GiveUp,
    /// Relay the reply.
    Relay,
    /// Send a retry.
    Retry(Box<Attempt>),
}

impl NextStep {
    /// Sends `second` if present, else relays the reply.
    fn from_retry(second: Option<Attempt>) -> Self {
        second.map_or(Self::Relay, Self::retry)
    }

    fn retry(second: Attempt) -> Self {
        Self::Retry(Box::new(second))
    }
}

/// Reason for a retry.
#[derive(Clone, Copy, Debug)]
pub(super) enum RetryReason {
    /// The first reply was classified as an overflow.
    Compacted {
        rung: RecoveryStep,
        refused: SuspectedOverflow,
    },
    /// The first placement of the summary was refused and the original is estimated not to fit. The
    /// retry uses the other placement.
    OtherPlacement,
    /// The first reply reported a size limit in bytes.
    FewerBytes,
    /// The rewrite was refused. The original is estimated to fit, or the window is unknown.
    Original {
        why: RewriteRefusal,
        /// Placement of the refused summary. If the original is accepted, the placement was the
        /// cause.
        suspected: Option<Placement>,
    },
    /// The history fits; only the requested output is too large.
    SmallerOutput {
        /// Evidence that the window is smaller than assumed, if any.
        refused: Option<SuspectedOverflow>,
    },
}

/// A suspected overflow. Only a smaller request that is accepted confirms the overflow: an error
/// may quote text of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuspectedOverflow {
    /// Size of the refused request.
    pub(super) tokens: Tokens,
    pub(super) overflow: Overflow,
}

/// Kind of refusal of a rewritten request.
#[derive(Clone, Copy, Debug)]
pub(super) enum RewriteRefusal {
    Malformed,
    /// For an unknown reason.
    Unexplained,
}

impl SuspectedOverflow {
    /// Whether the evidence is an empty reply.
    pub(super) fn is_empty_reply(&self) -> bool {
        self.overflow.evidence == Evidence::EmptyReply
    }
}

impl RetryReason {
    /// Adds the retry's actions and sizes to `report`; the conversation is sent as `view`.
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

    /// Whether an empty reply was classified as an overflow.
    pub(super) fn follows_empty_reply(self) -> bool {
        match self {
            Self::Compacted { refused, .. } => refused.is_empty_reply(),
            Self::OtherPlacement
            | Self::FewerBytes
            | Self::Original { .. }
            | Self::SmallerOutput { .. } => false,
        }
    }

    /// Returns the metric label of this retry.
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
    /// Decides the next step after a reply to `first` with this verdict.
    pub(crate) async fn next_step(&self, first: &Attempt, verdict: Verdict) -> NextStep {
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
                // The history must shrink. If the request has no output key, the whole output is
                // reserved; otherwise none is, because the limit can be lowered.
                let stays = self.requested_output().map_or(output, |_| 0);
                let overflow = Overflow::stated(Some(limit.saturating_sub(stays)), input);
                self.recover_from_overflow(first, overflow).await
            }
            Verdict::Unexplained => NextStep::from_retry(self.retry_unexplained(first)),
        }
    }

    /// Whether an excess reported without a limit refers to a negative number in the client's own
    /// request.
    fn is_negative_parameter_error(&self, overflow: &Overflow) -> bool {
        overflow.excess.is_some()
            && overflow.limit.is_none()
            && has_negative_output_limit(self.request.conversation.body())
    }

    /// Retries with the original instead of the rewrite, if the original is estimated to fit or the
    /// window is unknown.
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

    /// Retries with the summary in the other placement, unless that was refused too. If the retry
    /// is accepted, the placement was the cause.
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

    /// Retries with the original after an unexplained refusal of the rewrite. Returns `None` if the
    /// original of this conversation was refused too and none of its rewrites was accepted since:
    /// the conversation itself is at fault.
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

    /// Retries with the oldest images replaced by markers; images of the newest user turn stay.
    fn retry_fewer_bytes(&self, first: &Attempt) -> Option<Attempt> {
        let conversation = self.request.conversation;
        let before = images::droppable_before(conversation)?;
        let mut view = first.view().clone();
        view.drop_images_before(before);
        // Never resend a refused body.
        let fewer = view.replacements(conversation) != first.view().replacements(conversation);
        fewer.then(|| self.retry_with_view(first, view, RetryReason::FewerBytes))
    }

    /// Retries with the output limit lowered to the rest of `limit`, if the history leaves enough.
    fn retry_smaller_output(
        &self,
        first: &Attempt,
        limit: u32,
        input: Option<u32>,
    ) -> Option<Attempt> {
        let tokens = Tokens::new(limit);
        let view = self.lower_output(first, tokens, input.map(Tokens::new))?;
        // Learn the smaller window even though the history still fits: otherwise the next request
        // would be refused for the same reason.
        let is_news = input.is_some() && tokens < first.inputs.policy.prune_thresholds.window;
        let refused = is_news.then(|| SuspectedOverflow {
            tokens: self.tokens(first),
            overflow: Overflow::stated(Some(limit), input),
        });
        Some(self.retry_with_view(first, view, RetryReason::SmallerOutput { refused }))
    }

    /// Runs recovery for the window learned from the refusal.
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

    /// Learns the refused window at once if no accepted request contradicts it. The client may
    /// leave before there is proof, and send the conversation again.
    fn adopt_window(&self, refused: &SuspectedOverflow) {
        let windows = &self.shared().knowledge.windows;
        if !refused.is_empty_reply()
            && refused.tokens > windows.observations(&self.model).largest_accepted
        {
            windows.learn_from_refusal(&self.model, refused.tokens, &refused.overflow);
        }
    }

    /// Computes the plan inputs for the window learned from a refusal, combined with the window
    /// known `before`.
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

    /// Runs the recovery steps and waits for the summary that they ask for, if any.
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

    /// Builds a retry with the policy of `first` and another view.
    fn retry_with_view(&self, first: &Attempt, view: ForwardedView, why: RetryReason) -> Attempt {
        self.retry_attempt(
            first,
            first.inputs.clone(),
            RequestPlan::from_view(view),
            why,
        )
    }

    /// Returns the output limit that fits beside `view`. `None` if the requested limit can stay or
    /// too little is left.
    ///
    /// Recovery reserves only part of a large output, and a limit above half the window would be
    /// refused again, however short the history. All numbers are upstream tokens, scaled by the
    /// upstream's count of the refused request.
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

    /// Whether the size of a request may explain its empty reply. This is so near the window. If
    /// the window is only assumed, an earlier empty reply to a request no larger is enough.
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

    /// Lowers the output limit when the upstream did not count the whole prompt and the plain
    /// estimate shows that a lower limit suffices.
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

    /// Lowers the output limit to what the window leaves, in the key that the client used. Returns
    /// `None` if that would not help or would leave too little.
    fn lower_output(
        &self,
        first: &Attempt,
        limit: Tokens,
        input: Option<Tokens>,
    ) -> Option<ForwardedView> {
        let asked = self.requested_output()?;
        let input = input.unwrap_or_else(|| self.tokens(first).percent(TOKENIZER_MARGIN_PERCENT));
        let left = limit - input - OUTPUT_MARGIN;
        // Reasoning uses the output first, and no provider allows a reasoning budget of the whole
        // output.
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
