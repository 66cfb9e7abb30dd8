//! Unix time, for values that are stored, shared between processes or shown to people. Durations
//! use the runtime's own clock.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local};

/// Returns the Unix time in milliseconds; zero if the clock is set earlier.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Returns the Unix time in whole seconds.
pub(crate) fn unix_seconds() -> u64 {
    unix_millis() / 1_000
}

/// Returns a Unix time in seconds as the local time, for people, in a format of chrono; empty beyond the calendar.
pub(crate) fn local(at: u64, format: &str) -> String {
    let utc = i64::try_from(at).ok().and_then(|at| DateTime::from_timestamp(at, 0));
    utc.map_or_else(String::new, |utc| utc.with_timezone(&Local).format(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_set_and_no_time_is_beyond_a_panic() {
        assert!(unix_seconds() > 1_700_000_000);
        assert!(local(unix_seconds(), "%Y").parse::<u32>().unwrap() >= 2023);
        assert_eq!(local(u64::MAX, "%Y"), "");
        assert!(local(8_210_266_876_799, "%FT%T%:z").starts_with("+26214"), "the last second");
    }
}
