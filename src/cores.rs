//! A thread with a runtime of its own for each core. A connection stays on its core with its requests, and no
//! wake-up crosses threads.

use std::cell::OnceCell;
use std::future::{Future, pending};
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Largest body that a core reads itself: at first sight, reading takes about a millisecond.
const SMALL_BODY: u64 = 256 * 1024;

thread_local! {
    /// Number of the core of this thread, and the workers of the process. Unset outside of cores.
    static CORE: OnceCell<(usize, Handle)> = const { OnceCell::new() };
}

/// Returns how many cores the process may use.
pub(crate) fn available() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the number of the core that this thread serves, if any.
pub(crate) fn current() -> Option<usize> {
    CORE.with(|core| core.get().map(|(number, _)| *number))
}

/// Serves a request with a body of `bytes`, if known. A large one runs on the workers of the process, so that the
/// other connections of this core go on meanwhile. Dropping the future aborts the work.
pub(crate) async fn serve<T: Send + 'static>(
    bytes: Option<u64>,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let is_large = bytes.is_none_or(|bytes| bytes > SMALL_BODY);
    let workers = CORE.with(|core| core.get().filter(|_| is_large).map(|it| it.1.clone()));
    let Some(workers) = workers else {
        return work.await;
    };
    let mut task = JoinSet::new();
    task.spawn_on(work, &workers);
    match task.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The process ends.
        Some(Err(_)) | None => pending().await,
    }
}

/// The cores of a server.
pub(crate) struct Cores {
    /// Empty if one thread serves everything.
    cores: Vec<Seat>,
    workers: Seat,
}

/// Runtime of a connection, which holds the seat while open.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) runtime: Handle,
    /// Ends the thread of a core once nobody holds a seat there.
    held: Arc<oneshot::Sender<()>>,
}

impl Cores {
    /// Starts a thread for each core, next to the `workers` of the process. A runtime of one thread stays alone.
    pub(crate) fn start(workers: Handle) -> Self {
        let is_shared = workers.runtime_flavor() == RuntimeFlavor::MultiThread;
        let numbers = (0..available()).filter(|_| is_shared);
        let cores = numbers.filter_map(|number| start(number, workers.clone())).collect();
        Self { cores, workers: Seat { runtime: workers, held: Arc::new(oneshot::channel().0) } }
    }

    /// Returns a seat on the core with the fewest connections. Of equal ones the first is taken, so that few
    /// clients share the idle upstream connections of few cores.
    pub(crate) fn seat(&self) -> Seat {
        let least = self.cores.iter().min_by_key(|core| Arc::strong_count(&core.held));
        least.unwrap_or(&self.workers).clone()
    }
}

/// Starts the thread of a core. Returns `None` if the system has no room for it.
fn start(number: usize, workers: Handle) -> Option<Seat> {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let (held, released) = oneshot::channel();
    let place = Seat { runtime: runtime.handle().clone(), held: Arc::new(held) };
    let serve = move || {
        _ = CORE.with(|core| core.set((number, workers)));
        _ = runtime.block_on(released);
        runtime.shutdown_background();
    };
    thread::Builder::new().name(format!("core-{number}")).spawn(serve).ok().map(|_| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::task::yield_now;

    async fn on_place<T: Send + 'static>(
        place: &Seat,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        place.runtime.spawn(work).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn connections_spread_over_the_cores_from_the_first_on() {
        let cores = Cores::start(Handle::current());
        let count = cores.cores.len();
        let places: Vec<Seat> = (0..count).map(|_| cores.seat()).collect();
        for (number, place) in places.iter().enumerate() {
            assert_eq!(on_place(place, async { current() }).await, Some(number));
        }
        drop(places);
        assert_eq!(on_place(&cores.seat(), async { current() }).await, Some(0));
        assert_eq!(current(), None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_bodies_and_those_of_unknown_size_leave_the_core() {
        let cores = Cores::start(Handle::current());
        for (bytes, expect) in [
            (Some(0), Some(0)),
            (Some(SMALL_BODY), Some(0)),
            (Some(SMALL_BODY + 1), None),
            (None, None),
        ] {
            let served = serve(bytes, async { current() });
            assert_eq!(on_place(&cores.seat(), served).await, expect, "{bytes:?}");
        }
    }

    /// Sets the flag when dropped.
    struct Left(Arc<AtomicBool>);

    impl Drop for Left {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_client_that_leaves_aborts_its_work_elsewhere() {
        let cores = Cores::start(Handle::current());
        let (left, began) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (guard, begins) = (Left(Arc::clone(&left)), Arc::clone(&began));
        let served = serve(None, async move {
            let _guard = guard;
            begins.store(true, Ordering::Release);
            pending::<()>().await;
        });
        let task = cores.seat().runtime.spawn(served);
        while !began.load(Ordering::Acquire) {
            yield_now().await;
        }
        task.abort();
        while !left.load(Ordering::Acquire) {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_stays_alone() {
        let cores = Cores::start(Handle::current());
        assert!(cores.cores.is_empty());
        assert_eq!(on_place(&cores.seat(), serve(None, async { current() })).await, None);
    }
}
