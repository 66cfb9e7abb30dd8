//! Settles an attempt whose reply is relayed: adopts records, learns windows, counts retries.

use http::{Response, StatusCode};

use crate::body::peeked_body::PeekedBody;
use crate::chat::Chat;
use crate::chat::attempt::Attempt;
use crate::chat::retry::{RetryReason, SuspectedOverflow};
use crate::config::Mode;
use crate::exchange::reply_gate::JudgedReply;
use crate::exchange::request_log::RequestLog;
use crate::metrics::{Action, CompactionTrigger, RetryOutcome};
use crate::store::CountedRequest;
use crate::summaries::is_overload_status;
use crate::upstream::UpstreamBody;
use longhaul_core::cost::refetches;
use longhaul_core::overflow::{Evidence, Overflow, Verdict};
use longhaul_core::planning::plan::{RequestPlan, SummaryNeed};
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::token_ratio::CountSample;

/// Classifies the reply to an attempt.
fn retry_outcome(judged: &JudgedReply<UpstreamBody>) -> RetryOutcome {
    match judged.verdict {
        Verdict::Fine if judged.broke_off => RetryOutcome::BrokeOff,
        Verdict::Fine if judged.response.status().is_success() => RetryOutcome::Accepted,
        Verdict::Overflow(_) => RetryOutcome::Overflow,
        Verdict::Failed
        | Verdict::TooManyBytes
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::OutputTooLarge { .. }
        | Verdict::Unexplained => RetryOutcome::Refused,
    }
}

/// Marker: a record was adopted, and other processes must see it before the client's next request.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct RecordAdopted;

impl Chat<'_> {
    /// Settles an attempt and returns its reply for relaying: records and publishes what was
    /// learned, and attaches the observer of the reply.
    pub(crate) async fn finish(
        &self,
        attempt: &Attempt,
        judged: JudgedReply<UpstreamBody>,
        account: &mut RequestLog,
    ) -> Response<PeekedBody<UpstreamBody>> {
        let adopted = self.settle(attempt, &judged);
        self.publish(adopted).await;
        account.set_report(attempt.report.clone());
        let status = judged.response.status();
        // A separate summary endpoint does not compete with chats.
        if is_overload_status(status) && self.shared().summary_endpoint.is_none() {
            self.shared()
                .summary_guards
                .record_throttled_chat(self.request.scope);
        }
        let observer = self.observer(attempt, &judged.response);
        let gave_up = attempt.report.actions().contains(&Action::GaveUp);
        // A successful reply without an observer: its cost stays unknown.
        if observer.is_none() && status == StatusCode::OK && !gave_up {
            self.charge_unknown_cost(self.billed(attempt));
        }
        account.set_observer(observer);
        self.request
            .proxy
            .with_report_headers(judged.response, &attempt.report)
    }

    /// Settles an explicit compaction, whose body is sent to no upstream.
    ///
    /// Anyone can trigger a digest with any key, and all callers share the space for records. So a
    /// digest is stored only if an upstream has answered this caller in this conversation.
    pub(crate) async fn finish_explicit_compaction(&self, attempt: &Attempt) {
        if attempt.plan.fresh_digest && !attempt.inputs.prior_records.seen {
            tracing::debug!(
                "not storing the digest of an explicit compaction: no upstream has answered this \
                 caller in this conversation"
            );
            return;
        }
        let adopted = self.adopt_plan(attempt, CompactionTrigger::Manual);
        self.publish(adopted).await;
    }

    /// Counts the outcome of a retry.
    pub(crate) fn count_retry(&self, attempt: &Attempt, outcome: RetryOutcome) {
        if let Some(second) = attempt.retry_reason {
            self.shared().metrics.retries.add(second.kind(), outcome);
        }
    }

    /// Records the outcome of an attempt.
    fn settle(
        &self,
        attempt: &Attempt,
        judged: &JudgedReply<UpstreamBody>,
    ) -> Option<RecordAdopted> {
        let outcome = retry_outcome(judged);
        self.count_retry(attempt, outcome);
        match (attempt.retry_reason, outcome == RetryOutcome::Accepted) {
            (None, true) => self.settle_accepted_plan(attempt),
            (None, false) => None,
            (Some(second), true) => self.settle_accepted_retry(attempt, second),
            (Some(second), false) => {
                self.settle_refused_retry(attempt, second, judged.verdict);
                None
            }
        }
    }

    /// Publishes learned facts and adopted records to other processes before the client can reach
    /// one of them. Waits only after an adoption: once per compaction.
    async fn publish(&self, adopted: Option<RecordAdopted>) {
        let shared = self.shared();
        shared.store.publish(&shared.knowledge, &self.model);
        if let Some(RecordAdopted) = adopted {
            shared.store.flush().await;
        }
    }

    /// Makes the plan of an accepted attempt permanent and starts its follow-up work.
    fn settle_accepted_plan(&self, attempt: &Attempt) -> Option<RecordAdopted> {
        if self.mode != Mode::On {
            return None;
        }
        self.record_acceptance(attempt);
        self.count_refetches(attempt.view());
        self.request_title();
        self.log_too_few_user_messages(&attempt.plan);
        let trigger = if self.compact_now {
            CompactionTrigger::Manual
        } else {
            CompactionTrigger::Proactive
        };
        let adopted = self.adopt_plan(attempt, trigger);
        if adopted.is_none() {
            self.renew_record(&attempt.inputs.prior_records);
        }
        if let SummaryNeed::InBackground(covers) = attempt.plan.need {
            self.prepare_summary(attempt, covers);
        }
        adopted
    }

    /// Counts repeated tool calls whose earlier results were removed, unless this request is itself
    /// a repeat.
    fn count_refetches(&self, view: &ForwardedView) {
        let rereads = refetches::count_refetches(self.request.conversation, view);
        let shared = self.shared();
        if rereads == 0 || shared.costs.has_answered(&self.prefix_keys, &self.model) {
            return;
        }
        shared.metrics.refetches.add(rereads as u64);
        if let Some(sighting) = &self.dashboard {
            sighting.record_refetches(rereads);
        }
    }

    /// Adopts the records of an attempt's plan. Every later request starts from them.
    fn adopt_plan(&self, attempt: &Attempt, trigger: CompactionTrigger) -> Option<RecordAdopted> {
        let outlook = &attempt.plan;
        let mut adopted = None;
        self.credit_remote_adoption(outlook);
        if let Some(base) = outlook.base.as_ref().filter(|base| !base.adopted)
            && let Some(key) = self.prefix_keys.key_at(base.prefix_end)
        {
            adopted = Some(self.adopt_record((base.prefix_end, key), &base.record, trigger));
            self.shared()
                .summary_guards
                .record_use(self.request.scope, &self.prefix_keys);
            self.log_thrash(&outlook.view);
        }
        if outlook.fresh_digest {
            let inherited = outlook.base.as_ref().and_then(|base| base.record.window);
            adopted = self
                .adopt_new_record(attempt, inherited, trigger)
                .or(adopted);
            self.log_thrash(&outlook.view);
        }
        adopted
    }

    /// Records the use of a summary that was made here but adopted by another process.
    fn credit_remote_adoption(&self, outlook: &RequestPlan) {
        let base = outlook.base.as_ref();
        let base = base.filter(|base| base.adopted && base.record.summary.is_some());
        let covers = base.map(|base| base.record.compacted_message_count);
        if let Some(key) = covers.and_then(|covers| self.prefix_keys.key_at(covers)) {
            let guards = &self.shared().summary_guards;
            guards.record_later_use(self.request.scope, &self.prefix_keys, key);
        }
    }

    fn adopt_record(
        &self,
        (at, key): (usize, RecordKey),
        record: &CompactionRecord,
        trigger: CompactionTrigger,
    ) -> RecordAdopted {
        let shared = self.shared();
        // If another model's record is stored at this key, store this one under a longer prefix
        // only.
        let near = if shared.store.adopt(key, record.clone()) {
            self.prefix_keys.closer_than(at)
        } else {
            self.prefix_keys.longer_than(at)
        };
        if let Some(near) = near {
            shared.store.adopt(near, record.renewed_at(at));
        }
        shared.metrics.compactions.add(trigger);
        RecordAdopted
    }

    /// Stores the record in use again under a longer prefix before the first is too far back to be
    /// looked up.
    fn renew_record(&self, known: &PriorRecords) {
        if let (Some(base), Some(near)) = (&known.adopted, known.renewal) {
            let record = base.record.renewed_at(base.prefix_end);
            self.shared().store.adopt(near, record);
        }
    }

    /// Settles an accepted retry.
    fn settle_accepted_retry(
        &self,
        attempt: &Attempt,
        second: RetryReason,
    ) -> Option<RecordAdopted> {
        match second {
            RetryReason::Compacted { refused, .. } => {
                self.record_acceptance(attempt);
                self.learn_from_overflow(&refused);
                let window = attempt.inputs.policy.thresholds.window;
                self.adopt_new_record(attempt, Some(window), CompactionTrigger::Overflow)
            }
            RetryReason::OtherPlacement => self.settle_accepted_plan(attempt),
            RetryReason::FewerBytes => {
                self.record_acceptance(attempt);
                let base = attempt.inputs.adopted();
                let window = base.and_then(|record| record.window);
                self.adopt_new_record(attempt, window, CompactionTrigger::Bytes)
            }
            RetryReason::Original { why, suspected } => {
                self.record_rewrite_refusal(why, suspected);
                None
            }
            RetryReason::SmallerOutput { refused } => {
                self.record_acceptance(attempt);
                if let Some(refused) = refused {
                    self.learn_from_overflow(&refused);
                }
                None
            }
        }
    }

    /// Settles a refused retry. The client receives the refusal; the next request benefits from it.
    fn settle_refused_retry(&self, attempt: &Attempt, second: RetryReason, verdict: Verdict) {
        match verdict {
            Verdict::Malformed => {
                if let RetryReason::Compacted { .. } | RetryReason::OtherPlacement = second {
                    self.suspect_attempt(attempt);
                }
                self.record_original_refused(second);
            }
            Verdict::Overflow(overflow) => self.settle_overflowed_retry(attempt, second, &overflow),
            Verdict::Unexplained => self.record_original_refused(second),
            Verdict::Failed
            | Verdict::TooManyBytes
            | Verdict::Fine
            | Verdict::OutputTooLarge { .. } => {}
        }
    }

    /// Settles a retry that overflowed again: the window is known more precisely.
    fn settle_overflowed_retry(&self, attempt: &Attempt, second: RetryReason, overflow: &Overflow) {
        let windows = &self.shared().knowledge.windows;
        match overflow.evidence {
            Evidence::Stated => {
                let tokens = self.tokens(attempt);
                if tokens > windows.observations(&self.model).largest_accepted {
                    windows.learn_from_refusal(&self.model, tokens, overflow);
                }
                windows.learn_from_second_refusal(&self.prefix_keys, tokens, overflow);
                let pair = overflow
                    .used
                    .and_then(|used| CountSample::new(tokens, used));
                if let (Some((_, key)), Some(pair)) = (self.prefix_keys.stable_prefix(), pair) {
                    let density = windows.observations(&self.model).average_ratio;
                    let counted = CountedRequest { pair, density };
                    self.shared().store.record_count(key, &self.model, counted);
                }
            }
            Evidence::EmptyReply if second.follows_empty_reply() => {
                windows.record_empty_retry(&self.model);
            }
            Evidence::EmptyReply => {}
        }
    }

    /// Learns the window from the first refusal, now that a smaller request was accepted. Empty
    /// replies have many other causes, so they affect this conversation only.
    fn learn_from_overflow(&self, refused: &SuspectedOverflow) {
        let SuspectedOverflow { tokens, overflow } = refused;
        if refused.is_empty_reply() {
            tracing::info!(
                tokens = tokens.get(),
                "treating an empty reply as an overflow: a smaller request was answered"
            );
        } else {
            let windows = &self.shared().knowledge.windows;
            windows.learn_from_refusal(&self.model, *tokens, overflow);
        }
    }

    fn record_acceptance(&self, attempt: &Attempt) {
        self.confirm_placement(attempt);
        self.resolve_suspicions(attempt.view());
        // A reply that was not inspected may be a refusal with a success status.
        if self.recovery_enabled() {
            let windows = &self.shared().knowledge.windows;
            let tokens = self.tokens(attempt);
            windows.record_accepted(&self.model, tokens);
            windows.record_accepted_in_conversation(&self.prefix_keys, tokens);
        }
        if let Some((_, key)) = self.prefix_keys.stable_prefix() {
            self.shared().store.mark_seen(key);
        }
    }

    fn adopt_new_record(
        &self,
        attempt: &Attempt,
        window: Option<Tokens>,
        trigger: CompactionTrigger,
    ) -> Option<RecordAdopted> {
        let (conversation, view) = (self.request.conversation, attempt.view());
        let known = &attempt.inputs.prior_records;
        let prefix = self.prefix_keys.first_at_least(view.changed_prefix_len())?;
        let base = known.adopted.as_ref().map(|base| &base.record);
        let done = view.to_record(conversation);
        // If a stored record has the same text, copy the model-written part from that record.
        let written = [&known.ready, &known.adopted]
            .into_iter()
            .flatten()
            .map(|found| &found.record)
            .find(|other| done.text.is_some() && other.text == done.text);
        if written.is_some_and(|other| other.summary.is_some()) {
            self.shared()
                .summary_guards
                .record_use(self.request.scope, &self.prefix_keys);
        }
        let record = CompactionRecord {
            summary: written.and_then(|other| other.summary.clone()),
            previous_summary: written.and_then(|other| other.previous_summary.clone()),
            window,
            tokens_before: conversation.tokens(),
            tokens_after: view.tokens(conversation),
            compaction_count: base.map_or(0, |base| base.compaction_count) + 1,
            model: self.model.clone(),
            ..done
        };
        Some(self.adopt_record(prefix, &record, trigger))
    }
}
