//! Starts summaries of a chat: in the foreground if the chat does not fit without one, in the
//! background if it soon will not fit.
//!
//! [`RunningSummaries`](crate::summaries::jobs) prevents duplicate summaries of a record in this process,
//! and the lease in [`task`] across replicas. The guards limit a caller.

pub(super) mod call;
mod task;

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use crate::chat::attempt::{Attempt, PlanInputs};
use crate::chat::context::Chat;
use crate::chat::learn::{known_window, window};
use crate::chat::{notices, provider};
use crate::config::SummaryModel;
use crate::request::headers;
use crate::summaries::JobHandle;
use longhaul_core::policy::Profile;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::summary::request::{MAX_BACKGROUND_CALLS, MAX_FOREGROUND_CALLS};
use longhaul_core::units::scope::RecordKey;

/// Waits for the summary of the messages before `covers`. First joins a running summary of
/// another part of this history, if any: that call is paid for already and may suffice.
/// Afterwards `still` returns the boundary that is still needed with the records known then.
pub(super) async fn wait_for_any_summary(
    chat: &Chat<'_>,
    inputs: &mut PlanInputs,
    mut covers: usize,
    still: impl Fn(&PlanInputs) -> Option<usize>,
) {
    let state = chat.state();
    let others = further_keys(&chat.prefix_keys, &inputs.prior_records);
    let others = others.filter_map(|(at, key)| (at != covers).then_some(key));
    if let Some(handle) = state.running_summaries.join_any(others) {
        wait_for_job(chat, handle, inputs).await;
        let Some(more) = still(inputs) else { return };
        if inputs.deadline.is_some_and(|until| until <= Instant::now()) {
            return;
        }
        covers = more;
    }
    // The provider's compaction has to fit the window itself, and mends no overflow.
    if chat.settings.by_provider {
        return;
    }
    wait_for_summary(chat, inputs, covers).await;
}

/// Returns the keys of records that would cover more than those in `known`, with the prefix of each.
fn further_keys<'k>(
    prefix_keys: &'k PrefixKeys,
    known: &PriorRecords,
) -> impl Iterator<Item = (usize, RecordKey)> + 'k {
    let covered = known.summarised_until();
    let further = prefix_keys.newest_first();
    let further = further.take_while(move |(at, _)| Some(*at) > covered);
    further.flat_map(|(at, prefix)| prefix_keys.record_keys(prefix).map(move |key| (at, key)))
}

/// Whether a summary that covers more than the records in `known` is being made in this process.
pub(super) fn is_being_made(chat: &Chat<'_>, known: &PriorRecords) -> bool {
    let keys = further_keys(&chat.prefix_keys, known).map(|(_, key)| key);
    let messages = chat.request.conversation.messages().len();
    chat.state().running_summaries.is_any_running(keys, messages)
}

/// Waits, shared with other requests, for the summary of the messages before `covers`.
/// Afterwards `inputs` holds the updated records. If the upstream refused the call as too long, the policy
/// in `inputs` follows the window that the refusal reveals.
pub(super) async fn wait_for_summary(chat: &Chat<'_>, inputs: &mut PlanInputs, covers: usize) {
    let state = chat.state();
    let Some(prefix) = chat.prefix_keys.key_at(covers) else {
        return;
    };
    let permit = call::summary_permit(chat, prefix);
    // A running job is paid for already.
    let running = running_job(chat, prefix);
    if running.is_none() && !state.summary_guards.allows(&permit) {
        return;
    }
    let Some(job) = call::job(chat, inputs, covers, MAX_FOREGROUND_CALLS) else {
        return;
    };
    crate::chat::notices::log_chat!(
        info,
        chat,
        tokens = chat.request.conversation.tokens().get(),
        messages = covers,
        "compacting …"
    );
    let Some(task) = call::summary_task(chat, inputs, permit, job) else {
        return;
    };
    let key = running.unwrap_or(task.key);
    let refused = Arc::clone(&task.job.call_overflow);
    let handle = state.running_summaries.join(key, task.run());
    wait_for_job(chat, handle, inputs).await;
    if let Some(refused) = refused.get() {
        window::learn_from_summary_call(chat, *refused);
        let learned = known_window::policy(chat, inputs.adopted());
        if learned.thresholds.window < inputs.policy.thresholds.window {
            inputs.policy = learned;
        }
    }
}

fn running_job(chat: &Chat<'_>, prefix: RecordKey) -> Option<RecordKey> {
    let mut keys = chat.prefix_keys.record_keys(prefix);
    keys.find(|key| chat.state().running_summaries.is_running(*key))
}

/// Waits for a job until the deadline. After the deadline the request continues without the
/// summary, and the job keeps running.
async fn wait_for_job(chat: &Chat<'_>, mut handle: JobHandle, inputs: &mut PlanInputs) {
    let state = chat.state();
    let began = Instant::now();
    let wait = state.config.summary.wait_limit;
    let deadline = *inputs.deadline.get_or_insert_with(|| began + wait);
    let ended = timeout_at(deadline, handle.completed());
    if chat.request.meter.measure_wait(pin!(ended)).await.is_err() {
        handle.detach();
    }
    state.metrics.summary_wait.observe(began.elapsed());
    inputs.prior_records = PriorRecords {
        thinking: inputs.prior_records.thinking.clone(),
        ..provider::prior_records(&chat.request, &chat.prefix_keys)
    };
}

/// Starts a background summary of the messages before `covers`. The request itself was
/// forwarded as `attempt`.
pub(super) fn start_background_summary(chat: &Chat<'_>, attempt: &Attempt, covers: usize) {
    let state = chat.state();
    // With the local profile, the call would compete with the agent for the machine, whichever
    // model writes the summary.
    if chat.settings.profile == Profile::Local {
        return;
    }
    if state.config.summary.model == SummaryModel::Provider && !chat.settings.by_provider {
        notices::log_no_compaction_by_provider(chat);
    }
    let order = call::provider_order(chat, attempt, covers);
    let covers = order.as_ref().map_or(covers, |(cut, _)| *cut);
    let Some(prefix) = chat.prefix_keys.key_at(covers) else {
        return;
    };
    // A summary may have been made while this request was in flight.
    let now = state.store.prior_records(&chat.prefix_keys);
    if running_job(chat, prefix).is_some() || now.covers_more_than(&attempt.inputs.prior_records) {
        return;
    }
    let Some(permit) =
        state.summary_guards.try_acquire_background(call::summary_permit(chat, prefix))
    else {
        return;
    };
    if let Some(mut job) = call::job(chat, &attempt.inputs, covers, MAX_BACKGROUND_CALLS) {
        job.order = order.map(|(_, order)| order);
        if job.order.is_some() {
            headers::add_compaction_header(job.dialect, &mut job.head.headers);
        } else {
            job.cached_style_body = call::cached_body(chat, attempt, covers);
        }
        let Some(task) = call::summary_task(chat, &attempt.inputs, permit, job) else {
            return;
        };
        tracing::debug!(messages = covers, "preparing a summary");
        state.running_summaries.join(task.key, task.run()).detach();
    }
}

#[cfg(test)]
mod tests;
