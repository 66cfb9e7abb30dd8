//! Judges the reply to an attempt.

use std::pin::pin;
use std::time::Instant;

use http::Response;

use crate::callers::owners;
use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::learn::known_window::KnownWindow;
use crate::chat::learn::thinking;
use crate::exchange::reply_gate::{self, HoldPolicy, JudgedReply};
use crate::exchange::request_log::RequestLog;
use crate::upstream::UpstreamBody;
use longhaul_core::overflow::{ReplyClassifier, RequestFacts, RequestText};
use longhaul_core::units::tokens::Tokens;

/// Selects how far the reply is held. A request that is proven to fit cannot overflow, so only
/// its error statuses are held, unless its thinking may be refused.
pub(crate) fn hold_policy(chat: &Chat<'_>, first: &Attempt) -> HoldPolicy {
    if !chat.recovery_enabled() {
        return HoldPolicy::Nothing;
    }
    let conversation = chat.request.conversation;
    let known = KnownWindow::of_chat(chat, first.inputs.adopted());
    let output = conversation.output_tokens().unwrap_or_default();
    let fits = known.sizes.is_known_to_fit(
        first.sent_size(conversation),
        known.in_force(&first.inputs).map(|window| window - output),
        chat.configured_window().is_some(),
    );
    if fits && !thinking::may_be_refused(chat, first) {
        HoldPolicy::Errors
    } else {
        HoldPolicy::Everything
    }
}

/// Holds the reply to an attempt until its verdict is known.
pub(crate) async fn judge(
    chat: &Chat<'_>,
    attempt: &Attempt,
    reply: Response<UpstreamBody>,
    holding: HoldPolicy,
    log: &mut RequestLog,
) -> JudgedReply<UpstreamBody> {
    let state = chat.state();
    let dialect = chat.request.conversation.dialect();
    let rules = &state.config.overflow_rules;
    // Almost all replies are relayed unread, and need no facts.
    let classifier = |status| {
        let facts = request_facts(chat, attempt);
        ReplyClassifier::new(dialect, status, rules, Some(facts))
    };
    let holds = holding.holds(reply.status().as_u16());
    let began = Instant::now();
    let owners = owners::of_request(&chat.request.head.extensions);
    let budget = state.budget.owned_by(owners);
    let judging = pin!(reply_gate::judge(reply, holding, classifier, &budget));
    let judged = log.meter.measure_wait(judging).await;
    if holds {
        state.metrics.held.observe(began.elapsed());
    }
    log.trace.record_verdict(judged.verdict);
    judged
}

/// Collects the facts by which a refusal of an attempt is judged.
pub(super) fn request_facts<'c>(chat: &'c Chat<'_>, attempt: &Attempt) -> RequestFacts<'c> {
    let conversation = chat.request.conversation;
    let known = KnownWindow::of_chat(chat, attempt.inputs.adopted());
    let window = known.in_force(&attempt.inputs);
    let target = chat.request.route.mapped.as_str();
    RequestFacts {
        tokens: attempt.tokens(conversation).get(),
        text: RequestText::new(conversation.body().as_bytes(), target),
        body_tokens: conversation.tokens().get(),
        window: window.map(Tokens::get),
        largest_accepted: known.sizes.largest_accepted.get(),
        model: &chat.model,
        output: conversation.output_tokens().map(Tokens::get),
        is_partial: conversation.params().is_partial || !conversation.is_text_only(),
        has_compaction: attempt.view().is_by_provider(),
    }
}
