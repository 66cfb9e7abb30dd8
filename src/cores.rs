//! A thread with a runtime of its own for each core. A connection stays on its core with its requests and their upstream
//! connections, so that no wake-up crosses threads.

use std::cell::OnceCell;
use std::future::{Future, pending};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

thread_local! {
    /// Number of the core of this thread, and the workers of the process. Unset outside of cores.
    static CORE: OnceCell<(usize, Handle)> = const { OnceCell::new() };
}

/// Returns how many cores the process may use.
pub(crate) fn available() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the number of the core that this thread serves, if any.
pub(crate) fn current() -> Option<usize> {
    CORE.with(|core| core.get().map(|(number, _)| *number))
}

/// Runs `work` on the workers of the process, so that the other connections of this core go on meanwhile. Outside of
/// cores, runs it in place. Dropping the future aborts the work.
pub(crate) async fn on_workers<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let workers = CORE.with(|core| core.get().map(|(_, workers)| workers.clone()));
    let Some(workers) = workers else {
        return work.await;
    };
    let mut task = JoinSet::new();
    task.spawn_on(work, &workers);
    match task.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        // The process ends.
        Some(Err(_)) | None => pending().await,
    }
}

/// The cores of a server. Dropping the value abandons their tasks.
pub(crate) struct Cores {
    /// Empty if the process has one core.
    cores: Vec<Place>,
    /// Ends the threads when dropped.
    _running: Vec<oneshot::Sender<()>>,
    workers: Place,
}

/// A runtime for a connection, which holds the place as long as the connection is open.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) runtime: Handle,
    connections: Arc<()>,
}

impl Cores {
    /// Starts a thread for each core, next to the `workers` of the process. With one core there is none.
    pub(crate) fn start(workers: Handle) -> Self {
        let count = Some(available()).filter(|count| *count > 1).unwrap_or_default();
        let started = (0..count).filter_map(|number| start(number, workers.clone()));
        let (cores, running) = started.unzip();
        Self { cores, _running: running, workers: Place::new(workers) }
    }

    /// Returns a place on the core with the fewest connections, the first of equal ones: few clients then
    /// share the idle upstream connections of few cores.
    pub(crate) fn place(&self) -> Place {
        let least = self.cores.iter().min_by_key(|core| Arc::strong_count(&core.connections));
        least.unwrap_or(&self.workers).clone()
    }
}

impl Place {
    fn new(runtime: Handle) -> Self {
        Self { runtime, connections: Arc::default() }
    }
}

/// Starts the thread of a core. It serves until the sender is dropped. Returns `None` if the system has no
/// room for it.
fn start(number: usize, workers: Handle) -> Option<(Place, oneshot::Sender<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let place = Place::new(runtime.handle().clone());
    let (running, ended) = oneshot::channel();
    let serve = move || {
        _ = CORE.with(|core| core.set((number, workers)));
        _ = runtime.block_on(ended);
        runtime.shutdown_background();
    };
    thread::Builder::new().name(format!("core-{number}")).spawn(serve).ok()?;
    Some((place, running))
}
