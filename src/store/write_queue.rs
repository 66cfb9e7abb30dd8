//! Queue of background writes, processed in order.

use std::mem;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::store::durable::{LeaseAction, LeaseToken};
use crate::store::tiered::{PendingChange, TieredInner};
use longhaul_core::units::scope::RecordKey;

/// Maximum number of waiting jobs. A request has three; jobs beyond the limit are dropped.
const MAX_WAITING: usize = 1_024;
const MAX_BATCH: usize = 128;

#[derive(Debug)]
pub(super) enum StoreJob {
    /// Signals that all earlier jobs are done.
    Flush(oneshot::Sender<()>),
    Release(RecordKey, LeaseToken),
    Write(RecordKey, Vec<PendingChange>),
}

/// The jobs, and the task that processes them, which starts with the first job.
pub(super) struct WriteQueue {
    jobs: OnceLock<mpsc::Sender<StoreJob>>,
    inner: Weak<TieredInner>,
}

impl WriteQueue {
    pub(super) fn new(inner: &Arc<TieredInner>) -> Self {
        Self { jobs: OnceLock::new(), inner: Arc::downgrade(inner) }
    }

    /// Appends a job. Returns whether there was room.
    #[must_use]
    pub(super) fn try_push(&self, job: StoreJob) -> bool {
        self.jobs().is_some_and(|jobs| jobs.try_send(job).is_ok())
    }

    /// Waits until all earlier jobs are done.
    pub(super) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if let Some(jobs) = self.jobs()
            && jobs.send(StoreJob::Flush(done)).await.is_ok()
        {
            _ = written.await;
        }
    }

    /// Returns the sender of jobs, or `None` if no task can be started: a reply may be dropped with
    /// the runtime itself.
    fn jobs(&self) -> Option<&mpsc::Sender<StoreJob>> {
        if let Some(jobs) = self.jobs.get() {
            return Some(jobs);
        }
        let runtime = Handle::try_current().ok()?;
        Some(self.jobs.get_or_init(|| {
            let (jobs, waiting) = mpsc::channel(MAX_WAITING);
            runtime.spawn(process_jobs(self.inner.clone(), waiting));
            jobs
        }))
    }
}

/// Processes jobs until the queue is dropped.
async fn process_jobs(inner: Weak<TieredInner>, mut waiting: mpsc::Receiver<StoreJob>) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while waiting.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let Some(inner) = inner.upgrade() else {
            return;
        };
        let mut writes = Vec::new();
        for job in mem::take(&mut batch) {
            match job {
                StoreJob::Write(key, wanted) => writes.push((key, wanted)),
                StoreJob::Flush(done) => {
                    write_batch(&inner, &mut writes).await;
                    _ = done.send(());
                }
                StoreJob::Release(key, token) => {
                    write_batch(&inner, &mut writes).await;
                    let durable = &inner.durable;
                    let ended = durable.lease(LeaseAction::Release, key, token, Duration::ZERO);
                    _ = inner.guarded_write(inner.write_timeout(), ended).await;
                }
            }
        }
        write_batch(&inner, &mut writes).await;
    }
}

async fn write_batch(inner: &TieredInner, writes: &mut Vec<(RecordKey, Vec<PendingChange>)>) {
    if !writes.is_empty() {
        inner.write(&mem::take(writes)).await;
    }
}
