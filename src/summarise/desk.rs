//! One job for each record: who asks for the same one waits for the same one.
//!
//! When the last who waits leaves, the job is aborted and its connection closed: a person who
//! cancels pays for nothing more. If the same record is then asked for again, that was a client's
//! timeout and no cancel, and the job runs to its end whoever leaves.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, OccupiedEntry};
use std::sync::Arc;

use moka::sync::Cache;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::lock::Mutex;
use crate::rewrite::chain::RecordKey;

/// Keys remembered whose job was aborted.
const ABORTED: u64 = 4_096;

/// The jobs under way.
#[derive(Clone)]
pub(crate) struct Desk {
    running: Arc<Mutex<HashMap<RecordKey, Running>>>,
    aborted: Cache<RecordKey, ()>,
}

struct Running {
    done: watch::Receiver<bool>,
    waiters: usize,
    /// It runs to its end whoever leaves.
    stays: bool,
    /// None until it is started.
    task: Option<AbortHandle>,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            running: Arc::default(),
            aborted: Cache::new(ABORTED),
        }
    }
}

impl Desk {
    /// Whether a job for this record is under way.
    pub(crate) fn is_running(&self, key: RecordKey) -> bool {
        self.running.lock().contains_key(&key)
    }

    /// Waits with others for the first of these records whose job is under way.
    pub(crate) fn join_any(&self, keys: impl IntoIterator<Item = RecordKey>) -> Option<Waiter> {
        let mut running = self.running.lock();
        if running.is_empty() {
            return None;
        }
        keys.into_iter().find_map(|key| {
            let job = running.get_mut(&key)?;
            Some(self.waiter(key, job))
        })
    }

    /// How many jobs are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.running.lock().len()
    }

    /// Waits until no job is under way.
    pub(crate) async fn idle(&self) {
        loop {
            let job = |jobs: &HashMap<_, Running>| Some(jobs.values().next()?.done.clone());
            let running = job(&self.running.lock());
            let Some(mut done) = running else { return };
            // The sender goes with the job: gone is ended, too.
            _ = done.wait_for(|done| *done).await;
        }
    }

    /// Starts a job that nobody waits for, unless it is under way.
    pub(crate) fn start(&self, key: RecordKey, job: impl Future<Output = ()> + Send + 'static) {
        let waiter = self.join(key, job);
        waiter.let_it_run();
    }

    /// Waits with others for the job of this record, which is started if it is not under way.
    pub(crate) fn join(
        &self,
        key: RecordKey,
        job: impl Future<Output = ()> + Send + 'static,
    ) -> Waiter {
        let (waiter, tell) = self.enter(key);
        if let Some(tell) = tell {
            let finished = Finished {
                desk: self.clone(),
                key,
                tell,
            };
            // Never under the lock: a runtime that shuts down drops the job here and now, and where
            // it is dropped it takes the lock.
            let task = tokio::spawn(async move {
                let _finished = finished;
                job.await;
            });
            if let Some(mut place) = own(&mut self.running.lock(), key, &waiter.done) {
                place.get_mut().task = Some(task.abort_handle());
            }
        }
        waiter
    }

    /// A place among those who wait for the job of this record; where it is yet to be started, with
    /// what tells them of its end.
    fn enter(&self, key: RecordKey) -> (Waiter, Option<watch::Sender<bool>>) {
        let mut running = self.running.lock();
        let mut starts = None;
        let entry = running.entry(key).or_insert_with(|| {
            let (tell, done) = watch::channel(false);
            starts = Some(tell);
            Running {
                done,
                waiters: 0,
                stays: self.aborted.contains_key(&key),
                task: None,
            }
        });
        (self.waiter(key, entry), starts)
    }

    /// One more place among those who wait for `job`.
    fn waiter(&self, key: RecordKey, job: &mut Running) -> Waiter {
        job.waiters += 1;
        Waiter {
            desk: self.clone(),
            key,
            done: job.done.clone(),
        }
    }
}

/// The place of a job in `running`, unless another of the same key has taken it.
fn own<'r>(
    running: &'r mut HashMap<RecordKey, Running>,
    key: RecordKey,
    done: &watch::Receiver<bool>,
) -> Option<OccupiedEntry<'r, RecordKey, Running>> {
    match running.entry(key) {
        Entry::Occupied(job) if job.get().done.same_channel(done) => Some(job),
        Entry::Occupied(_) | Entry::Vacant(_) => None,
    }
}

/// Takes a job off the desk when it ends, however it does.
struct Finished {
    desk: Desk,
    key: RecordKey,
    tell: watch::Sender<bool>,
}

impl Drop for Finished {
    fn drop(&mut self) {
        // One that was aborted ends later than it left the desk, where the next may be under way.
        let done = self.tell.subscribe();
        if let Some(job) = own(&mut self.desk.running.lock(), self.key, &done) {
            job.remove();
        }
        self.tell.send_replace(true);
    }
}

/// One who waits for a job.
pub(crate) struct Waiter {
    desk: Desk,
    key: RecordKey,
    done: watch::Receiver<bool>,
}

impl Waiter {
    /// Waits until the job has ended.
    pub(crate) async fn ended(&mut self) {
        // The sender goes with the job: gone is ended, too.
        let _ = self.done.wait_for(|done| *done).await;
    }

    /// Leaves, but lets the job run to its end.
    pub(crate) fn let_it_run(&self) {
        if let Some(mut job) = own(&mut self.desk.running.lock(), self.key, &self.done) {
            job.get_mut().stays = true;
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut running = self.desk.running.lock();
        let Some(mut entry) = own(&mut running, self.key, &self.done) else {
            return;
        };
        let job = entry.get_mut();
        job.waiters = job.waiters.saturating_sub(1);
        if job.waiters > 0 || job.stays {
            return;
        }
        let job = entry.remove();
        // Whoever finds the desk empty finds this, too.
        self.desk.aborted.insert(self.key, ());
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
    use crate::rewrite::chain::{Chains, Scope};
    use crate::rewrite::chat_completions::read;

    fn key() -> RecordKey {
        let body = br#"{"messages":[{"role":"user","content":"x"}]}"#;
        let scope = Scope::new(&[0; 32], &[]);
        Chains::of(&read(body).unwrap(), scope).newest().unwrap().1
    }

    /// A job that counts its starts, and tells when it was dropped unfinished.
    fn job(
        starts: &Arc<AtomicUsize>,
    ) -> (
        impl Future<Output = ()> + Send + 'static,
        oneshot::Sender<()>,
        oneshot::Receiver<()>,
    ) {
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
    async fn who_asks_for_the_same_waits_for_the_same() {
        let (desk, starts) = (Desk::default(), Arc::new(AtomicUsize::new(0)));
        let (one, finish, _) = job(&starts);
        let (two, _unused, _) = job(&starts);
        let mut waiters = [desk.join(key(), one), desk.join(key(), two)];
        finish.send(()).unwrap();
        for waiter in &mut waiters {
            waiter.ended().await;
        }
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        assert!(!desk.is_running(key()));
    }

    #[tokio::test]
    async fn a_job_under_way_is_joined_by_who_asks_for_any_of_several() {
        let (desk, starts) = (Desk::default(), Arc::new(AtomicUsize::new(0)));
        assert!(desk.join_any([key()]).is_none());
        let (one, finish, _) = job(&starts);
        let first = desk.join(key(), one);
        assert!(desk.join_any([]).is_none());
        let mut second = desk.join_any([key()]).unwrap();
        drop(first);
        assert_eq!(desk.under_way(), 1);
        finish.send(()).unwrap();
        second.ended().await;
        assert_eq!(desk.under_way(), 0);
    }

    #[tokio::test]
    async fn a_job_ends_with_the_last_who_waits_for_it() {
        let (desk, starts) = (Desk::default(), Arc::new(AtomicUsize::new(0)));
        let (one, _finish, dropped) = job(&starts);
        let first = desk.join(key(), one);
        let second = desk.join(key(), async {});
        drop(first);
        assert!(desk.is_running(key()));
        drop(second);
        assert!(!desk.is_running(key()));
        assert!(dropped.await.is_err(), "the job was dropped");
    }

    #[tokio::test]
    async fn asked_again_after_all_have_left_a_job_runs_to_its_end() {
        let (desk, starts) = (Desk::default(), Arc::new(AtomicUsize::new(0)));
        let (one, _finish, _) = job(&starts);
        drop(desk.join(key(), one));
        let (two, finish, dropped) = job(&starts);
        drop(desk.join(key(), two));
        // By now the runtime has done away with what was aborted.
        yield_now().await;
        assert!(desk.is_running(key()));
        finish.send(()).unwrap();
        assert!(dropped.await.is_err());
        assert!(!desk.is_running(key()));
    }

    #[tokio::test]
    async fn an_aborted_job_leaves_its_successor_where_it_is() {
        let (desk, starts) = (Desk::default(), Arc::new(AtomicUsize::new(0)));
        let (one, _finish, dropped) = job(&starts);
        drop(desk.join(key(), one));
        let (two, finish, _) = job(&starts);
        let mut second = desk.join(key(), two);
        assert!(dropped.await.is_err());
        let (three, _unused, _) = job(&starts);
        let mut third = desk.join(key(), three);
        finish.send(()).unwrap();
        second.ended().await;
        third.ended().await;
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        assert!(!desk.is_running(key()));
    }

    #[tokio::test]
    async fn who_waited_for_a_job_that_has_ended_ends_no_other() {
        let (desk, starts) = (Desk::default(), Arc::new(AtomicUsize::new(0)));
        let (one, finish, _) = job(&starts);
        let mut late = desk.join(key(), one);
        finish.send(()).unwrap();
        late.ended().await;
        let (two, finish, _) = job(&starts);
        let mut second = desk.join(key(), two);
        drop(late);
        assert!(desk.is_running(key()));
        finish.send(()).unwrap();
        second.ended().await;
        assert_eq!(starts.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_job_in_the_background_needs_nobody() {
        let (desk, starts) = (Desk::default(), Arc::new(AtomicUsize::new(0)));
        let (one, finish, dropped) = job(&starts);
        desk.start(key(), one);
        assert!(desk.is_running(key()));
        finish.send(()).unwrap();
        assert!(dropped.await.is_err());
    }

    /// Asks for a job when it is dropped.
    struct AsksAtItsEnd(Desk);

    impl Drop for AsksAtItsEnd {
        fn drop(&mut self) {
            drop(self.0.join(key(), pending()));
        }
    }

    #[test]
    fn a_job_that_is_asked_for_while_the_process_ends_is_over_at_once() {
        let desk = Desk::default();
        let runtime = Builder::new_current_thread().build().unwrap();
        let asks = AsksAtItsEnd(desk.clone());
        runtime.spawn(async move {
            let _asks = asks;
            pending::<()>().await;
        });
        runtime.block_on(yield_now());
        drop(runtime);
        assert!(!desk.is_running(key()));
    }
}
