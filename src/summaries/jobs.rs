//! Single-flight summary jobs: requests that need the same record wait for the same job.
//!
//! When the last waiter leaves, the job is aborted and its connection closed: a user who cancels
//! pays for nothing more. If the same record is then requested again, the waiter had timed out
//! rather than cancelled. The new job runs to its end whether or not anyone waits.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, OccupiedEntry};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::callers::fair_cache::FairCache;
use crate::callers::{AcceptedCallers, FORGET_AFTER};
use longhaul_core::units::scope::RecordKey;
use parking_lot::Mutex;

/// Maximum number of remembered keys whose job was aborted.
const REMEMBERED_ABORTS: u64 = 4_096;

#[derive(Clone)]
pub(crate) struct RunningSummaries {
    running: Arc<Mutex<HashMap<RecordKey, RunningSummary>>>,
    aborted: Arc<FairCache<RecordKey, ()>>,
}

struct RunningSummary {
    done: watch::Receiver<bool>,
    waiters: usize,
    /// Whether the job runs to its end even without waiters.
    is_detached: bool,
    /// `None` until the task is spawned.
    task: Option<AbortHandle>,
    /// Messages of the longest request that was planned meanwhile.
    longest_request: usize,
}

impl RunningSummaries {
    pub(crate) fn new(accepted: &Arc<AcceptedCallers>) -> Self {
        let aborted = FairCache::of_entries(REMEMBERED_ABORTS, FORGET_AFTER, accepted);
        Self { running: Arc::default(), aborted: Arc::new(aborted) }
    }

    pub(crate) fn is_running(&self, key: RecordKey) -> bool {
        self.running.lock().contains_key(&key)
    }

    /// Whether a job of any of these records is running while a request of `messages` messages is planned.
    pub(crate) fn is_any_running(
        &self,
        keys: impl IntoIterator<Item = RecordKey>,
        messages: usize,
    ) -> bool {
        if self.running.lock().is_empty() {
            return false;
        }
        let keys: Vec<RecordKey> = keys.into_iter().collect();
        let mut running = self.running.lock();
        keys.iter().fold(false, |found, key| {
            running.get_mut(key).map_or(found, |job| {
                job.longest_request = job.longest_request.max(messages);
                true
            })
        })
    }

    /// Returns the messages of the longest request that was planned while the job of this record runs.
    pub(crate) fn longest_request(&self, key: RecordKey) -> usize {
        self.running.lock().get(&key).map_or(0, |job| job.longest_request)
    }

    /// Joins the first running job among these records.
    pub(crate) fn join_any(&self, keys: impl IntoIterator<Item = RecordKey>) -> Option<JobHandle> {
        let mut running = self.running.lock();
        if running.is_empty() {
            return None;
        }
        keys.into_iter().find_map(|key| {
            let job = running.get_mut(&key)?;
            Some(self.new_handle(key, job))
        })
    }

    pub(crate) fn running_count(&self) -> usize {
        self.running.lock().len()
    }

    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let job = |jobs: &HashMap<_, RunningSummary>| Some(jobs.values().next()?.done.clone());
            let running = job(&self.running.lock());
            let Some(mut done) = running else { return };
            // The job owns the sender: if the sender is gone, the job has ended too.
            _ = done.wait_for(|done| *done).await;
        }
    }

    /// Joins the running job of this record, or starts `job` if there is none.
    pub(crate) fn join(
        &self,
        key: RecordKey,
        job: impl Future<Output = ()> + Send + 'static,
    ) -> JobHandle {
        let (handle, done_sender) = self.join_or_create(key);
        if let Some(done_sender) = done_sender {
            let finished = CompletionGuard { jobs: self.clone(), key, done_sender };
            // Spawn outside the lock: a runtime that shuts down drops the job right here, and that
            // drop takes the lock.
            let task = tokio::spawn(async move {
                let _finished = finished;
                job.await;
            });
            if let Some(mut place) = same_job_entry(&mut self.running.lock(), key, &handle.done) {
                place.get_mut().task = Some(task.abort_handle());
            }
        }
        handle
    }

    /// Returns a handle to the job of this record. If the job is new, also returns the sender that
    /// signals its end.
    fn join_or_create(&self, key: RecordKey) -> (JobHandle, Option<watch::Sender<bool>>) {
        let mut running = self.running.lock();
        let mut starts = None;
        let entry = running.entry(key).or_insert_with(|| {
            let (done_sender, done) = watch::channel(false);
            starts = Some(done_sender);
            RunningSummary {
                done,
                waiters: 0,
                is_detached: self.aborted.get(&key).is_some(),
                task: None,
                longest_request: 0,
            }
        });
        (self.new_handle(key, entry), starts)
    }

    fn new_handle(&self, key: RecordKey, job: &mut RunningSummary) -> JobHandle {
        job.waiters += 1;
        JobHandle { jobs: self.clone(), key, done: job.done.clone() }
    }
}

/// Returns the map entry of the job with this `done` channel, or `None` if a newer job of the same
/// key replaced it.
fn same_job_entry<'r>(
    running: &'r mut HashMap<RecordKey, RunningSummary>,
    key: RecordKey,
    done: &watch::Receiver<bool>,
) -> Option<OccupiedEntry<'r, RecordKey, RunningSummary>> {
    match running.entry(key) {
        Entry::Occupied(job) if job.get().done.same_channel(done) => Some(job),
        Entry::Occupied(_) | Entry::Vacant(_) => None,
    }
}

/// Removes a job from the map when it ends, fails or is aborted.
struct CompletionGuard {
    jobs: RunningSummaries,
    key: RecordKey,
    done_sender: watch::Sender<bool>,
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        // An aborted job ends after its removal from the map, which may already hold the next job.
        let done = self.done_sender.subscribe();
        if let Some(job) = same_job_entry(&mut self.jobs.running.lock(), self.key, &done) {
            job.remove();
        }
        self.done_sender.send_replace(true);
    }
}

/// A waiter's handle to a job.
pub(crate) struct JobHandle {
    jobs: RunningSummaries,
    key: RecordKey,
    done: watch::Receiver<bool>,
}

impl JobHandle {
    pub(crate) async fn completed(&mut self) {
        // The job owns the sender: if the sender is gone, the job has ended too.
        let _ = self.done.wait_for(|done| *done).await;
    }

    /// Lets the job run to its end even after this handle is dropped.
    pub(crate) fn detach(&self) {
        if let Some(mut job) = same_job_entry(&mut self.jobs.running.lock(), self.key, &self.done) {
            job.get_mut().is_detached = true;
        }
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        let mut running = self.jobs.running.lock();
        let Some(mut entry) = same_job_entry(&mut running, self.key, &self.done) else {
            return;
        };
        let job = entry.get_mut();
        job.waiters = job.waiters.saturating_sub(1);
        if job.waiters > 0 || job.is_detached {
            return;
        }
        let job = entry.remove();
        // Inserted before the lock is released: a caller that sees no running job also sees this
        // entry.
        self.jobs.aborted.insert(self.key, ());
        drop(running);
        if let Some(task) = job.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::runtime::Builder;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;
    use longhaul_core::dialect::chat_completions::read;
    use longhaul_core::prefix::keys::PrefixKeys;
    use longhaul_core::units::scope::Scope;

    fn key() -> RecordKey {
        let body = br#"{"messages":[{"role":"user","content":"x"}]}"#;
        let scope = Scope::new(&[0; 32], &[]);
        PrefixKeys::new(&read(body).unwrap(), scope).newest().unwrap().1
    }

    /// Returns a job that counts its starts, the sender that finishes it, and a receiver that fails
    /// once the job is dropped.
    fn job(
        starts: &Arc<AtomicUsize>,
    ) -> (impl Future<Output = ()> + Send + 'static, oneshot::Sender<()>, oneshot::Receiver<()>)
    {
        let (finish, finished) = oneshot::channel();
        let (alive, dropped) = oneshot::channel::<()>();
        let starts = Arc::clone(starts);
        let job = async move {
            let _alive = alive;
            starts.fetch_add(1, Ordering::Relaxed);
            let _ = finished.await;
        };
        (job, finish, dropped)
    }

    #[tokio::test]
    async fn equal_requests_wait_for_the_same_job() {
        let (jobs, starts) =
            (RunningSummaries::new(&Arc::default()), Arc::new(AtomicUsize::new(0)));
        let (one, finish, _) = job(&starts);
        let (two, _unused, _) = job(&starts);
        let mut waiters = [jobs.join(key(), one), jobs.join(key(), two)];
        finish.send(()).unwrap();
        for waiter in &mut waiters {
            waiter.completed().await;
        }
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        assert!(!jobs.is_running(key()));
    }

    #[tokio::test]
    async fn running_job_can_be_joined_by_any_of_several_keys() {
        let (jobs, starts) =
            (RunningSummaries::new(&Arc::default()), Arc::new(AtomicUsize::new(0)));
        assert!(jobs.join_any([key()]).is_none());
        let (one, finish, _) = job(&starts);
        let first = jobs.join(key(), one);
        assert!(jobs.join_any([]).is_none());
        let mut second = jobs.join_any([key()]).unwrap();
        drop(first);
        assert_eq!(jobs.running_count(), 1);
        finish.send(()).unwrap();
        second.completed().await;
        assert_eq!(jobs.running_count(), 0);
    }

    #[tokio::test]
    async fn job_ends_when_its_last_waiter_leaves() {
        let (jobs, starts) =
            (RunningSummaries::new(&Arc::default()), Arc::new(AtomicUsize::new(0)));
        let (one, _finish, dropped) = job(&starts);
        let first = jobs.join(key(), one);
        let second = jobs.join(key(), async {});
        drop(first);
        assert!(jobs.is_running(key()));
        drop(second);
        assert!(!jobs.is_running(key()));
        assert!(dropped.await.is_err(), "the job was dropped");
    }

    #[tokio::test]
    async fn job_requested_again_after_all_left_runs_to_its_end() {
        let (jobs, starts) =
            (RunningSummaries::new(&Arc::default()), Arc::new(AtomicUsize::new(0)));
        let (one, _finish, _) = job(&starts);
        drop(jobs.join(key(), one));
        let (two, finish, dropped) = job(&starts);
        drop(jobs.join(key(), two));
        // By now the runtime has dropped the aborted job.
        yield_now().await;
        assert!(jobs.is_running(key()));
        finish.send(()).unwrap();
        assert!(dropped.await.is_err());
        assert!(!jobs.is_running(key()));
    }

    #[tokio::test]
    async fn aborted_job_does_not_remove_its_successor() {
        let (jobs, starts) =
            (RunningSummaries::new(&Arc::default()), Arc::new(AtomicUsize::new(0)));
        let (one, _finish, dropped) = job(&starts);
        drop(jobs.join(key(), one));
        let (two, finish, _) = job(&starts);
        let mut second = jobs.join(key(), two);
        assert!(dropped.await.is_err());
        let (three, _unused, _) = job(&starts);
        let mut third = jobs.join(key(), three);
        finish.send(()).unwrap();
        second.completed().await;
        third.completed().await;
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        assert!(!jobs.is_running(key()));
    }

    #[tokio::test]
    async fn waiter_of_a_finished_job_does_not_end_its_successor() {
        let (jobs, starts) =
            (RunningSummaries::new(&Arc::default()), Arc::new(AtomicUsize::new(0)));
        let (one, finish, _) = job(&starts);
        let mut late = jobs.join(key(), one);
        finish.send(()).unwrap();
        late.completed().await;
        let (two, finish, _) = job(&starts);
        let mut second = jobs.join(key(), two);
        drop(late);
        assert!(jobs.is_running(key()));
        finish.send(()).unwrap();
        second.completed().await;
        assert_eq!(starts.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn detached_job_runs_without_waiters() {
        let (jobs, starts) =
            (RunningSummaries::new(&Arc::default()), Arc::new(AtomicUsize::new(0)));
        let (one, finish, dropped) = job(&starts);
        jobs.join(key(), one).detach();
        assert!(jobs.is_running(key()));
        finish.send(()).unwrap();
        assert!(dropped.await.is_err());
    }

    /// Joins a job when dropped.
    struct AsksAtItsEnd(RunningSummaries);

    impl Drop for AsksAtItsEnd {
        fn drop(&mut self) {
            drop(self.0.join(key(), pending()));
        }
    }

    #[test]
    fn job_requested_during_shutdown_ends_at_once() {
        let jobs = RunningSummaries::new(&Arc::default());
        let runtime = Builder::new_current_thread().build().unwrap();
        let asks = AsksAtItsEnd(jobs.clone());
        runtime.spawn(async move {
            let _asks = asks;
            pending::<()>().await;
        });
        runtime.block_on(yield_now());
        drop(runtime);
        assert!(!jobs.is_running(key()));
    }
}
