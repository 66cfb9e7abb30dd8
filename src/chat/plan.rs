//! Second step: plans what is sent of a chat, and builds the body of the first send.
//!
//! | function | when | result |
//! |---|---|---|
//! | [`unmodified`] | its rewrites were refused; a rewrite was unsound; a count was refused | the original, without stale thinking |
//! | `plan_clearing_only` | its summaries were refused | cleared results; no summary is used or requested |
//! | `current_plan` | otherwise | the records in use, the rules, and whether a summary is needed |
//! | `plan_with_digest` | a needed summary did not arrive in time | a digest in place of the summary |
//! | `compact_immediately` | the header requests a compaction; [`explicit_compaction`] with a longer wait | a compaction below the thresholds |
//! | `fit_known_window` | the plan exceeds a window that is known | recovery before the first send |
//! | [`plan_in_use`] | a count of tokens | as one of the first four, with nothing waited for |
//!
//! `plan_unmodified` forwards a stateful conversation as it came. After a refusal, [`crate::chat::retry`]
//! plans.

use tokio::time::Instant;

use crate::chat::attempt::{Attempt, PlanInputs};
use crate::chat::context::Chat;
use crate::chat::learn::known_window::KnownWindow;
use crate::chat::learn::thinking;
use crate::chat::output_limit::OutputAllowance;
use crate::chat::{notices, output_limit, recovery, rewrite, summarise};
use crate::config::Mode;
use crate::explanation::PlanCause;
use crate::metrics::Action;
use crate::report::ChatReport;
use crate::request::buffered_body::FramedBody;
use crate::store::RewriteTolerance;
use crate::summaries::CALL_TIMEOUT;
use longhaul_core::conversation::{Conversation, HistoryKeeper};
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::plan::{
    RequestPlan, SummaryNeed, SummarySource, plan, plan_explicit_compaction, plan_unmodified,
    plan_with_digest,
};
use longhaul_core::planning::recovery::RecoveryStep;
use longhaul_core::planning::splice::admits_body;
use longhaul_core::policy::cut_point;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::record::{PriorRecords, RecordMatch};

/// Plans the first send and builds its body. An unsound rewrite is replaced by the original
/// body.
pub(crate) async fn first_send(
    chat: &Chat<'_>,
    mut inputs: PlanInputs,
) -> (Attempt, FramedBody, ChatReport) {
    let plan = plan_request(chat, &mut inputs).await;
    let (mut plan, step, allowance) = fit_known_window(chat, plan, &mut inputs).await;
    // A server that refused the output once is asked for what fits.
    let is_output_lowered = if let Some(OutputAllowance::Lower(output)) = allowance {
        plan.view.set_output_limit(output);
        true
    } else {
        false
    };
    let body = |plan: &RequestPlan| match chat.mode {
        Mode::On => rewrite::rewritten_body(&chat.request, &plan.view),
        Mode::Off | Mode::Shadow => Ok(None),
    };
    let (plan, report, sending) = match body(&plan) {
        Ok(sending) => {
            let conversation = chat.request.conversation;
            let mut report = match step {
                Some(_) => ChatReport::untouched(conversation, Bypass::Nothing),
                None => plan_report(conversation, &plan),
            };
            if let Some(step) = step {
                report.add_recovery(conversation, &plan.view, step);
            }
            if is_output_lowered {
                report.add(Action::SmallerOutput);
            }
            if chat.mode == Mode::Shadow && report.bypass().is_none() {
                report.add(Action::Shadow);
            }
            (plan, report, sending)
        }
        Err(why) => {
            let plan = unmodified(chat, &inputs);
            let report = ChatReport::untouched(chat.request.conversation, why);
            let sending = body(&plan).unwrap_or(None);
            (plan, report, sending)
        }
    };
    let marked = rewrite::marked_body(chat, sending.as_ref());
    let is_marked = marked.is_some();
    let sending = marked.or(sending).unwrap_or_else(|| chat.request.body.original());
    let cause = match step {
        _ if chat.compact_now => PlanCause::Manual,
        Some(_) => PlanCause::FitWindow,
        None => PlanCause::Plan,
    };
    let first = Attempt { inputs, plan, retry: None, is_marked, cause };
    (first, sending, report)
}

/// Makes a request fit a window that is known. Returns the recovery step if one was needed, and the output that
/// the plan leaves.
///
/// The operator set the window, the upstream stated it to this caller, or an earlier refusal in this
/// conversation shows it. The output is left to the upstream, since many count only the input. If the
/// upstream refused an output before, the request has to leave enough of it.
async fn fit_known_window(
    chat: &Chat<'_>,
    plan: RequestPlan,
    inputs: &mut PlanInputs,
) -> (RequestPlan, Option<RecoveryStep>, Option<OutputAllowance>) {
    let conversation = chat.request.conversation;
    let settings = &chat.settings;
    let tokens = plan.view.tokens(conversation);
    let allowance = output_limit::remaining_output(chat, tokens);
    let leaves_output = allowance != Some(OutputAllowance::TooLittle);
    let limits = chat.learned.windows.sizes(&chat.model).body_limits();
    let fits_body = admits_body(conversation, &plan.view, &limits);
    let fits = tokens <= inputs.policy.thresholds.actual_window && leaves_output && fits_body;
    let is_enabled = settings.proactive && chat.recovery_enabled();
    let is_known = || {
        let known = KnownWindow::of_chat(chat, inputs.adopted());
        known.is_stated() || known.was_refused_at(tokens)
    };
    // The provider clears before it counts.
    let clears = conversation.params().history == HistoryKeeper::ClearingProvider;
    let is_left = clears || conversation.is_stateful();
    if is_left || fits || !is_enabled || (leaves_output && fits_body && !is_known()) {
        return (plan, None, allowance);
    }
    if !fits_body {
        *inputs = recovery::inputs_for_body(chat, inputs, limits);
    }
    let Some((view, step)) = recovery::run_recovery(chat, &plan.view, inputs).await else {
        return (plan, None, allowance);
    };
    let plan = RequestPlan {
        base: inputs.prior_records.adopted.clone(),
        fresh_digest: true,
        ..RequestPlan::from_view(view)
    };
    let thinking = &inputs.prior_records.thinking;
    let plan = plan.without_stale_thinking(conversation, thinking);
    let allowance = output_limit::remaining_output(chat, plan.view.tokens(conversation));
    (plan, Some(step), allowance)
}

/// Plans an explicit compaction (`/__longhaul__/compact`). Waits for the summary as long as a call may take. Returns
/// `None` if it would save nothing.
pub(super) async fn explicit_compaction(
    chat: &Chat<'_>,
    mut inputs: PlanInputs,
) -> Option<(Attempt, FramedBody, ChatReport)> {
    // The client sends the body itself, later.
    let known = inputs.prior_records.with_items_that(|_| false);
    inputs.prior_records = thinking::for_last_send(chat, &known);
    if chat.request.conversation.is_stateful() {
        return None;
    }
    let wait = chat.state().config.summary.wait_limit.max(CALL_TIMEOUT);
    inputs.deadline = Some(Instant::now() + wait);
    let plan = compact_immediately(chat, &mut inputs).await?;
    let sending = rewrite::rewritten_body(&chat.request, &plan.view).ok()??;
    let report = plan_report(chat.request.conversation, &plan);
    let cause = PlanCause::Manual;
    let attempt = Attempt { inputs, plan, retry: None, is_marked: false, cause };
    Some((attempt, sending, report))
}

/// Reports the actions of `plan` on the conversation.
pub(super) fn plan_report(conversation: &Conversation<'_>, plan: &RequestPlan) -> ChatReport {
    if conversation.is_stateful() {
        return ChatReport::untouched(conversation, Bypass::Stateful);
    }
    // A digest may extend a summary that was not in use before.
    let written = |found: &RecordMatch| {
        let is_written = found.record.summary.is_some() || plan.view.is_by_provider();
        is_written && (!plan.fresh_digest || !found.adopted)
    };
    let stands =
        if plan.base.as_ref().is_some_and(written) { Action::Summary } else { Action::Digest };
    ChatReport::for_view(conversation, &plan.view, stands)
}

/// Plans the request. If the conversation does not fit, waits for a summary; if none arrives in
/// time, uses a digest.
async fn plan_request(chat: &Chat<'_>, inputs: &mut PlanInputs) -> RequestPlan {
    if chat.request.conversation.is_stateful() {
        notices::log_stateful(chat);
        return plan_unmodified(chat.request.conversation, &inputs.policy);
    }
    if chat.compact_now {
        let compacted = compact_immediately(chat, inputs).await;
        return compacted.unwrap_or_else(|| current_plan(chat, inputs));
    }
    if let Some(plan) = plan_after_refusal(chat, inputs) {
        return plan;
    }
    let plan = current_plan(chat, inputs);
    let SummaryNeed::Now(covers) = plan.need else {
        return plan;
    };
    let still = |inputs: &PlanInputs| match current_plan(chat, inputs).need {
        SummaryNeed::Now(covers) => Some(covers),
        SummaryNeed::Nothing | SummaryNeed::InBackground(_) => None,
    };
    summarise::wait_for_any_summary(chat, inputs, covers, still).await;
    plan_without_waiting(chat, inputs)
}

/// Plans a chat as it would be forwarded by what is in use: the adopted record, and whatever follows from
/// the history alone. Needs no summary.
pub(super) fn plan_in_use(chat: &Chat<'_>, inputs: &PlanInputs) -> RequestPlan {
    let conversation = chat.request.conversation;
    if conversation.is_stateful() {
        return plan_unmodified(conversation, &inputs.policy);
    }
    let mut inputs = inputs.clone();
    inputs.prior_records.ready = None;
    inputs.prior_records.seen = true;
    plan_after_refusal(chat, &inputs).unwrap_or_else(|| plan_without_waiting(chat, &inputs))
}

/// Plans what the model accepts of a rewrite. Returns `None` if the model accepts a whole one.
fn plan_after_refusal(chat: &Chat<'_>, inputs: &PlanInputs) -> Option<RequestPlan> {
    match chat.state().store.rewrite_tolerance(&chat.prefix_keys) {
        RewriteTolerance::All => None,
        RewriteTolerance::ClearingOnly => Some(plan_clearing_only(chat, inputs)),
        RewriteTolerance::Nothing => Some(unmodified(chat, inputs)),
    }
}

/// Plans the request from the records known now, with a digest in place of a summary that is missing.
fn plan_without_waiting(chat: &Chat<'_>, inputs: &PlanInputs) -> RequestPlan {
    let plan = current_plan(chat, inputs);
    let (policy, known) = (&inputs.policy, &inputs.prior_records);
    match plan.need {
        SummaryNeed::Now(_) => plan_with_digest(chat.request.conversation, policy, known),
        SummaryNeed::Nothing | SummaryNeed::InBackground(_) => plan,
    }
}

/// Plans to forward the original, without thinking that is bound to earlier edits.
pub(super) fn unmodified(chat: &Chat<'_>, inputs: &PlanInputs) -> RequestPlan {
    let conversation = chat.request.conversation;
    let plan = plan_unmodified(conversation, &inputs.policy);
    plan.without_stale_thinking(conversation, &inputs.prior_records.thinking)
}

/// Plans by clearing alone, for a model that refused summaries. No summary is used or
/// requested.
fn plan_clearing_only(chat: &Chat<'_>, inputs: &PlanInputs) -> RequestPlan {
    let conversation = chat.request.conversation;
    let known = PriorRecords { ready: None, ..inputs.prior_records.clone() };
    // Nothing is cut, so the rule may clear at the threshold.
    let mut policy = inputs.policy.clone();
    policy.settings.proactive = false;
    let plan = plan(conversation, &policy, &known, chat.summary_source());
    if plan.view.is_condensed() {
        return unmodified(chat, inputs);
    }
    plan
}

/// Plans the request from the records known now.
fn current_plan(chat: &Chat<'_>, inputs: &PlanInputs) -> RequestPlan {
    let source = chat.summary_source();
    plan(chat.request.conversation, &inputs.policy, &inputs.prior_records, source)
}

/// Compacts immediately, regardless of thresholds. Returns `None` if that would save nothing. If the
/// upstream refuses the summary call as too long, compacts once more for the window that this reveals.
async fn compact_immediately(chat: &Chat<'_>, inputs: &mut PlanInputs) -> Option<RequestPlan> {
    let before = inputs.policy.thresholds.window;
    let plan = compact_within_window(chat, inputs).await;
    if inputs.policy.thresholds.window < before {
        tracing::info!(
            window = inputs.policy.thresholds.window.get(),
            "the upstream refused the summary call as too long; trying a smaller one"
        );
        return compact_within_window(chat, inputs).await;
    }
    plan
}

/// Compacts for the window of the policy in `inputs`.
async fn compact_within_window(chat: &Chat<'_>, inputs: &mut PlanInputs) -> Option<RequestPlan> {
    let conversation = chat.request.conversation;
    let messages = conversation.messages().len();
    let (policy, known) = (&inputs.policy, &inputs.prior_records);
    let records = [&known.ready, &known.adopted].into_iter().flatten();
    let last = records.max_by_key(|found| found.record.compacted_message_count);
    let covered = last.map(|found| found.record.compacted_message_count);
    let kept = PinnedHead::new(conversation, policy, known.adopted.as_ref());
    let cut = if last.is_some_and(|found| found.record.thrash.was_compacted_at(messages)) {
        // Do not pay again for a repeated request, even if it is counted differently by now.
        covered
    } else {
        // A wish of a person takes a cut that is new, however recent.
        let is_wish = chat.dashboard.as_ref().is_some_and(|it| it.compacts);
        let is_wanted = |cut: &usize| !is_wish || covered.is_none_or(|it| *cut > it);
        cut_point::find(conversation, policy.keep_recent, None, kept, messages)
            .filter(is_wanted)
            .or_else(|| cut_point::deepest(conversation, kept, messages))
            .or(covered)
    }?;
    // Do not pay for a range that a record already covers.
    if chat.summary_source() == SummarySource::Model && covered.is_none_or(|covered| cut > covered)
    {
        summarise::wait_for_summary(chat, inputs, cut).await;
    }
    plan_explicit_compaction(conversation, &inputs.policy, &inputs.prior_records, cut)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use longhaul_core::dialect::bypass::Bypass;
    use longhaul_core::policy::record::CompactionRecord;

    use super::*;
    use crate::chat::test_support::{state, with_chat};

    /// Plans the first send of the chat in `text` with these prior records; also returns the
    /// original bytes.
    async fn first(text: &str, known: PriorRecords) -> (Attempt, FramedBody, ChatReport, Bytes) {
        let state = state("http://127.0.0.1:9/v1", &[]);
        with_chat(&state, &[], text.to_owned(), async |chat, inputs| {
            let (attempt, sending, report) =
                first_send(&chat, PlanInputs { prior_records: known, ..inputs }).await;
            (attempt, sending, report, chat.request.body.text().clone())
        })
        .await
    }

    #[tokio::test]
    async fn unchanged_body_is_forwarded_without_a_copy() {
        let text = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
        let (_, sending, _, came) = first(text, PriorRecords::default()).await;
        let forwarded = sending.body.into_bytes();
        assert_eq!(forwarded.as_ptr(), came.as_ptr(), "the same bytes, not equal ones");
        assert_eq!(forwarded.len(), came.len());
    }

    #[tokio::test]
    async fn unsound_rewrite_is_neither_sent_nor_reported() {
        let text = r#"{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"two"},{"role":"user","content":"three"}]}"#;
        // The cut falls between a call and its result.
        let record = CompactionRecord {
            text: Some("-".into()),
            history_from: 1,
            compacted_message_count: 2,
            ..CompactionRecord::default()
        };
        let adopted = RecordMatch { prefix_end: 3, adopted: true, record: Arc::new(record) };
        let known = PriorRecords { adopted: Some(adopted), ..PriorRecords::default() };
        let (attempt, sending, report, came) = first(text, known).await;
        assert_eq!(report.bypass(), Some(Bypass::Unsound));
        assert_eq!(sending.body.into_bytes(), came);
        assert!(!attempt.view().is_condensed());
        assert!(attempt.plan.base.is_none(), "there is no record to adopt");
        assert_eq!(report.action_labels(), None);
        assert_eq!(report.after, report.before);
    }
}
