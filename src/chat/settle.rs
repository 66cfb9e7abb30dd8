//! Settles an attempt whose reply is relayed: adopts records, learns windows, counts retries.

use http::{Response, StatusCode};

use crate::body::peeked_body::PeekedBody;
use crate::callers::owners;
use crate::chat::adopt::RecordAdopted;
use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::learn::{placement, thinking, window};
use crate::chat::refusal::{RefusedAttempt, Retry};
use crate::chat::{
    adopt, explanation, keep, notices, output_limit, recall, refutation, summarise, unanswered_call,
};
use crate::config::Mode;
use crate::exchange::reply_gate::JudgedReply;
use crate::exchange::reply_observer::{ObservedRequest, ReplyObserver};
use crate::exchange::request_log::RequestLog;
use crate::metrics::{Action, CompactionTrigger, RetryOutcome};
use crate::store::CountedRequest;
use crate::summaries::is_overload_status;
use crate::upstream::UpstreamBody;
use longhaul_core::cost::rereads;
use longhaul_core::overflow::{Evidence, LimitKind, Verdict};
use longhaul_core::planning::plan::SummaryNeed;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::units::body_limits::BodyLimits;
use longhaul_core::window::reply_signals::SentSize;
use longhaul_core::window::token_ratio::CountSample;

/// Creates the observer of the reply. `None` if nothing would use its result.
fn observer<B>(
    chat: &Chat<'_>,
    attempt: &Attempt,
    reply: &Response<B>,
) -> Option<Box<ReplyObserver>> {
    if !chat.recovery_enabled() {
        return None;
    }
    let costs = &chat.state().costs;
    let estimate = attempt.tokens(chat.request.conversation);
    ReplyObserver::for_reply(chat.request.state, &chat.learned, reply, &chat.model, || {
        ObservedRequest {
            dialect: chat.request.conversation.dialect(),
            sent: SentSize {
                estimate,
                output_limit: chat.request.conversation.output_tokens(),
                is_text_only: chat.request.conversation.is_text_only(),
            },
            is_partial: chat.request.conversation.params().is_partial,
            may_drop_reasoning: attempt.inputs.prior_records.thinking.counted.is_some(),
            prefix: chat.prefix_keys.stable_prefix().map(|(_, key)| key),
            window: attempt.inputs.policy.thresholds.window,
            path: chat.request.route.mapped.path().into(),
            bill: costs
                .begin((chat.request.scope, &chat.prefix_keys), &chat.model, attempt.billed(chat))
                .paid_by(chat.payer()),
        }
    })
}

/// Settles an attempt and returns its reply for relaying: records and publishes what was
/// learned, and attaches the observer of the reply.
pub(crate) async fn finish(
    chat: &Chat<'_>,
    attempt: &Attempt,
    judged: JudgedReply<UpstreamBody>,
    log: &mut RequestLog,
) -> Response<PeekedBody<UpstreamBody>> {
    let adopted = settle(chat, attempt, &judged);
    publish(chat, adopted).await;
    if let Some(retry) = &attempt.retry {
        retry.add_to_report(chat.request.conversation, attempt.view(), &mut log.report);
        explanation::record(chat, attempt, None, log);
    }
    let status = judged.response.status();
    // A separate summary endpoint does not compete with chats.
    if is_overload_status(status) && chat.state().summary_endpoint.is_none() {
        chat.state().summary_guards.record_throttled_chat(chat.request.scope);
    }
    let gave_up = log.report.actions().contains(&Action::GaveUp);
    let observer = if gave_up { None } else { observer(chat, attempt, &judged.response) };
    // A successful reply without an observer: its cost stays unknown.
    if observer.is_none() && status == StatusCode::OK && !gave_up {
        unanswered_call::charge_unknown_cost(chat, attempt.billed(chat));
    }
    log.observer = observer;
    judged.response
}

/// Settles a retry and returns the reply for relaying. Returns `refused`, the reply to the first attempt,
/// if the retry refutes the suspicion that it follows.
pub(crate) async fn finish_retry(
    chat: &Chat<'_>,
    attempt: &Attempt,
    judged: JudgedReply<UpstreamBody>,
    refused: Response<PeekedBody<UpstreamBody>>,
    log: &mut RequestLog,
) -> Response<PeekedBody<UpstreamBody>> {
    if attempt.retry.is_some_and(|retry| refutation::shows_other_cause(retry, &judged)) {
        // A refused retry adopts nothing.
        let _: Option<RecordAdopted> = settle(chat, attempt, &judged);
        return refused;
    }
    finish(chat, attempt, judged, log).await
}

/// Settles an explicit compaction, whose body is sent to no upstream.
///
/// Anyone can trigger a digest with any key, and all callers share the space for records. So a
/// digest is stored only if an upstream has answered this caller in this conversation.
pub(crate) async fn finish_explicit_compaction(chat: &Chat<'_>, attempt: &Attempt) {
    if attempt.plan.fresh_digest && !attempt.inputs.prior_records.seen {
        tracing::debug!(
            "not storing the digest of an explicit compaction: no upstream has answered this \
             caller in this conversation"
        );
        return;
    }
    let adopted = adopt::adopt_plan(chat, attempt, CompactionTrigger::Manual);
    if attempt.inputs.prior_records.seen {
        keep::store_wishes(chat);
    }
    recall::keep_originals(chat, attempt.view());
    publish(chat, adopted).await;
}

/// Adopts the records of messages that a gateway sends to the provider. No reply will show whether the provider
/// accepted them.
pub(crate) async fn finish_for_gateway(chat: &Chat<'_>, attempt: &Attempt) {
    let removal = adopt::adopt_removal(chat, attempt);
    let adopted = adopt::adopt_plan(chat, attempt, CompactionTrigger::Proactive);
    if adopted.is_none() {
        adopt::renew_record(chat, &attempt.inputs.prior_records);
    }
    recall::keep_originals(chat, attempt.view());
    publish(chat, adopted.or(removal)).await;
}

pub(crate) fn count_retry(chat: &Chat<'_>, attempt: &Attempt, outcome: RetryOutcome) {
    if let Some(retry) = attempt.retry {
        chat.state().metrics.retries.add(retry.reason(), outcome);
    }
}

/// Records the outcome of an attempt.
fn settle(
    chat: &Chat<'_>,
    attempt: &Attempt,
    judged: &JudgedReply<UpstreamBody>,
) -> Option<RecordAdopted> {
    let outcome = refutation::outcome(judged);
    count_retry(chat, attempt, outcome);
    let is_accepted = outcome == RetryOutcome::Accepted;
    if is_accepted {
        let state = chat.state();
        let owners = owners::of_request(&chat.request.head.extensions);
        state.learned.record_answer(&chat.learned, &owners);
        state.record_accepted(&owners);
    }
    let is_kept = is_accepted && chat.mode == Mode::On;
    let removal = is_kept.then(|| adopt::adopt_removal(chat, attempt)).flatten();
    let adopted = match (attempt.retry, is_accepted) {
        (None, true) => settle_accepted_plan(chat, attempt),
        (None, false) => None,
        (Some(retry), true) => settle_accepted_retry(chat, attempt, retry),
        (Some(retry), false) => {
            settle_refused_retry(chat, attempt, retry, judged);
            None
        }
    };
    let mut wishes = None;
    if is_kept {
        recall::keep_originals(chat, attempt.view());
        wishes = keep::store_wishes(chat).then_some(RecordAdopted);
    }
    adopted.or(removal).or(wishes)
}

/// Publishes learned facts and adopted records to other processes before the client can reach
/// one of them. Waits only after an adoption: once per compaction.
async fn publish(chat: &Chat<'_>, adopted: Option<RecordAdopted>) {
    let state = chat.state();
    state.store.publish(&chat.learned, &chat.model);
    if let Some(RecordAdopted) = adopted {
        state.store.flush().await;
    }
}

/// Makes the plan of an accepted attempt permanent and starts its follow-up work.
fn settle_accepted_plan(chat: &Chat<'_>, attempt: &Attempt) -> Option<RecordAdopted> {
    if chat.mode != Mode::On {
        return None;
    }
    record_acceptance(chat, attempt);
    thinking::learn_acceptance(chat, attempt);
    count_new_calls(chat, attempt.view());
    notices::log_too_few_user_messages(chat, &attempt.plan);
    let trigger =
        if chat.compact_now { CompactionTrigger::Manual } else { CompactionTrigger::Proactive };
    let adopted = adopt::adopt_plan(chat, attempt, trigger);
    if adopted.is_none() {
        adopt::renew_record(chat, &attempt.inputs.prior_records);
    }
    if let SummaryNeed::InBackground(covers) = attempt.plan.need {
        summarise::start_background_summary(chat, attempt, covers);
    }
    adopted
}

/// Counts repeated tool calls whose earlier results were removed, and calls that repeat the note of a clip,
/// unless this request is itself a repeat.
fn count_new_calls(chat: &Chat<'_>, view: &ForwardedView) {
    let conversation = chat.request.conversation;
    let rereads = rereads::reread_results(conversation, view);
    let imitations = rereads::count_imitated_clips(conversation, view);
    let state = chat.state();
    if rereads.len() + imitations == 0 || state.costs.has_answered(&chat.prefix_keys, &chat.model) {
        return;
    }
    state.metrics.imitated_clips.add(imitations as u64);
    notices::log_imitated_clips(chat, imitations);
    state.metrics.rereads.add(rereads.len() as u64);
    if let Some(dashboard) = &chat.dashboard {
        dashboard.record_rereads(&rereads);
    }
}

fn settle_accepted_retry(
    chat: &Chat<'_>,
    attempt: &Attempt,
    retry: Retry,
) -> Option<RecordAdopted> {
    match retry {
        Retry::Compacted { refused, .. } => {
            record_acceptance(chat, attempt);
            learn_from_overflow(chat, &refused);
            let window = if refused.is_request_limit() {
                attempt.inputs.adopted().and_then(|record| record.window)
            } else {
                Some(attempt.inputs.policy.thresholds.window)
            };
            let trigger = if refused.is_body_limit() {
                CompactionTrigger::Bytes
            } else {
                CompactionTrigger::Overflow
            };
            adopt::adopt_new_record(chat, attempt, window, trigger)
        }
        Retry::OtherPlacement => settle_accepted_plan(chat, attempt),
        Retry::ClippedTexts | Retry::FewerImages { .. } | Retry::RefusedItem => {
            record_acceptance(chat, attempt);
            let window = attempt.inputs.adopted().and_then(|record| record.window);
            let is_item = matches!(retry, Retry::RefusedItem);
            let trigger =
                if is_item { CompactionTrigger::Proactive } else { CompactionTrigger::Bytes };
            adopt::adopt_new_record(chat, attempt, window, trigger)
        }
        Retry::Original { why, suspected } => {
            placement::record_rewrite_refusal(chat, why, suspected);
            None
        }
        Retry::SmallerOutput { refused } => {
            record_acceptance(chat, attempt);
            if let Some(refused) = refused {
                learn_from_overflow(chat, &refused);
            }
            None
        }
        Retry::WithoutStaleThinking => {
            thinking::learn_binding(chat, attempt);
            settle_accepted_plan(chat, attempt)
        }
    }
}

/// Settles a refused retry. The client receives the refusal; the next request benefits from it.
fn settle_refused_retry(
    chat: &Chat<'_>,
    attempt: &Attempt,
    retry: Retry,
    judged: &JudgedReply<UpstreamBody>,
) {
    if let Some(suspicion) = refutation::refuted_suspicion(retry, judged) {
        chat.learned.refuted.record_refuted(suspicion);
    }
    output_limit::learn_counted_output(chat, attempt, judged.verdict);
    match judged.verdict {
        Verdict::Malformed => {
            if let Retry::Compacted { .. } | Retry::OtherPlacement = retry {
                placement::suspect_attempt(chat, attempt);
            }
            placement::record_original_refused(chat, retry);
        }
        Verdict::Overflow(overflow) => {
            let status = judged.response.status();
            let refused = attempt.refused(chat.request.conversation, status, overflow);
            settle_overflowed_retry(chat, retry, &refused);
        }
        Verdict::StaleThinking => thinking::learn_from_refused_retry(chat, attempt, retry),
        Verdict::Unexplained(_) if judged.response.status().is_client_error() => {
            placement::record_original_refused(chat, retry);
        }
        Verdict::Failed
        | Verdict::Fine
        | Verdict::OutputAboveCap(_)
        | Verdict::OutputTooLarge { .. }
        | Verdict::TextTooLong { .. }
        | Verdict::TooMuchMedia
        | Verdict::Unexplained(_) => {}
        Verdict::BodyTooLarge(stated) => {
            let limits = window::body_limits(chat, attempt, stated);
            chat.learned.windows.learn_body_limits(&chat.model, limits);
        }
    }
}

/// Settles a retry that overflowed again: the window is known more precisely.
fn settle_overflowed_retry(chat: &Chat<'_>, retry: Retry, refused: &RefusedAttempt) {
    let windows = &chat.learned.windows;
    let RefusedAttempt { tokens, overflow, .. } = *refused;
    match overflow.evidence {
        Evidence::Stated if refused.is_request_limit() => {}
        Evidence::Stated => {
            if tokens > windows.sizes(&chat.model).largest_accepted {
                window::learn_from_refusal(chat, refused);
            }
            windows.learn_from_second_refusal(&chat.prefix_keys, tokens, &overflow);
            let is_partial = chat.request.conversation.params().is_partial;
            let is_count = overflow.kind == LimitKind::Window && !is_partial;
            let used = overflow.used.filter(|_| is_count);
            let sample = used.and_then(|used| CountSample::new(tokens, used));
            if let (Some((_, key)), Some(sample)) = (chat.prefix_keys.stable_prefix(), sample) {
                let average_ratio = windows.sizes(&chat.model).average_ratio;
                let counted = CountedRequest { sample, average_ratio };
                chat.state().store.record_count(key, &chat.model, counted);
            }
        }
        Evidence::EmptyReply if retry.evidence() == Some(Evidence::EmptyReply) => {
            windows.record_empty_retry(&chat.model);
        }
        // A suspicion that a smaller request did not confirm teaches nothing.
        Evidence::EmptyReply | Evidence::Suspected(_) => {}
    }
}

/// Learns the window from the first refusal, now that a smaller request was accepted. Empty
/// replies have many other causes, so they affect this conversation only.
fn learn_from_overflow(chat: &Chat<'_>, refused: &RefusedAttempt) {
    if refused.overflow.evidence == Evidence::EmptyReply {
        notices::log_chat!(
            info,
            chat,
            tokens = refused.tokens.get(),
            "treating an empty reply as an overflow: a smaller request was answered"
        );
    } else if refused.is_body_limit() {
        let BodyLimits { bytes, items, .. } = refused.body;
        let known = |limit: usize| Some(limit).filter(|it| *it != usize::MAX);
        notices::log_chat!(
            info,
            chat,
            bytes = known(bytes),
            messages = known(items),
            "the upstream limits the body: a smaller request was answered"
        );
        let windows = &chat.learned.windows;
        windows.learn_body_limits(&chat.model, refused.body);
    } else if refused.is_request_limit() {
        window::learn_request_limit(chat, refused);
    } else {
        window::learn_from_refusal(chat, refused);
    }
}

fn record_acceptance(chat: &Chat<'_>, attempt: &Attempt) {
    placement::confirm_placement(chat, attempt);
    placement::resolve_suspicions(chat, attempt.view());
    // A reply that was not inspected may be a refusal with a success status.
    if chat.recovery_enabled() {
        let windows = &chat.learned.windows;
        let tokens = attempt.tokens(chat.request.conversation);
        windows.record_accepted(&chat.model, attempt.sent_size(chat.request.conversation));
        windows.by_conversation.record_accepted(&chat.prefix_keys, tokens);
    }
    if let Some((_, key)) = chat.prefix_keys.stable_prefix() {
        chat.state().store.mark_seen(key);
    }
}
