//! Callers, the owners that they count against, and the caches that they share.

pub(crate) mod fair_cache;
pub(crate) mod owners;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use longhaul_core::collections::CacheHashState;
use longhaul_core::conversation::parse_cache::ParseCache;
use longhaul_core::units::scope::{Scope, ScopeTag};
use owners::{OwnerTag, Owners};

/// Time after which what is learned for a caller that sends nothing may make room for others.
pub(crate) const FORGET_AFTER: Duration = Duration::from_hours(30 * 24);
/// Divisor of the space of accepted callers, for all callers of whom no upstream has accepted a request.
const NEWCOMER_FRACTION: u8 = 8;
/// Accepted callers for each cache generation: at least this many are remembered, at most twice as many.
const MAX_ACCEPTED: usize = 8_192;
/// Accepted callers of one owner for each generation. A credential with made-up identities next to it
/// evicts no other credential.
const MAX_ACCEPTED_OF_OWNER: usize = MAX_ACCEPTED / 4;

/// Callers of whom an upstream has accepted a request, with the owner of each. Anyone can invent a
/// credential, so other callers have no share.
#[derive(Default)]
pub(crate) struct AcceptedCallers(Mutex<Generations>);

/// Owners by caller, in two generations. A use moves an entry to the younger one.
#[derive(Default)]
struct Generations {
    young: OwnerByCaller,
    old: OwnerByCaller,
    /// Callers of each owner in the younger generation.
    callers: HashMap<OwnerTag, usize, CacheHashState>,
}

type OwnerByCaller = HashMap<ScopeTag, OwnerTag, CacheHashState>;

impl AcceptedCallers {
    /// Records that an upstream has accepted a request of `caller` that counts against `owners`.
    pub(crate) fn insert(&self, caller: ScopeTag, owners: &Owners) {
        let generations = &mut *self.0.lock();
        if generations.get(caller).is_some() {
            return;
        }
        let tags = owners.tags();
        let Some(owner) = generations.choose_owner(&tags) else {
            return;
        };
        // What is kept for an owner has the share of the owner.
        if generations.get(owner).is_none() {
            generations.put(owner, owner);
        }
        if generations.put(caller, owner) {
            // Its other credentials are carried once more.
            for tag in tags.iter().filter(|tag| **tag != owner) {
                *generations.callers.entry(*tag).or_default() += 1;
            }
        }
    }

    /// Whether an upstream has accepted a request of this caller.
    pub(crate) fn contains(&self, caller: ScopeTag) -> bool {
        self.owner(caller).is_some()
    }

    /// Returns the owner of an accepted caller. `None` for any other.
    pub(crate) fn owner(&self, caller: ScopeTag) -> Option<OwnerTag> {
        self.0.lock().get(caller)
    }
}

#[cfg(test)]
impl AcceptedCallers {
    /// Records that an upstream has accepted `caller`, which shares no credential with another.
    pub(crate) fn insert_alone(&self, caller: ScopeTag) {
        self.insert(caller, &Owners::of_tags(&[caller]));
    }
}

impl Generations {
    fn get(&mut self, caller: ScopeTag) -> Option<OwnerTag> {
        if let Some(owner) = self.young.get(&caller) {
            return Some(*owner);
        }
        let owner = self.old.remove(&caller)?;
        self.put(caller, owner);
        Some(owner)
    }

    /// Returns the credential that the most callers carry, among those of one request: the valid one stays
    /// while made-up ones vary.
    fn choose_owner(&self, tags: &[OwnerTag]) -> Option<OwnerTag> {
        let carried = |tag: &OwnerTag| self.callers.get(tag).copied().unwrap_or_default();
        // The first of equal ones: `max_by_key` returns the last.
        tags.iter().rev().copied().max_by_key(carried)
    }

    /// Stores a caller, unless its owner has its share of callers already. Returns whether the caller was
    /// stored.
    fn put(&mut self, caller: ScopeTag, owner: OwnerTag) -> bool {
        if self.young.len() >= MAX_ACCEPTED {
            self.old = std::mem::take(&mut self.young);
            self.callers.clear();
        }
        let callers = self.callers.entry(owner).or_default();
        let has_room = *callers < MAX_ACCEPTED_OF_OWNER;
        if has_room {
            *callers += 1;
            self.young.insert(caller, owner);
        }
        has_room
    }
}

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
        if self.callers.contains(scope.tag()) { &self.of_accepted } else { &self.of_newcomers }
    }

    /// Removes all entries and frees their memory.
    pub(crate) fn clear(&self) {
        self.of_accepted.clear();
        self.of_newcomers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(number: u64) -> ScopeTag {
        ScopeTag(number.to_le_bytes())
    }

    #[test]
    fn a_valid_credential_owns_every_caller_that_varies_what_stands_next_to_it() {
        let accepted = AcceptedCallers::default();
        let valid = tag(0);
        for made_up in 1..100 {
            let set = tag(1_000 + made_up);
            accepted.insert(set, &Owners::of_tags(&[tag(made_up), valid]));
        }
        let owners = (1..100).map(|made_up| accepted.owner(tag(1_000 + made_up)));
        let others = owners.filter(|owner| *owner != Some(valid)).count();
        assert!(others <= 1, "{others}");
    }

    #[test]
    fn made_up_credentials_of_an_owner_at_its_share_take_no_memory() {
        let accepted = AcceptedCallers::default();
        let valid = tag(0);
        for made_up in 1..4 * MAX_ACCEPTED as u64 {
            let set = tag(made_up + (1 << 32));
            accepted.insert(set, &Owners::of_tags(&[valid, tag(made_up)]));
        }
        let generations = accepted.0.lock();
        assert!(generations.callers.len() <= MAX_ACCEPTED_OF_OWNER + 1);
        assert!(generations.young.len() <= MAX_ACCEPTED_OF_OWNER);
    }

    #[test]
    fn one_owner_evicts_no_other_however_many_callers_it_has() {
        let accepted = AcceptedCallers::default();
        accepted.insert(tag(0), &Owners::of_tags(&[tag(0)]));
        let many = Owners::of_tags(&[tag(1)]);
        for caller in 2..4 * MAX_ACCEPTED as u64 {
            accepted.insert(tag(caller), &many);
        }
        assert!(accepted.contains(tag(0)));
    }
}

#[cfg(test)]
mod parse_caches_tests {
    use std::ptr;

    use super::*;

    #[test]
    fn parses_of_invented_callers_are_apart_from_those_of_accepted_ones() {
        let [secret, known, invented] =
            [0_u8, 1, 2].map(|number| Scope::new(&[0; 32], &[&[number]]));
        let callers = Arc::<AcceptedCallers>::default();
        let caches = ParseCaches::new(secret, &callers);
        assert!(ptr::eq(caches.for_caller(known), &raw const caches.of_newcomers));
        callers.insert_alone(known.tag());
        assert!(ptr::eq(caches.for_caller(known), &raw const caches.of_accepted));
        assert!(ptr::eq(caches.for_caller(invented), &raw const caches.of_newcomers));
    }
}
