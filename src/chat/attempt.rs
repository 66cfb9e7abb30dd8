//! A single send of a chat, with its plan inputs, its plan and its report.

use http::Response;
use http::request::Parts;
use tokio::time::Instant;

use crate::chat::retry::RetryReason;
use crate::chat::{Chat, window};
use crate::config::Mode;
use crate::exchange::reply_gate::HoldPolicy;
use crate::exchange::reply_observer::{ObservedRequest, ReplyObserver};
use crate::metrics::Action;
use crate::report::ChatReport;
use crate::request::buffered_body::FramedBody;
use crate::request::headers;
use crate::traces::CallPurpose;
use longhaul_core::cost::comparison::BilledRequest;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::plan::{RequestPlan, plan_unmodified};
use longhaul_core::planning::splice::Splice;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords, RecordMatch};
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::reply_signals::SentSize;

/// Inputs of a chat's plan. A summary that was waited for updates the prior records; a retry after
/// a refusal has its own policy.
#[derive(Clone, Debug)]
pub(crate) struct PlanInputs {
    pub(super) policy: Policy,
    /// Records found for prefixes of this conversation.
    pub(super) prior_records: PriorRecords,
    /// Deadline for waiting for summaries. `None` until the request first waits.
    pub(super) deadline: Option<Instant>,
}

/// A single send of a chat, first or retry.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(super) inputs: PlanInputs,
    pub(super) plan: RequestPlan,
    /// Reason for the retry. `None` for the first send.
    pub(super) retry_reason: Option<RetryReason>,
    /// Actions and sizes for the log line and the reply headers.
    pub(crate) report: ChatReport,
}

impl PlanInputs {
    /// Returns the record in use.
    pub(super) fn adopted(&self) -> Option<&CompactionRecord> {
        self.prior_records
            .adopted
            .as_ref()
            .map(|found| &*found.record)
    }
}

impl Attempt {
    /// Returns the view of the conversation that is sent.
    pub(super) fn view(&self) -> &ForwardedView {
        &self.plan.view
    }

    /// Returns the purpose of this call.
    pub(crate) fn purpose(&self) -> CallPurpose {
        let second = self.retry_reason.map(RetryReason::kind);
        second.map_or(CallPurpose::First, CallPurpose::Retry)
    }
}

impl Chat<'_> {
    /// Looks up the prior records of this conversation and builds the policy.
    pub(super) fn plan_inputs(&self) -> PlanInputs {
        let shared = self.shared();
        let known = shared.store.prior_records(&self.prefix_keys);
        let adopted = known.adopted.as_ref().map(|found| &*found.record);
        let policy = self.window_sources(adopted).calibrated_policy(
            &self.settings,
            self.request.conversation,
            || {
                window::counts(
                    shared,
                    &self.model,
                    self.request.conversation,
                    &self.prefix_keys,
                )
            },
        );
        PlanInputs {
            policy,
            prior_records: known,
            deadline: None,
        }
    }

    /// Plans the first send and builds its body. An unsound rewrite is replaced by the original
    /// body.
    pub(crate) async fn plan_first_send(&self, mut basis: PlanInputs) -> (Attempt, FramedBody) {
        let outlook = self.plan(&mut basis).await;
        let spliced = match self.mode {
            Mode::On => self.rewritten_body(&outlook.view),
            Mode::Off | Mode::Shadow => Ok(None),
        };
        let (outlook, report, sending) = match spliced {
            Ok(sending) => {
                let report = self.first_send_report(&outlook);
                (outlook, report, sending)
            }
            Err(why) => {
                let outlook = plan_unmodified(self.request.conversation, &basis.policy);
                let report = ChatReport::untouched(self.request.conversation, why);
                (outlook, report, None)
            }
        };
        let sending = sending.unwrap_or_else(|| self.request.body.original());
        let first = Attempt {
            inputs: basis,
            plan: outlook,
            retry_reason: None,
            report,
        };
        (first, sending)
    }

    /// Plans an explicit compaction (`/__longhaul__/compact`). Returns `None` if it would save
    /// nothing.
    pub(crate) async fn plan_explicit_compaction(
        &self,
        mut basis: PlanInputs,
    ) -> Option<(Attempt, FramedBody)> {
        let outlook = self.compact_explicitly(&mut basis).await?;
        let sending = self.rewritten_body(&outlook.view).ok()??;
        let report = self.plan_report(&outlook);
        let attempt = Attempt {
            inputs: basis,
            plan: outlook,
            retry_reason: None,
            report,
        };
        Some((attempt, sending))
    }

    /// Builds the retry after `first`.
    pub(super) fn retry_attempt(
        &self,
        first: &Attempt,
        basis: PlanInputs,
        outlook: RequestPlan,
        second: RetryReason,
    ) -> Attempt {
        let mut report = first.report.clone();
        second.add_to_report(self.request.conversation, &outlook.view, &mut report);
        Attempt {
            inputs: basis,
            plan: outlook,
            retry_reason: Some(second),
            report,
        }
    }

    /// Builds the retry's body, or `None` if it would equal the refused one or the rewrite is not
    /// sound.
    pub(crate) fn retry_body(&self, second: &Attempt) -> Option<FramedBody> {
        if let Some(RetryReason::Original { .. }) = second.retry_reason {
            return Some(self.request.body.original());
        }
        self.rewritten_body(second.view()).ok().flatten()
    }

    /// Builds the retry's head.
    pub(crate) fn retry_head(&self) -> Parts {
        let mut head = self.request.head.clone();
        head.headers = headers::for_retry(head.headers);
        head
    }

    /// Builds the body that `view` produces, or `None` if the view changes nothing.
    ///
    /// # Errors
    /// The rewrite is not sound and must not be sent.
    fn rewritten_body(&self, view: &ForwardedView) -> Result<Option<FramedBody>, Bypass> {
        let conversation = self.request.conversation;
        let Some(plan) = view.replacements(conversation) else {
            return Ok(None);
        };
        let spliced = Splice::new(conversation, &plan).and_then(|splice| {
            let sending = self.request.body.spliced(&splice);
            let strays = splice.corrupted_bytes(sending.body.chunks());
            self.shared().metrics.corrupted_bytes.add(strays as u64);
            (strays == 0).then_some(sending)
        });
        if spliced.is_none() {
            tracing::warn!("discarding a rewrite that is not sound");
        }
        spliced.map(Some).ok_or(Bypass::Unsound)
    }

    /// Reports the actions of `outlook` on the conversation.
    fn plan_report(&self, outlook: &RequestPlan) -> ChatReport {
        let written = |found: &RecordMatch| found.record.summary.is_some();
        let stands = if !outlook.fresh_digest && outlook.base.as_ref().is_some_and(written) {
            Action::Summary
        } else {
            Action::Digest
        };
        ChatReport::for_view(self.request.conversation, &outlook.view, stands)
    }

    /// Reports the actions of `outlook` on the request, marked as shadow in shadow mode.
    fn first_send_report(&self, outlook: &RequestPlan) -> ChatReport {
        let mut report = self.plan_report(outlook);
        if self.mode == Mode::Shadow && report.bypass().is_none() {
            report.add(Action::Shadow);
        }
        report
    }

    /// Returns the plain estimate of an attempt's tokens.
    pub(super) fn tokens(&self, attempt: &Attempt) -> Tokens {
        attempt.view().tokens(self.request.conversation)
    }

    /// Selects how far the reply is held. A request that is proven to fit cannot overflow, so only
    /// its error statuses are held.
    pub(crate) fn hold_policy(&self, first: &Attempt) -> HoldPolicy {
        let shown = self.shared().knowledge.windows.observations(&self.model);
        if !self.recovery_enabled() {
            HoldPolicy::Nothing
        } else if shown.is_known_to_fit(
            self.tokens(first),
            self.configured_input_limit(&first.inputs),
        ) {
            HoldPolicy::Errors
        } else {
            HoldPolicy::Everything
        }
    }

    /// Creates the observer of the reply, or `None` if nothing would be done with the observation.
    pub(super) fn observer<B>(
        &self,
        attempt: &Attempt,
        reply: &Response<B>,
    ) -> Option<Box<ReplyObserver>> {
        if !self.recovery_enabled() || attempt.report.actions().contains(&Action::GaveUp) {
            return None;
        }
        let bills = &self.shared().costs;
        let estimate = self.tokens(attempt);
        ReplyObserver::for_reply(self.request.proxy, reply, &self.model, || ObservedRequest {
            sent: SentSize {
                estimate,
                output_limit: self.requested_output(),
                is_text_only: self.request.conversation.is_text_only(),
            },
            prefix: self.prefix_keys.stable_prefix().map(|(_, key)| key),
            bill: bills.begin(&self.prefix_keys, &self.model, self.billed(attempt)),
        })
    }

    /// Returns the sizes that an attempt is billed by. In shadow mode the forwarded size is the
    /// original one.
    pub(super) fn billed(&self, attempt: &Attempt) -> BilledRequest {
        let before = self.request.conversation.tokens();
        let after = match self.mode {
            Mode::On => self.tokens(attempt),
            Mode::Off | Mode::Shadow => before,
        };
        BilledRequest {
            before,
            after,
            window: attempt.inputs.policy.thresholds.window,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::chat::test_support::{meet, proxy};

    /// Plans the first send of the chat in `text` with these prior records; also returns the
    /// original bytes.
    async fn first(text: &str, known: PriorRecords) -> (Attempt, FramedBody, Bytes) {
        let proxy = proxy("http://127.0.0.1:9/v1", &[]);
        meet(&proxy, &[], text.to_owned(), async |chat, basis| {
            let (attempt, sending) = chat
                .plan_first_send(PlanInputs {
                    prior_records: known,
                    ..basis
                })
                .await;
            (attempt, sending, chat.request.body.text().clone())
        })
        .await
    }

    #[tokio::test]
    async fn a_body_that_is_not_changed_goes_on_without_a_copy() {
        let text = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
        let (_, sending, came) = first(text, PriorRecords::default()).await;
        let forwarded = sending.body.into_bytes();
        assert_eq!(
            forwarded.as_ptr(),
            came.as_ptr(),
            "the same bytes, not equal ones"
        );
        assert_eq!(forwarded.len(), came.len());
    }

    #[tokio::test]
    async fn a_rewrite_that_is_not_sound_is_neither_sent_nor_told_of() {
        let text = r#"{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"two"},{"role":"user","content":"three"}]}"#;
        // The cut falls between a call and its result.
        let record = CompactionRecord {
            text: Some("-".into()),
            history_from: 1,
            compacted_message_count: 2,
            ..CompactionRecord::default()
        };
        let adopted = RecordMatch {
            prefix_end: 3,
            adopted: true,
            record: Arc::new(record),
        };
        let known = PriorRecords {
            adopted: Some(adopted),
            ..PriorRecords::default()
        };
        let (attempt, sending, came) = first(text, known).await;
        assert_eq!(attempt.report.bypass(), Some(Bypass::Unsound));
        assert_eq!(sending.body.into_bytes(), came);
        assert!(!attempt.view().is_summarised());
        assert!(attempt.plan.base.is_none(), "there is no record to adopt");
        assert_eq!(attempt.report.action_labels(), None);
        assert_eq!(attempt.report.after, attempt.report.before);
    }
}
