//! The task of one summary job. It takes the lease that replicas share, requests the summary, and
//! stores the result as a record that is not yet in use.

use std::sync::Arc;

use tokio::time::Instant;

use crate::body::budget::Reservation;
use crate::dashboard::DashboardHandle;
use crate::explanation::ConversationId;
use crate::learned::learned_models::LearnedModels;
use crate::metrics::{Label as _, Metrics, SummaryOutcome as Outcome};
use crate::proxy_state::ProxyState;
use crate::store::LeaseOutcome;
use crate::summaries::{self, SummaryJob, SummaryPermit};
use crate::traces::valid_model_name;
use longhaul_core::policy::cache_price::CachePrice;
use longhaul_core::policy::record::CompactionRecord;
use longhaul_core::policy::thrash::ThrashState;
use longhaul_core::units::scope::RecordKey;

/// Everything a summary needs, independent of the request that started the task.
pub(super) struct SummaryTask {
    pub(super) state: Arc<ProxyState>,
    pub(super) job: SummaryJob,
    pub(super) permit: SummaryPermit,
    pub(super) key: RecordKey,
    /// Second key, of a longer prefix, for when the first is too far back to be looked up.
    pub(super) renewal_key: Option<RecordKey>,
    pub(super) thrash: ThrashState,
    /// Price class by which the thresholds were chosen.
    pub(super) cache_price: Option<CachePrice>,
    pub(super) dashboard: Option<DashboardHandle>,
    /// Model that writes the summary.
    pub(super) writer: String,
    /// Facts that replies to the caller have shown.
    pub(super) learned: Arc<LearnedModels>,
    /// Model of the conversation, for the log.
    pub(super) model: Box<str>,
    pub(super) conversation: Option<ConversationId>,
    /// Budget reservation of the body. The job holds the body, possibly long after its request was
    /// answered.
    pub(super) _reservation: Option<Arc<Reservation>>,
}

/// Counts and logs the outcome of a summary job when dropped, even if the task is aborted.
struct SummaryOutcomeGuard<'m> {
    metrics: &'m Metrics,
    /// `Aborted` until the task ends.
    outcome: Outcome,
}

impl SummaryTask {
    /// Makes the summary, unless another process is making it.
    pub(super) async fn run(self) {
        let state = &*self.state;
        tracing::debug!("summary job started");
        let metrics = &state.metrics;
        let mut counting = SummaryOutcomeGuard { metrics, outcome: Outcome::Aborted };
        let lease = match state.store.acquire_summary_lease(self.key).await {
            LeaseOutcome::NotNeeded => {
                tracing::debug!("this summary exists already, or another process is making it");
                counting.outcome = Outcome::Elsewhere;
                return;
            }
            LeaseOutcome::Acquired(lease) => lease,
        };
        let counted = state.summary_guards.record_start(&self.permit, &self.job.cost_meter);
        let conversation = self.conversation.map(tracing::field::display);
        for (of, summaries) in &counted.reached {
            tracing::info!(
                model = &*self.model,
                conversation,
                of = of.label(),
                summaries,
                "hourly cap on summaries reached; until the hour is over, rules write them"
            );
        }
        let dashboard = self.dashboard.clone();
        let _shown = dashboard.map(|dashboard| dashboard.begin_compaction(&self.job.cost_meter));
        let elsewhere = state.summary_endpoint.as_ref();
        let upstream = elsewhere.map_or(&state.upstream, |endpoint| &endpoint.upstream);
        let began = Instant::now();
        let written = lease.renew_during(summaries::write(&self.job, upstream)).await;
        let took = began.elapsed();
        let seconds = took.as_secs();
        state.metrics.summary_duration.observe(took);
        let (record, failure) = match written {
            Ok((record, failure)) => (Some(record), failure),
            Err(failure) => (None, Some(failure)),
        };
        if let Some(failure) = failure {
            counting.outcome = failure.outcome();
            tracing::warn!(
                model = &*self.model,
                conversation,
                why = failure.label(),
                status = failure.status(),
                writer = valid_model_name(&self.writer),
                host = self.job.head.uri.host(),
                seconds,
                "no summary; going on without"
            );
            if self.job.order.is_some() {
                self.learned.refuted.record_refuted(self.learned.compaction_of(&self.writer));
            }
        }
        if let Some(mut record) = record {
            // Nothing may stand between the provider's item and messages that are sent by now.
            let sent = state.running_summaries.longest_request(self.key);
            let restated = record.provider.as_mut().and_then(|it| it.restated.as_mut());
            if let Some(restated) = restated {
                restated.from = restated.from.max(sent);
            }
            if failure.is_none() {
                counting.outcome = Outcome::Made;
                tracing::info!(
                    model = &*self.model,
                    conversation,
                    messages = record.compacted_message_count,
                    tokens_before = record.tokens_before.get(),
                    tokens_after = record.tokens_after.get(),
                    compaction = record.compaction_count,
                    seconds,
                    "summary made"
                );
            }
            self.store_record(record).await;
        }
        let outcome = failure.map_or(Ok(()), Err);
        state.summary_guards.record_end(self.permit, outcome);
    }

    async fn store_record(&self, record: CompactionRecord) {
        let store = &self.state.store;
        let record =
            CompactionRecord { thrash: self.thrash, cache_price: self.cache_price, ..record };
        if let Some(near) = self.renewal_key {
            store.store_record(near, record.renewed_at(self.job.summarised_until)).await;
        }
        store.store_record(self.key, record).await;
    }
}

impl Drop for SummaryOutcomeGuard<'_> {
    fn drop(&mut self) {
        self.metrics.summaries.add(self.outcome);
        tracing::debug!(outcome = self.outcome.label(), "summary job ended");
    }
}
