//! Wall-clock time of a pass: the median of many.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Approximate duration of a timed group of passes: far above the cost of reading the clock.
const GROUP: Duration = Duration::from_millis(2);
/// Number of timed groups.
const GROUPS: usize = 51;

/// Measures the median time of one pass.
pub(crate) fn median(pass: &mut dyn FnMut() -> usize) -> Duration {
    black_box(pass());
    let once = timed(pass, 1).max(Duration::from_nanos(1));
    let passes = u32::try_from(GROUP.as_nanos() / once.as_nanos()).unwrap_or(u32::MAX).max(1);
    let mut groups: Vec<Duration> = (0..GROUPS).map(|_| timed(pass, passes) / passes).collect();
    groups.sort_unstable();
    groups.get(GROUPS / 2).copied().unwrap_or_default()
}

fn timed(pass: &mut dyn FnMut() -> usize, passes: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..passes {
        black_box(pass());
    }
    start.elapsed()
}
