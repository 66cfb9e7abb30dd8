//! Callers, and the caches that they share.

pub(crate) mod fair_cache;
pub(crate) mod parse_caches;

use std::time::Duration;

use longhaul_core::collections::two_generation_cache::TwoGenerationCache;
use longhaul_core::units::scope::ScopeTag;
use parking_lot::Mutex;

/// Time after which what is learned for a caller that sends nothing may make room for others.
pub(crate) const FORGET_AFTER: Duration = Duration::from_hours(30 * 24);
/// Divisor of the space of accepted callers, for all callers of whom no upstream has accepted a request.
const NEWCOMER_FRACTION: u8 = 8;
/// Accepted callers for each cache generation: at least this many are remembered, at most twice as many.
const MAX_ACCEPTED: usize = 8_192;

/// Callers of whom an upstream has accepted a request. Anyone can invent a credential, so other callers
/// have no share.
pub(crate) struct AcceptedCallers(Mutex<TwoGenerationCache<ScopeTag, ()>>);

impl Default for AcceptedCallers {
    fn default() -> Self {
        Self(Mutex::new(TwoGenerationCache::new(MAX_ACCEPTED)))
    }
}

impl AcceptedCallers {
    /// Records that an upstream has accepted a request of this caller.
    pub(crate) fn insert(&self, caller: ScopeTag) {
        self.0.lock().insert(caller, ());
    }

    /// Whether an upstream has accepted a request of this caller.
    pub(crate) fn contains(&self, caller: ScopeTag) -> bool {
        self.0.lock().get(&caller).is_some()
    }
}
