//! One summary as a task: what it makes is kept, not yet in use.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::Proxy;
use super::super::budget::Reservation;
use super::super::recent::Sighting;
use crate::metrics::{Metrics, Summary as Outcome};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::pace::Pace;
use crate::rewrite::record::Record;
use crate::store::Turn;
use crate::summarise::{self, Job, Ticket};
use crate::traces::named;

/// All that a summary is made with, whatever becomes of the request that it was asked for.
pub(super) struct Making {
    pub(super) proxy: Proxy,
    pub(super) job: Job,
    pub(super) ticket: Ticket,
    /// What it is kept under.
    pub(super) key: RecordKey,
    /// And once more, where that will be out of sight.
    pub(super) near: Option<RecordKey>,
    pub(super) pace: Pace,
    pub(super) sighting: Option<Sighting>,
    /// The model that writes it.
    pub(super) writer: String,
    /// The job holds the body, which may long have been answered.
    pub(super) _room: Option<Arc<Reservation>>,
}

/// Counts one summary when it is dropped: an aborted task says nothing any more.
struct Counting<'m> {
    metrics: &'m Metrics,
    outcome: Outcome,
}

impl Making {
    /// Makes it, unless another process does.
    pub(super) async fn make(self) {
        let shared = &*self.proxy.0;
        let mut counting = Counting::of(&shared.metrics);
        let turn = match shared.store.turn(self.key).await {
            Turn::Elsewhere => {
                tracing::debug!("this summary is made by another process");
                counting.outcome = Outcome::Elsewhere;
                return;
            }
            Turn::Ours(turn) => turn,
        };
        let _counted = shared.guards.started(&self.ticket, &self.job.till);
        let sighting = self.sighting.clone();
        let _shown = sighting.map(|sighting| sighting.compacting(&self.job.till));
        let elsewhere = shared.summariser.as_ref();
        let upstream = elsewhere.map_or(&shared.upstream, |endpoint| &endpoint.upstream);
        let began = Instant::now();
        let written = turn.during(summarise::write(&self.job, upstream)).await;
        let took = began.elapsed();
        let seconds = took.as_secs();
        shared.metrics.summary_duration.add(took);
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
                self.keep(record).await;
                Ok(())
            }
            Err(failure) => {
                counting.outcome = failure.outcome();
                tracing::warn!(
                    why = failure.label(),
                    status = failure.status(),
                    model = named(&self.writer),
                    host = self.job.head.uri.host(),
                    seconds,
                    "no summary; going on without"
                );
                Err(failure)
            }
        };
        shared.guards.ended(self.ticket, outcome);
    }

    async fn keep(&self, record: Record) {
        let store = &self.proxy.0.store;
        let record = Record {
            pace: self.pace,
            ..record
        };
        if let Some(near) = self.near {
            store.keep(near, record.once_more(self.job.covers)).await;
        }
        store.keep(self.key, record).await;
    }
}

impl<'m> Counting<'m> {
    /// Until something else is said, it was aborted.
    fn of(metrics: &'m Metrics) -> Self {
        Self {
            metrics,
            outcome: Outcome::Aborted,
        }
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.metrics.summaries.add(self.outcome);
    }
}
