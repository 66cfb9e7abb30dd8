//! Recovery from an overflow: learns the window and plans a retry that fits.

use http::StatusCode;

use crate::chat::attempt::{Attempt, PlanInputs, RetryDecision};
use crate::chat::context::Chat;
use crate::chat::learn::known_window::KnownWindow;
use crate::chat::learn::{thinking, window};
use crate::chat::refusal::{RefusedAttempt, Retry};
use crate::chat::{judge, notices, output_limit, second_attempt, summarise};
use longhaul_core::overflow::{Evidence, LimitKind, Overflow, Suspicion};
use longhaul_core::planning::plan::{RequestPlan, SummarySource};
use longhaul_core::planning::recovery::{RecoveryDecision, RecoveryStep, plan_recovery};
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::{OutputWindow, Policy};
use longhaul_core::units::body_limits::BodyLimits;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::empty_reply::EmptyReplyCause;
use longhaul_core::window::{to_two_digits, window_from_repeated_refusal};

/// Smallest body in bytes that a byte limit is trusted to refuse. Express, the smallest default of
/// the usual servers, accepts 100 kB.
const MIN_LIMITED_BYTES: usize = 64 * 1024;

/// Runs recovery after a limit on the body. The limit reveals nothing about the window.
pub(super) async fn recover_from_body_limit(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    stated: BodyLimits,
) -> RetryDecision {
    let conversation = chat.request.conversation;
    let overflow = Overflow {
        evidence: if stated == BodyLimits::UNKNOWN {
            Evidence::Suspected(Suspicion::ByteLimit)
        } else {
            Evidence::Stated
        },
        kind: LimitKind::Request,
        ..Overflow::stated(None, None)
    };
    let refused = RefusedAttempt {
        body: window::body_limits(chat, first, stated),
        ..first.refused(conversation, status, overflow)
    };
    // No server limits the bytes of so short a text.
    let is_short = conversation.body().len() < MIN_LIMITED_BYTES && stated == BodyLimits::UNKNOWN;
    if is_short && conversation.is_text_only() {
        let suspicion = Some(Suspicion::ByteLimit);
        return recover_from_repetition(chat, first, status, suspicion).await;
    }
    if !is_plausible_overflow(chat, first, &refused) {
        return RetryDecision::Relay;
    }
    let mut inputs = inputs_for_body(chat, &first.inputs, refused.body);
    inputs.prior_records = thinking::for_last_send(chat, &inputs.prior_records);
    let Some((view, step)) = run_recovery(chat, first.view(), &mut inputs).await else {
        return RetryDecision::Relay;
    };
    if is_short && !view.drops_images(conversation) {
        return RetryDecision::Relay;
    }
    retry_compacted(chat, inputs, view, Retry::Compacted { step, refused })
}

/// Returns `inputs` with limits on the body. The policy's shares follow from the smaller of the window and the
/// bytes, and the output takes none of these.
pub(super) fn inputs_for_body(
    chat: &Chat<'_>,
    inputs: &PlanInputs,
    limits: BodyLimits,
) -> PlanInputs {
    let room = u32::try_from(limits.goal).unwrap_or(u32::MAX);
    let room = Tokens::new(room).divided_by(4).min(inputs.policy.thresholds.window);
    let actual = inputs.policy.thresholds.actual_window;
    let mut inputs = PlanInputs {
        policy: Policy { body: limits, ..Policy::new(&chat.settings, room) },
        ..inputs.clone()
    };
    inputs.policy.thresholds.actual_window = actual.max(room);
    inputs.policy.thresholds.output = OutputWindow::Separate;
    inputs
}

/// Runs recovery after a refusal that names no cause, once the same size is refused again and smaller
/// requests pass. A refusal of a size that was accepted has another cause.
pub(super) async fn recover_from_repetition(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    suspicion: Option<Suspicion>,
) -> RetryDecision {
    let Some(suspicion) = suspicion else {
        return RetryDecision::Relay;
    };
    let facts = judge::request_facts(chat, first);
    if !facts.explains_repetition() {
        if facts.tokens <= facts.largest_accepted {
            chat.learned.refuted.record_refuted(suspicion);
        }
        return RetryDecision::Relay;
    }
    let windows = &chat.learned.windows;
    // Most servers that fail once or twice answer the next request.
    let enough = if status.is_server_error() { 2 } else { 1 };
    match windows.record_empty_reply(&chat.model, Tokens::new(facts.tokens)) {
        EmptyReplyCause::LikelySize(before) if before >= enough => {
            let overflow = Overflow {
                evidence: Evidence::Suspected(suspicion),
                ..Overflow::stated(None, None)
            };
            recover_from_overflow(chat, first, status, overflow).await
        }
        EmptyReplyCause::LikelySize(_)
        | EmptyReplyCause::PossiblySize
        | EmptyReplyCause::UnrelatedToSize => RetryDecision::Relay,
    }
}

/// Runs recovery for the window learned from the refusal.
pub(super) async fn recover_from_overflow(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    overflow: Overflow,
) -> RetryDecision {
    let conversation = chat.request.conversation;
    let refused = first.refused(conversation, status, overflow);
    if !is_plausible_overflow(chat, first, &refused) {
        return RetryDecision::Relay;
    }
    if let Some(view) = output_limit::lower_output_by_estimate(conversation, first, &refused) {
        let why = Retry::SmallerOutput { refused: None };
        return RetryDecision::retry(second_attempt::with_view(chat, first, view, why));
    }
    let before = KnownWindow::of_chat(chat, first.inputs.adopted()).smallest_refused();
    // The client may leave before there is proof, and send the conversation again.
    let accepted = chat.learned.windows.sizes(&chat.model).largest_accepted;
    if refused.states_window() && refused.tokens > accepted {
        window::learn_from_refusal(chat, &refused);
    }
    let mut inputs = inputs_after_refusal(chat, first, &refused, before);
    inputs.prior_records = thinking::for_last_send(chat, &inputs.prior_records);
    let Some((mut view, step)) = run_recovery(chat, first.view(), &mut inputs).await else {
        notices::log_gave_up(chat, refused.tokens, inputs.policy.thresholds.window);
        return RetryDecision::GiveUp;
    };
    if let Some(left) = output_limit::reduced_output(conversation, &view, &refused) {
        view.set_output_limit(left);
    }
    retry_compacted(chat, inputs, view, Retry::Compacted { step, refused })
}

fn retry_compacted(
    chat: &Chat<'_>,
    inputs: PlanInputs,
    view: ForwardedView,
    why: Retry,
) -> RetryDecision {
    let thinking = &inputs.prior_records.thinking;
    let plan = RequestPlan::from_view(view);
    let plan = plan.without_stale_thinking(chat.request.conversation, thinking);
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
    // What stays may be denser than what goes, and no third send follows. A limit without a number is a guess.
    let share = if refused.overflow.limit.is_some() { 95 } else { 80 };
    let window = chat.configured_window().map_or(window, |set| set.min(window));
    let mut policy = Policy::new(&chat.settings, window);
    policy.thresholds.actual_window = learned.percent(share);
    policy.is_window_stated = refused.overflow.limit.is_some();
    PlanInputs { policy, ..first.inputs.clone() }
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
        plan_recovery(chat.request.conversation, policy, known, too_large, summaries)
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
        EmptyReplyCause::LikelySize(_) if facts.explains_repetition() => true,
        EmptyReplyCause::LikelySize(_) | EmptyReplyCause::PossiblySize => facts.explains_silence(),
        EmptyReplyCause::UnrelatedToSize => false,
    }
}
