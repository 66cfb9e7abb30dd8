//! Adopts compaction records: every later request of the conversation starts from them.

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::learn::thinking;
use crate::chat::notices;
use crate::chat::refusal::Retry;
use crate::metrics::{CompactionTrigger, LostBy};
use longhaul_core::planning::plan::RequestPlan;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::policy::thinking_removal::{StaleThinking, ThinkingRemoval};
use longhaul_core::prefix::keys::HeadDependence;
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;

/// Marker: a record was adopted or a wish stored. Other processes must see either before the client's next
/// request.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct RecordAdopted;

/// Adopts the records of an attempt's plan. Every later request starts from them.
pub(super) fn adopt_plan(
    chat: &Chat<'_>,
    attempt: &Attempt,
    trigger: CompactionTrigger,
) -> Option<RecordAdopted> {
    let plan = &attempt.plan;
    let mut adopted = None;
    record_remote_use(chat, plan);
    if let Some(base) = plan.base.as_ref().filter(|base| !base.adopted)
        && let Some(key) = chat.prefix_keys.key_at(base.prefix_end)
    {
        // A digest that extends the record is stored as a separate record, below.
        if !plan.fresh_digest {
            adopted = adopt_record(chat, (base.prefix_end, key), &base.record, trigger);
            notices::log_thrash(chat, &plan.view);
            notices::log_shortened_words(chat, &plan.view);
        }
        chat.state().summary_guards.record_use(chat.request.scope, &chat.prefix_keys);
    }
    if plan.fresh_digest {
        let inherited = plan.base.as_ref().and_then(|base| base.record.window);
        adopted = adopt_new_record(chat, attempt, inherited, trigger);
        notices::log_thrash(chat, &plan.view);
        notices::log_shortened_words(chat, &plan.view);
    }
    adopted
}

/// Stores the removal of an accepted attempt, or stores earlier ones again before they are too far
/// back to be found.
pub(super) fn adopt_removal(chat: &Chat<'_>, attempt: &Attempt) -> Option<RecordAdopted> {
    let head = chat.prefix_keys.head_len();
    let store = &chat.state().store;
    let prior = &attempt.inputs.prior_records.thinking;
    let (lost, count) = attempt.plan.lost_reasoning(chat.request.conversation, prior);
    let by = match count {
        None => LostBy::Removal,
        Some(_) if thinking::is_dropped(chat) => LostBy::Provider,
        Some(_) => LostBy::PossiblyProvider,
    };
    notices::count_lost_reasoning(chat, lost, by);
    let renewed = prior.counted.as_ref().and_then(|it| it.renewed(head));
    if let Some((key, count)) = renewed.filter(|_| count.is_none()) {
        store.record_removal(key, &chat.model, count);
    }
    let counted = count.and_then(|count| store_removal(chat, count));
    let noted = || noted_edits(chat, attempt);
    let Some(removal) = attempt.plan.removal.clone().or_else(noted) else {
        if let Some((key, removal)) = prior.removals.renewed(head) {
            store.record_removal(key, &chat.model, removal);
        }
        return counted;
    };
    store_removal(chat, removal).or(counted)
}

/// Stores a removal where later requests of the conversation find it.
fn store_removal(chat: &Chat<'_>, removal: ThinkingRemoval) -> Option<RecordAdopted> {
    // Later requests share the stable prefix. The shortest one with all of the removed thinking keeps
    // forks from finding the removal.
    let end = removal.end(chat.prefix_keys.head_len());
    let stable = chat.prefix_keys.stable_prefix();
    let is_whole = |prefix: &(usize, _)| prefix.0 >= end;
    let whole = stable.filter(is_whole);
    let (_, key) = whole.or_else(|| chat.prefix_keys.first_at_least(end)).or(stable)?;
    chat.state().store.record_removal(key, &chat.model, removal);
    Some(RecordAdopted)
}

/// Returns a note of the edits of an accepted attempt with no bound thinking after them, for a model
/// that may bind thinking.
fn noted_edits(chat: &Chat<'_>, attempt: &Attempt) -> Option<ThinkingRemoval> {
    let conversation = chat.request.conversation;
    let prior = &attempt.inputs.prior_records.thinking;
    let may_have = conversation.has_bound_thinking() || conversation.asks_for_thinking();
    let is_noted = may_have && prior.stale == StaleThinking::Kept && thinking::may_bind(chat);
    is_noted.then(|| attempt.plan.note_without_stale_thinking(conversation, prior))?
}

/// Records the use of a summary that was made here but adopted by another process.
fn record_remote_use(chat: &Chat<'_>, plan: &RequestPlan) {
    let base = plan.base.as_ref();
    let Some(base) = base.filter(|base| base.adopted && base.record.summary.is_some()) else {
        return;
    };
    let guards = &chat.state().summary_guards;
    // A digest may extend the summary.
    let segments = base.record.segments.iter().rev().take(2);
    let covers = segments.map(|it| it.until);
    for covers in covers.chain([base.record.compacted_message_count]) {
        if let Some(key) = chat.prefix_keys.key_at(covers) {
            guards.record_later_use(chat.request.scope, &chat.prefix_keys, key);
        }
    }
}

/// Adopts a record made for the prefix that ends at `at` and has the key `prefix`.
fn adopt_record(
    chat: &Chat<'_>,
    (at, prefix): (usize, RecordKey),
    record: &CompactionRecord,
    trigger: CompactionTrigger,
) -> Option<RecordAdopted> {
    let state = chat.state();
    let key = record.key(&chat.prefix_keys, prefix)?;
    // If another model's record is stored at this key, store this one under a longer prefix
    // only.
    let renewal = if state.store.adopt(key, record.clone()) {
        chat.prefix_keys.renewal_key(at)
    } else {
        chat.prefix_keys.longer_than(at)
    };
    if let Some(renewal) = renewal
        && let Some(key) = record.key(&chat.prefix_keys, renewal)
    {
        state.store.adopt(key, record.renewed_at(at));
    }
    state.metrics.compactions.add(trigger);
    Some(RecordAdopted)
}

/// Stores the record in use again under a longer prefix before the first is too far back to be
/// looked up.
pub(super) fn renew_record(chat: &Chat<'_>, known: &PriorRecords) {
    if let (Some(base), Some(renewal)) = (&known.adopted, known.renewal)
        && let Some(key) = base.record.key(&chat.prefix_keys, renewal)
    {
        let record = base.record.renewed_at(base.prefix_end);
        chat.state().store.adopt(key, record);
    }
}

/// Returns whether the text of `record` may hold a segment whose call showed the leading messages.
/// Segments of a known record may be among its own.
fn head_dependence(known: &PriorRecords, record: &CompactionRecord) -> HeadDependence {
    let found = [&known.ready, &known.adopted].into_iter().flatten();
    let mut with_text = found.filter(|it| record.text.is_some() && it.record.text.is_some());
    let is_dependent = with_text.any(|it| it.record.head_dependence == HeadDependence::Dependent);
    if is_dependent { HeadDependence::Dependent } else { HeadDependence::Independent }
}

pub(super) fn adopt_new_record(
    chat: &Chat<'_>,
    attempt: &Attempt,
    window: Option<Tokens>,
    trigger: CompactionTrigger,
) -> Option<RecordAdopted> {
    let (conversation, view) = (chat.request.conversation, attempt.view());
    let known = &attempt.inputs.prior_records;
    // The shortest prefix that contains all changes. Look-ups take the longest one with a record, so it is at least as
    // long as that of the record in use. The record with the refused item keeps its own prefix.
    let further = usize::from(matches!(attempt.retry, Some(Retry::RefusedItem)));
    let in_use = known.adopted.as_ref().map_or(0, |found| found.prefix_end);
    let least = view.changed_prefix_len().max(in_use + further);
    let prefix = chat.prefix_keys.first_at_least(least)?;
    let base = known.adopted.as_ref().map(|base| &base.record);
    let done = view.to_record(conversation);
    // If a stored record has the same text, copy the model-written part from that record.
    let written = [&known.ready, &known.adopted]
        .into_iter()
        .flatten()
        .map(|found| &found.record)
        .find(|other| done.text.is_some() && other.text == done.text);
    if written.is_some_and(|other| other.summary.is_some()) {
        chat.state().summary_guards.record_use(chat.request.scope, &chat.prefix_keys);
    }
    // A digest may extend a record that was not in use.
    let extended = attempt.plan.base.as_ref().filter(|base| !base.adopted);
    let written = written.or_else(|| extended.map(|base| &base.record));
    let record = CompactionRecord {
        summary: written.and_then(|other| other.summary.clone()),
        previous_summary: written.and_then(|other| other.previous_summary.clone()),
        head_dependence: head_dependence(known, &done),
        window,
        cache_price: chat.settings.cache_price,
        tokens_before: conversation.tokens(),
        tokens_after: view.tokens(conversation),
        compaction_count: base.map_or(0, |base| base.compaction_count) + 1,
        model: (*chat.model).to_owned(),
        ..done
    };
    adopt_record(chat, prefix, &record, trigger)
}
