//! A bound on what tests wait for: where a rule is gone, its test fails and does not hang.

use std::panic::Location;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::timeout;

/// Longer than anything takes on any machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is waited for; panics where it does not come. A paused clock is past every bound at once, so
/// that the machine's own has the last word.
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
