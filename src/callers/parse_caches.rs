//! Caches of parsed messages: one for accepted callers, and a small one for all others.
//!
//! Neither has shares: entries are looked up for each message, and decide nothing. If an entry was evicted,
//! the message is parsed again, with the same result.

use std::sync::Arc;

use longhaul_core::conversation::parse_cache::ParseCache;
use longhaul_core::units::scope::Scope;

use crate::callers::{AcceptedCallers, NEWCOMER_FRACTION};

/// Caches of parsed messages. Invented credentials evict no parse of an accepted caller.
pub(crate) struct ParseCaches {
    callers: Arc<AcceptedCallers>,
    of_accepted: ParseCache,
    of_newcomers: ParseCache,
}

impl ParseCaches {
    /// Creates empty caches with `secret` as their key, a scope that belongs to no caller.
    pub(crate) fn new(secret: Scope, callers: &Arc<AcceptedCallers>) -> Self {
        Self {
            callers: Arc::clone(callers),
            of_accepted: ParseCache::new(secret),
            of_newcomers: ParseCache::with_fraction(secret, NEWCOMER_FRACTION.into()),
        }
    }

    /// Returns the cache for the messages of this caller. The first request after an acceptance is
    /// parsed again.
    pub(crate) fn for_caller(&self, scope: Scope) -> &ParseCache {
        if self.callers.contains(scope.tag()) {
            &self.of_accepted
        } else {
            &self.of_newcomers
        }
    }

    /// Removes all entries and frees their memory.
    pub(crate) fn clear(&self) {
        self.of_accepted.clear();
        self.of_newcomers.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn parses_of_invented_callers_are_apart_from_those_of_accepted_ones() {
        let [secret, known, invented] =
            [0_u8, 1, 2].map(|number| Scope::new(&[0; 32], &[&[number]]));
        let callers = Arc::<AcceptedCallers>::default();
        let caches = ParseCaches::new(secret, &callers);
        assert!(ptr::eq(
            caches.for_caller(known),
            &raw const caches.of_newcomers
        ));
        callers.insert_alone(known.tag());
        assert!(ptr::eq(
            caches.for_caller(known),
            &raw const caches.of_accepted
        ));
        assert!(ptr::eq(
            caches.for_caller(invented),
            &raw const caches.of_newcomers
        ));
    }
}
