//! Recovery from an overflow: learns the window and plans a retry that fits.

use http::StatusCode;

use crate::chat::attempt::RetryDecision;
use crate::chat::attempt::{Attempt, PlanInputs};
use crate::chat::context::Chat;
use crate::chat::learn::known_window::KnownWindow;
use crate::chat::learn::{thinking, window};
use crate::chat::refusal::{RefusedAttempt, Retry};
use crate::chat::{judge, notices, output_limit, second_attempt, summarise};
use longhaul_core::overflow::{Evidence, LimitKind, Overflow, Suspicion};
use longhaul_core::planning::plan::{RequestPlan, SummarySource};
use longhaul_core::planning::recovery::{RecoveryDecision, RecoveryStep, plan_recovery};
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Policy;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::empty_reply::EmptyReplyCause;
use longhaul_core::window::{to_two_digits, window_from_repeated_refusal};

/// Smallest body in bytes that a byte limit is trusted to refuse. Express, the smallest default of
/// the usual servers, accepts 100 kB.
const MIN_LIMITED_BYTES: usize = 64 * 1024;

/// Runs recovery after a byte limit, for a request without old images. The limit bounds one request
/// and reveals nothing about the window.
pub(super) async fn recover_from_byte_limit(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
) -> RetryDecision {
    if chat.request.conversation.body().len() < MIN_LIMITED_BYTES {
        return RetryDecision::Relay;
    }
    let overflow = Overflow {
        evidence: Evidence::Suspected(Suspicion::ByteLimit),
        kind: LimitKind::Request,
        ..Overflow::stated(None, None)
    };
    recover_from_overflow(chat, first, status, overflow).await
}

/// Runs recovery for the window learned from the refusal.
pub(super) async fn recover_from_overflow(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    overflow: Overflow,
) -> RetryDecision {
    let conversation = chat.request.conversation;
    let tokens = first.tokens(conversation);
    let refused = RefusedAttempt {
        tokens,
        window: first.inputs.policy.thresholds.window,
        status,
        overflow,
    };
    if !is_plausible_overflow(chat, first, &refused) {
        return RetryDecision::Relay;
    }
    if let Some(view) = output_limit::lower_output_by_estimate(conversation, first, &refused) {
        let why = Retry::SmallerOutput { refused: None };
        return RetryDecision::retry(second_attempt::with_view(chat, first, view, why));
    }
    let before = KnownWindow::of_chat(chat, first.inputs.adopted()).smallest_refused();
    adopt_window(chat, &refused);
    let mut inputs = inputs_after_refusal(chat, first, &refused, before);
    inputs.prior_records = thinking::for_last_send(chat, &inputs.prior_records);
    let Some((mut view, step)) = run_recovery(chat, first.view(), &mut inputs).await else {
        notices::log_gave_up(tokens, inputs.policy.thresholds.window);
        return RetryDecision::GiveUp;
    };
    if let Some(left) = output_limit::reduced_output(conversation, &view, &refused) {
        view.set_output_limit(left);
    }
    let why = Retry::Compacted { step, refused };
    let thinking = &inputs.prior_records.thinking;
    let plan = RequestPlan::from_view(view).without_stale_thinking(conversation, thinking);
    RetryDecision::retry(Attempt::retry(inputs, plan, why))
}

/// Whether an overflow that is only suspected is plausible.
fn is_plausible_overflow(chat: &Chat<'_>, first: &Attempt, refused: &RefusedAttempt) -> bool {
    match refused.overflow.evidence {
        Evidence::Stated => true,
        Evidence::EmptyReply => size_may_explain_empty_reply(chat, first, refused.status),
        Evidence::Suspected(suspicion) => !chat.learned.refuted.is_refuted(suspicion),
    }
}

/// Learns the refused window at once if no accepted request contradicts it. The client may
/// leave before there is proof, and send the conversation again.
fn adopt_window(chat: &Chat<'_>, refused: &RefusedAttempt) {
    let windows = &chat.learned.windows;
    if refused.states_window() && refused.tokens > windows.sizes(&chat.model).largest_accepted {
        window::learn_from_refusal(chat, refused);
    }
}

/// Computes the plan inputs for the window learned from a refusal, combined with the window
/// known `before`.
fn inputs_after_refusal(
    chat: &Chat<'_>,
    first: &Attempt,
    refused: &RefusedAttempt,
    before: Option<Tokens>,
) -> PlanInputs {
    let learned = window_from_repeated_refusal(refused.tokens, &refused.overflow, before);
    let learned = with_accepted_floor(chat, refused, learned);
    let window = to_two_digits(learned);
    let window = chat
        .configured_window()
        .map_or(window, |set| set.min(window));
    PlanInputs {
        policy: Policy::new(&chat.settings, window).with_actual_window(learned),
        ..first.inputs.clone()
    }
}

/// Raises a window that only follows from the size of refused requests to the largest request that the
/// model accepted.
///
/// Otherwise each refusal would lower the window to nine tenths of the refused request. Once the window
/// has room for the head of the conversation only, longhaul stops compacting ahead of refusals.
fn with_accepted_floor(chat: &Chat<'_>, refused: &RefusedAttempt, learned: Tokens) -> Tokens {
    let accepted = chat.learned.windows.sizes(&chat.model).largest_accepted;
    if refused.overflow.limit.is_none() && accepted < refused.tokens {
        learned.max(accepted)
    } else {
        learned
    }
}

/// Runs the recovery steps and waits for the summary that they need, if any.
pub(super) async fn run_recovery(
    chat: &Chat<'_>,
    too_large: &ForwardedView,
    inputs: &mut PlanInputs,
) -> Option<(ForwardedView, RecoveryStep)> {
    let recovery = |inputs: &PlanInputs, summaries| {
        let (policy, known) = (&inputs.policy, &inputs.prior_records);
        plan_recovery(
            chat.request.conversation,
            policy,
            known,
            too_large,
            summaries,
        )
    };
    let mut recovered = recovery(inputs, chat.summary_source());
    if let RecoveryDecision::Summarise(covers) = recovered {
        let still = |inputs: &PlanInputs| match recovery(inputs, chat.summary_source()) {
            RecoveryDecision::Summarise(covers) => Some(covers),
            RecoveryDecision::GiveUp | RecoveryDecision::Retry(..) => None,
        };
        summarise::wait_for_any_summary(chat, inputs, covers, still).await;
        recovered = recovery(inputs, SummarySource::Digest);
    }
    match recovered {
        RecoveryDecision::Summarise(_) | RecoveryDecision::GiveUp => None,
        RecoveryDecision::Retry(view, step) => Some((view, step)),
    }
}

/// Whether the size of a request may explain its empty reply. A success without an answer is often a
/// failure of the server. The first such reply therefore counts only near the window in force.
fn size_may_explain_empty_reply(chat: &Chat<'_>, first: &Attempt, status: StatusCode) -> bool {
    let facts = judge::request_facts(chat, first);
    let windows = &chat.learned.windows;
    match windows.record_empty_reply(&chat.model, Tokens::new(facts.tokens)) {
        EmptyReplyCause::PossiblySize if status.is_success() => facts.is_near_window(),
        EmptyReplyCause::LikelySize | EmptyReplyCause::PossiblySize => facts.explains_silence(),
        EmptyReplyCause::UnrelatedToSize => false,
    }
}
