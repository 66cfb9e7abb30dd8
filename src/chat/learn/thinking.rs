//! Thinking that a provider binds to the bytes before it: learned facts, and how replies add to them.

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::refusal::Retry;
use longhaul_core::dialect::thinking_binding::ThinkingBinding;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::thinking_removal::{PriorThinking, StaleThinking};

/// Returns the facts about the conversation's thinking, for a send that a retry may follow.
pub(in crate::chat) fn prior_thinking(chat: &Chat<'_>) -> PriorThinking {
    let conversation = chat.request.conversation;
    let is_dropped = is_dropped(chat);
    let may_have = conversation.has_bound_thinking()
        || conversation.asks_for_thinking()
        || is_dropped && conversation.has_reasoning();
    if !may_have && !is_learned(chat) {
        return PriorThinking::default();
    }
    let prior = |counts| chat.state().store.prior_removals(&chat.prefix_keys, counts);
    PriorThinking {
        stale: stale_thinking(chat),
        removals: prior(false),
        counted: (is_dropped || may_bind(chat)).then(|| prior(true)),
    }
}

fn stale_thinking(chat: &Chat<'_>) -> StaleThinking {
    if !chat.settings.remove_thinking {
        return StaleThinking::Ignored;
    }
    match chat.request.conversation.thinking_binding() {
        ThinkingBinding::Dropped => StaleThinking::Ignored,
        ThinkingBinding::Enforced => StaleThinking::Removed,
        // A refusal outweighs what the model's name shows.
        _ if is_learned(chat) => StaleThinking::Removed,
        // Without recovery no refusal is seen, and nothing is sent twice.
        ThinkingBinding::Possible if !chat.recovery_enabled() && !accepts_stale(chat) => {
            StaleThinking::Removed
        }
        // Thinking with a fixed budget has to stay in an open tool loop.
        ThinkingBinding::Never | ThinkingBinding::Possible => StaleThinking::Kept,
    }
}

/// Whether the provider drops reasoning behind an edit without an error.
pub(in crate::chat) fn is_dropped(chat: &Chat<'_>) -> bool {
    chat.request.conversation.thinking_binding() == ThinkingBinding::Dropped
}

/// Whether the upstream has refused an edit for the thinking after it, from this caller and for the
/// chat's model.
pub(in crate::chat) fn is_learned(chat: &Chat<'_>) -> bool {
    chat.learned.binding_models.contains(&chat.model)
}

/// Whether the upstream has accepted thinking after an edit, from this caller and for the chat's model.
fn accepts_stale(chat: &Chat<'_>) -> bool {
    chat.learned.binding_models.accepts_stale(&chat.model)
}

/// Whether the model's name or a refusal shows that the model may bind thinking.
pub(in crate::chat) fn may_bind(chat: &Chat<'_>) -> bool {
    match chat.request.conversation.thinking_binding() {
        ThinkingBinding::Dropped => false,
        ThinkingBinding::Enforced | ThinkingBinding::Possible => true,
        ThinkingBinding::Never => is_learned(chat),
    }
}

/// Whether the provider may refuse thinking after an edit of `first`. A reply that may be such a
/// refusal is held until its verdict is known.
pub(in crate::chat) fn may_be_refused(chat: &Chat<'_>, first: &Attempt) -> bool {
    let conversation = chat.request.conversation;
    conversation.has_bound_thinking()
        && first.inputs.prior_records.thinking.stale != StaleThinking::Ignored
        && may_bind(chat)
        && first.plan.has_edits(conversation)
}

/// Returns the prior records for a send that no retry follows: thinking that the model may bind is
/// removed.
pub(in crate::chat) fn for_last_send(chat: &Chat<'_>, prior: &PriorRecords) -> PriorRecords {
    let mut prior = prior.clone();
    if prior.thinking.stale == StaleThinking::Kept && may_bind(chat) && !accepts_stale(chat) {
        prior.thinking.stale = StaleThinking::Removed;
    }
    prior
}

/// Learns that the model binds thinking, from an edit that it refused with that thinking.
pub(in crate::chat) fn learn_binding(chat: &Chat<'_>, attempt: &Attempt) {
    if chat.learned.binding_models.insert(&chat.model) {
        tracing::warn!(
            model = &*chat.model,
            removed = attempt.view().thinking_removals(chat.request.conversation),
            path = chat.request.route.mapped.path(),
            "the upstream binds thinking to the messages before it; this caller's chats with the \
             model leave out the thinking after each new edit"
        );
    }
}

/// Learns that the provider does not enforce the binding, from a first send that it accepted. The
/// newest thinking follows an edit that the request for this thinking did not have.
pub(in crate::chat) fn learn_acceptance(chat: &Chat<'_>, attempt: &Attempt) {
    let prior = &attempt.inputs.prior_records;
    let plan = &attempt.plan;
    let is_new_edit = plan.fresh_digest || plan.base.as_ref().is_some_and(|base| !base.adopted);
    if attempt.retry.is_some()
        || prior.thinking.stale != StaleThinking::Kept
        || !prior.seen
        || !is_new_edit
        || !may_bind(chat)
    {
        return;
    }
    let messages = chat.request.conversation.messages();
    let newest = messages.iter().rposition(|it| it.bound_thinking.is_some());
    // Thinking that an earlier request left out is not sent, and proves nothing.
    let removed = prior.thinking.removed();
    let newest = newest.filter(|newest| !removed.iter().any(|range| range.contains(newest)));
    let Some(newest) = newest.filter(|newest| plan.view.changed_prefix_len() <= *newest) else {
        return;
    };
    // This process forwarded that request to this model, so another model's thinking does not count.
    let costs = &chat.state().costs;
    let key = chat.prefix_keys.key_at(newest);
    if key.is_some_and(|key| costs.has_answered_at(key, &chat.model)) {
        chat.learned.binding_models.record_accepted(&chat.model);
    }
}

/// Learns that the model binds thinking, from a retry with an edit that was refused for it. The
/// model's name promised otherwise. The next request leaves that thinking out.
pub(in crate::chat) fn learn_from_refused_retry(chat: &Chat<'_>, attempt: &Attempt, retry: Retry) {
    // In the other retries, nothing was left that longhaul could have made stale.
    let keeps_edits = !matches!(retry, Retry::Original { .. } | Retry::WithoutStaleThinking);
    if keeps_edits && attempt.plan.has_edits(chat.request.conversation) {
        learn_binding(chat, attempt);
    }
}
