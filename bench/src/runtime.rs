//! A single-threaded runtime: each program gets one thread and one core, so that its measured cost
//! is its own.

use std::future::Future;

/// Runs `future` to completion on this thread.
///
/// # Errors
/// The system could not provide sockets or timers.
pub fn block_on<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, future))
}
