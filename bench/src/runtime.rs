//! One thread and one core for each program, so that what is measured is what it costs.

use std::future::Future;

/// Runs `future` to its end on this thread.
///
/// # Errors
/// The system gives no sockets or timers.
pub fn block_on<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, future))
}
