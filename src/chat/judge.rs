//! Judges the reply to an attempt.

use http::Response;

use crate::chat::attempt::Attempt;
use crate::chat::{Chat, window};
use crate::exchange::reply_gate;
use crate::exchange::reply_gate::{HoldPolicy, JudgedReply};
use crate::exchange::request_log::RequestLog;
use crate::upstream::UpstreamBody;

/// Selects how far the reply is held. A request that is proven to fit cannot overflow, so only
/// its error statuses are held.
pub(crate) fn hold_policy(chat: &Chat<'_>, first: &Attempt) -> HoldPolicy {
    let shown = chat.knowledge.windows.observations(&chat.model);
    if !chat.recovery_enabled() {
        HoldPolicy::Nothing
    } else if shown.is_known_to_fit(
        first.tokens(chat.request.conversation),
        window::configured_input_limit(chat, &first.inputs),
    ) {
        HoldPolicy::Errors
    } else {
        HoldPolicy::Everything
    }
}

/// Holds the reply to an attempt until its verdict is known.
pub(crate) async fn judge(
    chat: &Chat<'_>,
    reply: Response<UpstreamBody>,
    holding: HoldPolicy,
    log: &mut RequestLog,
) -> JudgedReply<UpstreamBody> {
    let services = chat.services();
    let dialect = chat.request.conversation.dialect();
    let rules = &services.config.overflow_rules;
    let judging = reply_gate::judge(reply, dialect, holding, rules, &services.budget);
    let judged = log.meter().measure_wait(judging).await;
    log.record_verdict(judged.verdict);
    judged
}
