//! Parallel work on all processor cores, with results in input order.

use crate::sessions::Failure;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to each item and returns the results in order. Items start in order, so the long
/// ones should come first. Progress is printed on standard error.
pub(crate) fn each<I: Sync, T: Send>(
    title: &str,
    items: &[I],
    work: impl Fn(&I) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    let Ok(mut done) = done.lock() else { break };
                    done.push((at, result));
                    progress(title, done.len(), items.len());
                }
            });
        }
    });
    let mut done = done.into_inner().map_err(|_| "a worker panicked")?;
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Prints a progress line on standard error; each line overwrites the previous one.
fn progress(title: &str, done: usize, all: usize) {
    let mut out = std::io::stderr();
    // A failure to print progress does not end the run.
    _ = match (out.is_terminal(), done < all) {
        (true, true) => write!(out, "\r\x1b[K{title}: {done} of {all}"),
        (true, false) => writeln!(out, "\r\x1b[K{title}: {all}"),
        (false, true) => Ok(()),
        (false, false) => writeln!(out, "{title}: {all}"),
    };
}
