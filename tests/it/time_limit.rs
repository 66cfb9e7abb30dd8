//! Time limits for tests, so that a broken rule makes its test fail instead of hang.

use std::panic::Location;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::timeout;

/// A generous limit for any machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Awaits a future with a time limit; panics when the limit is reached. A paused clock jumps past
/// any limit at once, so the machine's own clock decides.
#[track_caller]
pub(crate) fn bounded<T>(awaited: impl Future<Output = T>) -> impl Future<Output = T> {
    let waits = Location::caller();
    async move {
        let began = Instant::now();
        let mut awaited = pin!(awaited);
        loop {
            if let Ok(came) = timeout(PATIENCE, awaited.as_mut()).await {
                return came;
            }
            assert!(began.elapsed() < PATIENCE, "{waits} waits in vain");
        }
    }
}
