//! Statements that were suspected to be an overflow, and that no smaller request satisfied.

use crate::wall_clock;
use longhaul_core::collections::two_generation_cache::LockedCache;

/// Statements of one caller for each cache generation. An upstream refuses in few wordings.
const STATEMENTS_PER_CALLER: usize = 64;

/// Time for which a statement is not suspected again, in milliseconds: an hour.
const REFUTED_FOR_MS: u64 = 60 * 60 * 1_000;

/// The refuted suspicions of one caller.
#[derive(Default)]
pub(crate) struct RefutedSuspicions {
    /// Time of the refutation in milliseconds since 1970, by the fingerprint of the statement.
    refuted_at: LockedCache<u64, u64, STATEMENTS_PER_CALLER>,
}

impl RefutedSuspicions {
    /// Records that a smaller request did not satisfy a statement.
    pub(crate) fn record_refuted(&self, statement: u64) {
        let now = wall_clock::unix_millis();
        self.refuted_at.lock().insert(statement, now);
    }

    /// Whether a statement was refuted within the last hour.
    pub(crate) fn is_refuted(&self, statement: u64) -> bool {
        let at = self.refuted_at.lock().get(&statement);
        // A clock that was set back must not extend the hour.
        at.is_some_and(|at| wall_clock::unix_millis().abs_diff(at) < REFUTED_FOR_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refuted_statement_is_not_suspected_for_an_hour() {
        let suspicions = RefutedSuspicions::default();
        suspicions.record_refuted(1);
        assert!(suspicions.is_refuted(1));
        assert!(!suspicions.is_refuted(2));
        let now = wall_clock::unix_millis();
        for (at, expect) in [
            (now - REFUTED_FOR_MS, false),
            (now + REFUTED_FOR_MS + 1_000, false),
            (now - REFUTED_FOR_MS / 2, true),
        ] {
            suspicions.refuted_at.lock().insert(1, at);
            assert_eq!(suspicions.is_refuted(1), expect, "{at}");
        }
    }
}
