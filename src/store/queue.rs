//! What is written behind the requests' backs, in the order in which it was asked for.

use std::mem;
use std::sync::{Arc, OnceLock, Weak};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::far::LeaseToken;
use super::tiered::{PendingChange, TieredInner, WRITE_TIMEOUT};
use crate::rewrite::chain::RecordKey;

/// How many jobs may wait. A request has three; past this they are given up.
const MAX_WAITING: usize = 1_024;
/// How many are written at once.
const MAX_BATCH: usize = 128;

/// Something to be done at the far tier.
#[derive(Debug)]
pub(super) enum StoreJob {
    /// Tells when all that was asked for before is done.
    Flush(oneshot::Sender<()>),
    /// Ends a lease.
    Release(RecordKey, LeaseToken),
    /// Writes under a key.
    Write(RecordKey, Vec<PendingChange>),
}

/// The jobs, and the task that does them, which is started with the first one.
pub(super) struct WriteQueue {
    jobs: OnceLock<mpsc::Sender<StoreJob>>,
    inner: Weak<TieredInner>,
}

impl WriteQueue {
    /// An empty one.
    pub(super) fn new(inner: &Arc<TieredInner>) -> Self {
        Self {
            jobs: OnceLock::new(),
            inner: Arc::downgrade(inner),
        }
    }

    /// Puts a job at the end; says whether there was room.
    #[must_use]
    pub(super) fn try_push(&self, job: StoreJob) -> bool {
        self.jobs().is_some_and(|jobs| jobs.try_send(job).is_ok())
    }

    /// Waits until all that was put in before is done.
    pub(super) async fn flush(&self) {
        let (done, told) = oneshot::channel();
        if let Some(jobs) = self.jobs()
            && jobs.send(StoreJob::Flush(done)).await.is_ok()
        {
            _ = told.await;
        }
    }

    /// None where no task can be started: a reply may be dropped with the runtime itself.
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

/// Does jobs until nobody is left to have any.
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
                    _ = inner
                        .guarded_write(WRITE_TIMEOUT, inner.durable.release(key, token))
                        .await;
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
