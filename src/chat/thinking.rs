//! Thinking that a provider binds to the bytes before it: what is known, the retry without it, and
//! the removals that later requests repeat.

use crate::chat::adopt::RecordAdopted;
use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::refusal::Retry;
use longhaul_core::dialect::thinking_binding::ThinkingBinding;
use longhaul_core::planning::plan::RequestPlan;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::thinking_removal::{PriorThinking, StaleThinking, ThinkingRemoval};

/// Returns the facts about the conversation's thinking, for a send that a retry may follow.
pub(super) fn prior_thinking(chat: &Chat<'_>) -> PriorThinking {
    let conversation = chat.request.conversation;
    let may_have = conversation.has_bound_thinking() || conversation.asks_for_thinking();
    if !may_have && !is_learned(chat) {
        return PriorThinking::default();
    }
    PriorThinking {
        stale: stale_thinking(chat),
        removals: chat.services().store.prior_removals(&chat.prefix_keys),
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

/// Whether the upstream has refused an edit for the thinking behind it, from this caller and for the
/// chat's model.
fn is_learned(chat: &Chat<'_>) -> bool {
    chat.knowledge.binding_models.contains(&chat.model)
}

/// Whether the upstream has accepted thinking behind an edit, from this caller and for the chat's model.
fn accepts_stale(chat: &Chat<'_>) -> bool {
    chat.knowledge.binding_models.accepts_stale(&chat.model)
}

/// Whether the model may bind thinking, as far as its name or a refusal shows.
fn may_bind(chat: &Chat<'_>) -> bool {
    match chat.request.conversation.thinking_binding() {
        ThinkingBinding::Dropped => false,
        ThinkingBinding::Enforced | ThinkingBinding::Possible => true,
        ThinkingBinding::Never => is_learned(chat),
    }
}

/// Whether the provider may refuse thinking behind an edit of `first`. A reply that may be such a
/// refusal is held until its verdict is known.
pub(super) fn may_be_refused(chat: &Chat<'_>, first: &Attempt) -> bool {
    let conversation = chat.request.conversation;
    conversation.has_bound_thinking()
        && first.inputs.prior_records.thinking.stale != StaleThinking::Ignored
        && may_bind(chat)
        && first.plan.has_edits(conversation)
}

/// Returns the prior records for a send that no retry follows: thinking that the model may bind is
/// removed.
pub(super) fn for_last_send(chat: &Chat<'_>, prior: &PriorRecords) -> PriorRecords {
    let mut prior = prior.clone();
    if prior.thinking.stale == StaleThinking::Kept && may_bind(chat) && !accepts_stale(chat) {
        prior.thinking.stale = StaleThinking::Removed;
    }
    prior
}

/// Creates a retry of `first` with another view.
pub(super) fn retry_with_view(
    chat: &Chat<'_>,
    first: &Attempt,
    view: ForwardedView,
    retry: Retry,
) -> Attempt {
    retry_with_plan(chat, first, RequestPlan::from_view(view), retry)
}

/// Creates a retry of `first` with another plan.
pub(super) fn retry_with_plan(
    chat: &Chat<'_>,
    first: &Attempt,
    plan: RequestPlan,
    retry: Retry,
) -> Attempt {
    let mut inputs = first.inputs.clone();
    inputs.prior_records = for_last_send(chat, &inputs.prior_records);
    let thinking = &inputs.prior_records.thinking;
    let mut plan = plan.without_stale_thinking(chat.request.conversation, thinking);
    let decisions = plan.decisions.take();
    plan.decisions = decisions.or_else(|| first.plan.decisions.clone());
    Attempt::retry(inputs, plan, retry)
}

/// Retries without the bound thinking behind the first edit. Returns `None` if longhaul never edited
/// the conversation, or if nothing more can go: the client's own body is at fault then.
pub(super) fn retry_without_stale_thinking(chat: &Chat<'_>, first: &Attempt) -> Option<Attempt> {
    let conversation = chat.request.conversation;
    let prior = &first.inputs.prior_records.thinking;
    // Earlier replies may have been made over edits that are lost with their record.
    let is_unknown = !first.inputs.prior_records.seen
        && conversation.thinking_binding() == ThinkingBinding::Possible;
    let may_be_edited = first.plan.has_edits(conversation)
        || !prior.removals.is_empty()
        || is_learned(chat)
        || is_unknown;
    if prior.stale == StaleThinking::Ignored || !may_be_edited {
        return None;
    }
    let plan = first
        .plan
        .without_thinking_behind_edits(conversation, prior)?;
    let inputs = first.inputs.clone();
    Some(Attempt::retry(inputs, plan, Retry::WithoutStaleThinking))
}

/// Learns that the model binds thinking, from an edit that it refused with that thinking.
pub(super) fn learn_binding(chat: &Chat<'_>, attempt: &Attempt) {
    if chat.knowledge.binding_models.insert(&chat.model) {
        tracing::warn!(
            model = &*chat.model,
            removed = attempt.view().thinking_removals(chat.request.conversation),
            path = chat.request.route.mapped.path(),
            "the upstream binds thinking to the messages before it; this caller's chats with the \
             model leave out the thinking behind each new edit"
        );
    }
}

/// Learns that the provider does not enforce the binding, from a first send that it accepted. The newest
/// thinking stands behind an edit that the request for this thinking did not have.
pub(super) fn learn_acceptance(chat: &Chat<'_>, attempt: &Attempt) {
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
    let costs = &chat.services().costs;
    let key = chat.prefix_keys.key_at(newest);
    if key.is_some_and(|key| costs.has_answered_at(key, &chat.model)) {
        chat.knowledge.binding_models.record_accepted(&chat.model);
    }
}

/// Learns that the model binds thinking, from a retry with an edit that was refused for it. The
/// model's name promised otherwise. The next request leaves that thinking out.
pub(super) fn learn_from_refused_retry(chat: &Chat<'_>, attempt: &Attempt, retry: Retry) {
    match retry {
        Retry::Compacted { .. }
        | Retry::OtherPlacement
        | Retry::ClippedTexts
        | Retry::FewerBytes
        | Retry::FewerImages { .. }
        | Retry::SmallerOutput { .. }
            if attempt.plan.has_edits(chat.request.conversation) =>
        {
            learn_binding(chat, attempt);
        }
        // Nothing was left that longhaul could have made stale.
        Retry::Compacted { .. }
        | Retry::OtherPlacement
        | Retry::ClippedTexts
        | Retry::FewerBytes
        | Retry::FewerImages { .. }
        | Retry::Original { .. }
        | Retry::SmallerOutput { .. }
        | Retry::WithoutStaleThinking => {}
    }
}

/// Stores the removal of an accepted attempt, or stores earlier ones again before they are too far
/// back to be found.
pub(super) fn adopt_removal(chat: &Chat<'_>, attempt: &Attempt) -> Option<RecordAdopted> {
    let head = chat.prefix_keys.head_len();
    let store = &chat.services().store;
    let noted = || noted_edits(chat, attempt);
    let Some(removal) = attempt.plan.removal.clone().or_else(noted) else {
        let removals = &attempt.inputs.prior_records.thinking.removals;
        if let Some((key, removal)) = removals.renewed(head) {
            store.record_removal(key, &chat.model, removal);
        }
        return None;
    };
    // Later requests share the stable prefix. The shortest one with all of the removed thinking keeps
    // forks from finding the removal.
    let end = removal.end(head);
    let stable = chat.prefix_keys.stable_prefix();
    let is_whole = |prefix: &(usize, _)| prefix.0 >= end;
    let whole = stable.filter(is_whole);
    let (_, key) = whole
        .or_else(|| chat.prefix_keys.first_at_least(end))
        .or(stable)?;
    store.record_removal(key, &chat.model, removal);
    Some(RecordAdopted)
}

/// Returns a note of the edits of an accepted attempt with no bound thinking behind them, for a model
/// that may bind thinking.
fn noted_edits(chat: &Chat<'_>, attempt: &Attempt) -> Option<ThinkingRemoval> {
    let conversation = chat.request.conversation;
    let prior = &attempt.inputs.prior_records.thinking;
    let may_have = conversation.has_bound_thinking() || conversation.asks_for_thinking();
    let is_noted = may_have && prior.stale == StaleThinking::Kept && may_bind(chat);
    is_noted.then(|| {
        attempt
            .plan
            .note_without_stale_thinking(conversation, prior)
    })?
}
