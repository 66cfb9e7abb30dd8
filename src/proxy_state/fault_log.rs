//! The log lines of faults. Repeated ones are folded into a count.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::Fault;
use crate::metrics::Label;

/// Time in which further faults of one kind are counted instead of logged. Every request still has
/// its own line.
const FOLD_PERIOD: Duration = Duration::from_secs(10);

/// When each kind of fault was last logged, and how many were not.
pub(crate) struct FaultLog {
    kinds: Box<[Mutex<FoldedFault>]>,
}

#[derive(Clone, Copy, Default)]
struct FoldedFault {
    logged_at: Option<Instant>,
    folded: u64,
}

impl Default for FaultLog {
    fn default() -> Self {
        let kinds = Fault::ALL.iter().map(|_| Mutex::default()).collect();
        Self { kinds }
    }
}

impl FaultLog {
    /// Logs `fault` with `message` for the operator, unless one of its kind was logged within
    /// [`FOLD_PERIOD`].
    pub(crate) fn record(&self, fault: Fault, message: &str) {
        let Some(repeated) = self.take_turn(fault, Instant::now()) else {
            return;
        };
        let code = fault.code();
        match (fault.level() == tracing::Level::WARN, repeated) {
            (true, 0) => tracing::warn!(code, "{message}"),
            (true, _) => tracing::warn!(code, repeated, "{message}"),
            (false, 0) => tracing::info!(code, "{message}"),
            (false, _) => tracing::info!(code, repeated, "{message}"),
        }
    }

    /// Returns the number of faults of this kind that were counted since the last line. `None` if
    /// this fault is counted, too.
    fn take_turn(&self, fault: Fault, now: Instant) -> Option<u64> {
        let mut kind = self.kinds.get(fault.index())?.lock();
        if kind.logged_at.is_some_and(|at| now.duration_since(at) < FOLD_PERIOD) {
            kind.folded += 1;
            return None;
        }
        kind.logged_at = Some(now);
        Some(std::mem::take(&mut kind.folded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_kind_is_logged_and_the_next_says_how_many_were_not() {
        let log = FaultLog::default();
        let now = Instant::now();
        let refused = Fault::UpstreamUnreachable;
        assert_eq!(log.take_turn(refused, now), Some(0));
        for _ in 0..83 {
            assert_eq!(log.take_turn(refused, now), None);
        }
        assert_eq!(log.take_turn(Fault::UpstreamTls, now), Some(0));
        assert_eq!(log.take_turn(refused, now + FOLD_PERIOD), Some(83));
        assert_eq!(log.take_turn(refused, now + 2 * FOLD_PERIOD), Some(0));
    }
}
