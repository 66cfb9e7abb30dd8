//! What time it is for everybody, since 1970: what is kept, told to other processes or shown to people
//! goes by it, every length of time by the runtime's own clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// In milliseconds.
pub(crate) fn unix_millis() -> u64 {
    since_unix_epoch()
        .as_millis()
        .try_into()
        .unwrap_or(u64::MAX)
}

/// In whole seconds.
pub(crate) fn unix_seconds() -> u64 {
    since_unix_epoch().as_secs()
}

/// Nothing where the clock stands before that.
fn since_unix_epoch() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_units_tell_the_same_time() {
        let before = unix_seconds();
        let between = unix_millis() / 1_000;
        assert!(before > 1_700_000_000 && before <= between && between <= unix_seconds());
    }
}
