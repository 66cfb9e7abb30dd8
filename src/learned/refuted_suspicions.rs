//! Suspected causes of refusals that no smaller request satisfied.

use crate::wall_clock;
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::overflow::Suspicion;

/// Suspicions of one caller for each cache generation. An upstream refuses in few wordings.
const SUSPICIONS_PER_CALLER: usize = 64;

/// Time for which a suspicion is not raised again, in milliseconds: an hour.
const REFUTED_FOR_MS: u64 = 60 * 60 * 1_000;

/// The refuted suspicions of one caller.
#[derive(Default)]
pub(crate) struct RefutedSuspicions {
    /// Time of the refutation in milliseconds since 1970.
    refuted_at: LockedCache<Suspicion, u64, SUSPICIONS_PER_CALLER>,
}

impl RefutedSuspicions {
    /// Records that a smaller request did not satisfy the refusal.
    pub(crate) fn record_refuted(&self, suspicion: Suspicion) {
        let now = wall_clock::unix_millis();
        self.refuted_at.lock().insert(suspicion, now);
    }

    /// Whether a suspicion was refuted within the last hour.
    pub(crate) fn is_refuted(&self, suspicion: Suspicion) -> bool {
        let at = self.refuted_at.lock().get(&suspicion);
        // A clock that was set back must not extend the hour.
        at.is_some_and(|at| wall_clock::unix_millis().abs_diff(at) < REFUTED_FOR_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refuted_suspicion_is_not_raised_for_an_hour() {
        let suspicions = RefutedSuspicions::default();
        let refuted = Suspicion::Words(1);
        suspicions.record_refuted(refuted);
        assert!(suspicions.is_refuted(refuted));
        assert!(!suspicions.is_refuted(Suspicion::Words(2)));
        assert!(!suspicions.is_refuted(Suspicion::ByteLimit));
        let now = wall_clock::unix_millis();
        for (at, expect) in [
            (now - REFUTED_FOR_MS, false),
            (now + REFUTED_FOR_MS + 1_000, false),
            (now - REFUTED_FOR_MS / 2, true),
        ] {
            suspicions.refuted_at.lock().insert(refuted, at);
            assert_eq!(suspicions.is_refuted(refuted), expect, "{at}");
        }
    }
}
