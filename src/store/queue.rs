//! What is written behind the requests' backs, in the order in which it was asked for.

use std::mem;
use std::sync::{Arc, OnceLock, Weak};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::far::LeaseToken;
use super::tiered::{Inner, WRITE, Wanted};
use crate::rewrite::chain::RecordKey;

/// How many jobs may wait. A request has three; past this they are given up.
const WAITING: usize = 1_024;
/// How many are written at once.
const BATCH: usize = 128;

/// Something to be done at the far tier.
#[derive(Debug)]
pub(super) enum Job {
    /// Tells when all that was asked for before is done.
    Flush(oneshot::Sender<()>),
    /// Ends a lease.
    Release(RecordKey, LeaseToken),
    /// Writes under a key.
    Write(RecordKey, Vec<Wanted>),
}

/// The jobs, and the task that does them, which is started with the first one.
pub(super) struct Queue {
    jobs: OnceLock<mpsc::Sender<Job>>,
    inner: Weak<Inner>,
}

impl Queue {
    /// An empty one.
    pub(super) fn new(inner: &Arc<Inner>) -> Self {
        Self {
            jobs: OnceLock::new(),
            inner: Arc::downgrade(inner),
        }
    }

    /// Puts a job at the end; says whether there was room.
    #[must_use]
    pub(super) fn put(&self, job: Job) -> bool {
        self.jobs().is_some_and(|jobs| jobs.try_send(job).is_ok())
    }

    /// Waits until all that was put in before is done.
    pub(super) async fn flush(&self) {
        let (done, told) = oneshot::channel();
        if let Some(jobs) = self.jobs()
            && jobs.send(Job::Flush(done)).await.is_ok()
        {
            _ = told.await;
        }
    }

    /// None where no task can be started: a reply may be dropped with the runtime itself.
    fn jobs(&self) -> Option<&mpsc::Sender<Job>> {
        if let Some(jobs) = self.jobs.get() {
            return Some(jobs);
        }
        let runtime = Handle::try_current().ok()?;
        Some(self.jobs.get_or_init(|| {
            let (jobs, waiting) = mpsc::channel(WAITING);
            runtime.spawn(work(self.inner.clone(), waiting));
            jobs
        }))
    }
}

/// Does jobs until nobody is left to have any.
async fn work(inner: Weak<Inner>, mut waiting: mpsc::Receiver<Job>) {
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        let Some(inner) = inner.upgrade() else {
            return;
        };
        let mut writes = Vec::new();
        for job in mem::take(&mut batch) {
            match job {
                Job::Write(key, wanted) => writes.push((key, wanted)),
                Job::Flush(done) => {
                    write(&inner, &mut writes).await;
                    _ = done.send(());
                }
                Job::Release(key, token) => {
                    write(&inner, &mut writes).await;
                    _ = inner.modify(WRITE, inner.far.release(key, token)).await;
                }
            }
        }
        write(&inner, &mut writes).await;
    }
}

async fn write(inner: &Inner, writes: &mut Vec<(RecordKey, Vec<Wanted>)>) {
    if !writes.is_empty() {
        inner.write(&mem::take(writes)).await;
    }
}
