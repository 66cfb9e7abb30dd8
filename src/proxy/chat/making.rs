//! One summary as a task: what it makes is kept, not yet in use.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::Proxy;
use super::super::budget::Reservation;
use super::super::recent::DashboardHandle;
use crate::metrics::{Metrics, SummaryOutcome as Outcome};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::pace::ThrashDetector;
use crate::rewrite::record::CompactionRecord;
use crate::store::LeaseOutcome;
use crate::summarise::{self, SummaryJob, SummaryPermit};
use crate::traces::valid_model_name;

/// All that a summary is made with, whatever becomes of the request that it was asked for.
pub(super) struct SummaryTask {
    pub(super) proxy: Proxy,
    pub(super) job: SummaryJob,
    pub(super) permit: SummaryPermit,
    /// What it is kept under.
    pub(super) key: RecordKey,
    /// And once more, where that will be out of sight.
    pub(super) renewal_key: Option<RecordKey>,
    pub(super) thrash_detector: ThrashDetector,
    pub(super) dashboard: Option<DashboardHandle>,
    /// The model that writes it.
    pub(super) writer: String,
    /// The job holds the body, which may long have been answered.
    pub(super) _reservation: Option<Arc<Reservation>>,
}

/// Counts one summary when it is dropped: an aborted task says nothing any more.
struct SummaryOutcomeGuard<'m> {
    metrics: &'m Metrics,
    outcome: Outcome,
}

impl SummaryTask {
    /// Makes it, unless another process does.
    pub(super) async fn run(self) {
        let shared = &*self.proxy.0;
        let mut counting = SummaryOutcomeGuard::new(&shared.metrics);
        let turn = match shared.store.acquire_summary_lease(self.key).await {
            LeaseOutcome::Elsewhere => {
                tracing::debug!("this summary is made by another process");
                counting.outcome = Outcome::Elsewhere;
                return;
            }
            LeaseOutcome::Acquired(turn) => turn,
        };
        let _counted = shared
            .summary_guards
            .record_start(&self.permit, &self.job.cost_meter);
        let sighting = self.dashboard.clone();
        let _shown = sighting.map(|sighting| sighting.begin_compaction(&self.job.cost_meter));
        let elsewhere = shared.summary_endpoint.as_ref();
        let upstream = elsewhere.map_or(&shared.upstream, |endpoint| &endpoint.upstream);
        let began = Instant::now();
        let written = turn
            .renew_during(summarise::write(&self.job, upstream))
            .await;
        let took = began.elapsed();
        let seconds = took.as_secs();
        shared.metrics.summary_duration.observe(took);
        let outcome = match written {
            Ok(record) => {
                counting.outcome = Outcome::Made;
                tracing::info!(
                    messages = record.compacted_message_count,
                    tokens_before = record.tokens_before.get(),
                    tokens_after = record.tokens_after.get(),
                    count = record.compaction_count,
                    seconds,
                    "summary made"
                );
                self.store_record(record).await;
                Ok(())
            }
            Err(failure) => {
                counting.outcome = failure.outcome();
                tracing::warn!(
                    why = failure.label(),
                    status = failure.status(),
                    model = valid_model_name(&self.writer),
                    host = self.job.head.uri.host(),
                    seconds,
                    "no summary; going on without"
                );
                Err(failure)
            }
        };
        shared.summary_guards.record_end(self.permit, outcome);
    }

    async fn store_record(&self, record: CompactionRecord) {
        let store = &self.proxy.0.store;
        let record = CompactionRecord {
            pace: self.thrash_detector,
            ..record
        };
        if let Some(near) = self.renewal_key {
            store
                .store_record(near, record.renewed_at(self.job.summarised_until))
                .await;
        }
        store.store_record(self.key, record).await;
    }
}

impl<'m> SummaryOutcomeGuard<'m> {
    /// Until something else is said, it was aborted.
    fn new(metrics: &'m Metrics) -> Self {
        Self {
            metrics,
            outcome: Outcome::Aborted,
        }
    }
}

impl Drop for SummaryOutcomeGuard<'_> {
    fn drop(&mut self) {
        self.metrics.summaries.add(self.outcome);
    }
}
