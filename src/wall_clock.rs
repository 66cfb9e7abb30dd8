//! Unix time, for values that are stored, shared between processes or shown to people. Durations
//! use the runtime's own clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the Unix time in milliseconds.
pub(crate) fn unix_millis() -> u64 {
    since_unix_epoch().as_millis().try_into().unwrap_or(u64::MAX)
}

/// Returns the Unix time in whole seconds.
pub(crate) fn unix_seconds() -> u64 {
    since_unix_epoch().as_secs()
}

/// Returns the time since 1970; zero if the clock is set earlier.
fn since_unix_epoch() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_milliseconds_agree() {
        let before = unix_seconds();
        let between = unix_millis() / 1_000;
        assert!(before > 1_700_000_000 && before <= between && between <= unix_seconds());
    }
}
