//! Explanation of an attempt, for the log, the dashboard and `longhaul explain --last`.

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::learn::known_window::KnownWindow;
use crate::chat::notices;
use crate::exchange::reply_gate::JudgedReply;
use crate::exchange::request_log::{ChatFacts, RequestLog};
use crate::explanation::{ExplanationContext, Refusal, StoredExplanation};
use crate::upstream::UpstreamBody;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::overflow::Verdict;
use longhaul_core::planning::explanation::RequestExplanation;
use longhaul_core::window::source::SourcedWindow;

/// Records the facts about an attempt that its log line shows, and its explanation. `untouched` is the
/// reason for sending the original, if it is sent.
pub(crate) fn record(
    chat: &Chat<'_>,
    attempt: &Attempt,
    untouched: Option<Bypass>,
    log: &mut RequestLog,
) {
    let facts = ChatFacts {
        model: chat.model_in_log().into(),
        conversation: chat.conversation_id(),
        window: KnownWindow::of_chat(chat, attempt.inputs.adopted()).sourced(),
        soft: attempt.inputs.policy.thresholds.soft,
        hard: attempt.inputs.policy.thresholds.hard,
    };
    let explanation = explanation(chat, attempt, facts.window, untouched);
    log.set_chat(facts, explanation);
}

/// Explains an attempt. Returns `None` if nobody can request the explanation.
fn explanation(
    chat: &Chat<'_>,
    attempt: &Attempt,
    window: SourcedWindow,
    untouched: Option<Bypass>,
) -> Option<StoredExplanation> {
    chat.dashboard.as_ref()?;
    let conversation = chat.request.conversation;
    let numbers = RequestExplanation::new(
        conversation,
        &attempt.inputs.policy,
        attempt.view(),
        attempt.plan.decisions.as_deref(),
    );
    let context = ExplanationContext { mode: chat.mode, profile: chat.settings.profile, untouched };
    let mut explanation = StoredExplanation::new(context, window, attempt.cause, numbers);
    if chat.state().config.admin_show_content {
        explanation.add_texts(conversation, attempt.view());
    }
    Some(explanation)
}

/// Returns and logs the refusal of an attempt that was too large. `None` for any other attempt.
pub(crate) fn refusal(
    chat: &Chat<'_>,
    attempt: &Attempt,
    judged: &JudgedReply<UpstreamBody>,
) -> Option<Refusal> {
    let Verdict::Overflow(overflow) = judged.verdict else {
        return None;
    };
    let status = judged.response.status();
    let refusal = attempt.refused(chat.request.conversation, status, overflow).refusal();
    notices::log_refusal(chat, &refusal, overflow.evidence);
    Some(refusal)
}
