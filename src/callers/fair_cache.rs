//! A cache with one bound for all callers. Each owner has an equal share, and each caller an equal part of
//! the share of its owner.
//!
//! An entry gives way to another owner's only if its own owner holds more. Callers of whom no request
//! was accepted share a small part, so invented credentials evict nothing of other callers.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::callers::owners::OwnerTag;
use crate::callers::{AcceptedCallers, NEWCOMER_FRACTION};
use longhaul_core::collections::CacheHashState;
use longhaul_core::units::recall_id::RecallId;
use longhaul_core::units::scope::{RecordKey, Scope, ScopeTag};

/// Maximum owners with their own share. Callers of further owners use the newcomers' share until all
/// entries of some owner have expired.
const MAX_SHARES: usize = 4_096;
/// Room for one entry of each owner that has a share.
pub(crate) const ONE_FOR_EACH: u64 =
    (MAX_SHARES as u64 * NEWCOMER_FRACTION as u64).div_ceil(NEWCOMER_FRACTION as u64 - 1);
/// Minimum time between two searches for expired entries.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// A key that names its caller, and begins with a keyed hash.
pub(crate) trait CallerKey: Clone + Eq + Hash {
    fn caller(&self) -> ScopeTag;
}

macro_rules! caller_keys {
    ($($key:ty => $caller:ident;)+) => {$(
        impl CallerKey for $key {
            fn caller(&self) -> ScopeTag {
                self.$caller()
            }
        }
    )+};
}

caller_keys! {
    RecallId => scope;
    RecordKey => scope;
    Scope => tag;
    ScopeTag => clone;
}

/// The caller of a pair is that of its first element.
impl<K: CallerKey, T: Clone + Eq + Hash> CallerKey for (K, T) {
    fn caller(&self) -> ScopeTag {
        self.0.caller()
    }
}

/// Entries of all callers. Evicts the least recently used entry of the caller that holds the most, among
/// those of the owner that holds the most.
pub(crate) struct FairCache<K, V> {
    weight_of: fn(&V) -> u64,
    state: Mutex<CacheState<K, V>>,
}

struct CacheState<K, V> {
    max_weight: u64,
    idle: Duration,
    accepted: Arc<AcceptedCallers>,
    by_caller: HashMap<ScopeTag, CallerEntries<K, V>, CacheHashState>,
    by_owner: HashMap<OwnerTag, OwnerShare, CacheHashState>,
    /// Owners by the weight of their entries, to find the largest.
    by_weight: BTreeSet<(u64, OwnerTag)>,
    newcomers: CallerEntries<K, V>,
    /// Weight of the entries in `by_caller`.
    weight: u64,
    /// Number of uses so far, which orders the uses.
    uses: u64,
    swept_at: Instant,
}

#[derive(Default)]
struct OwnerShare {
    weight: u64,
    /// Callers of the owner by the weight of their entries.
    callers: BTreeSet<(u64, ScopeTag)>,
}

struct CallerEntries<K, V> {
    /// `None` for newcomers.
    owner: Option<OwnerTag>,
    entries: HashMap<K, CacheEntry<V>, CacheHashState>,
    /// Keys by a use of each, oldest first. A later use moves a key only once it is the first.
    queue: BTreeMap<u64, K>,
    weight: u64,
}

struct CacheEntry<V> {
    value: V,
    weight: u64,
    /// The use under which the key is queued.
    queued: u64,
    last_use: u64,
    used_at: Instant,
}

impl<K: CallerKey, V: Clone> FairCache<K, V> {
    /// Creates an empty cache with room for `max_weight`, each entry kept for `idle` after its last use.
    pub(crate) fn new(
        max_weight: u64,
        idle: Duration,
        weight_of: fn(&V) -> u64,
        accepted: &Arc<AcceptedCallers>,
    ) -> Self {
        Self {
            weight_of,
            state: Mutex::new(CacheState {
                max_weight,
                idle,
                accepted: Arc::clone(accepted),
                by_caller: HashMap::default(),
                by_owner: HashMap::default(),
                by_weight: BTreeSet::new(),
                newcomers: CallerEntries::default(),
                weight: 0,
                uses: 0,
                swept_at: Instant::now(),
            }),
        }
    }

    /// Creates an empty cache with room for `max_entries`.
    pub(crate) fn of_entries(
        max_entries: u64,
        idle: Duration,
        accepted: &Arc<AcceptedCallers>,
    ) -> Self {
        Self::new(max_entries, idle, |_| 1, accepted)
    }

    /// Returns the value under `key`, and counts the read as a use.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.state.lock().get(key)
    }

    /// Stores `value` under `key`, in place of any other.
    pub(crate) fn insert(&self, key: K, value: V) {
        self.update(key, |_| Some(value));
    }

    /// Stores the value of `make` under `key` unless there is one. Returns the stored value.
    pub(crate) fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        let state = &mut *self.state.lock();
        state.get(&key).unwrap_or_else(|| {
            let value = make();
            let weight = (self.weight_of)(&value);
            state.put(key, value.clone(), weight);
            value
        })
    }

    /// Replaces the value under `key` with that of `change`, atomically. `None` leaves it as it is.
    pub(crate) fn update(&self, key: K, change: impl FnOnce(Option<V>) -> Option<V>) {
        let state = &mut *self.state.lock();
        if let Some(value) = change(state.get(&key)) {
            let weight = (self.weight_of)(&value);
            if let Some(entry) = state.entry_of_weight(&key, weight) {
                entry.value = value;
            } else {
                state.remove(&key);
                state.put(key, value, weight);
            }
        }
    }

    /// Returns the number of entries whose value is one that `matches`.
    pub(crate) fn count(&self, matches: impl Fn(&V) -> bool) -> usize {
        let state = &*self.state.lock();
        let callers = state.by_caller.values().chain([&state.newcomers]);
        let entries = callers.flat_map(|caller| caller.entries.values());
        entries
            .filter(|entry| entry.used_at.elapsed() <= state.idle && matches(&entry.value))
            .count()
    }

    /// Returns all entries, in no order. Counts as no use.
    pub(crate) fn entries(&self) -> Vec<(K, V)> {
        let state = &*self.state.lock();
        let callers = state.by_caller.values().chain([&state.newcomers]);
        let entries = callers.flat_map(|caller| &caller.entries);
        entries.map(|(key, entry)| (key.clone(), entry.value.clone())).collect()
    }

    pub(crate) fn weight(&self) -> u64 {
        let state = self.state.lock();
        state.weight + state.newcomers.weight
    }

    /// Removes the entry under `key`.
    pub(crate) fn remove(&self, key: &K) {
        self.state.lock().remove(key);
    }
}

impl<K: CallerKey, V: Clone> CacheState<K, V> {
    fn get(&mut self, key: &K) -> Option<V> {
        self.sweep();
        self.uses += 1;
        let (uses, idle, caller) = (self.uses, self.idle, key.caller());
        let own = self.change_entries(caller, |entries| entries.get(key, uses, idle));
        own.flatten().or_else(|| {
            let value = self.newcomers.get(key, uses, idle)?;
            // The caller was accepted since.
            if self.owner_with_share(caller).is_some()
                && let Some(entry) = self.newcomers.remove(key)
            {
                self.put(key.clone(), entry.value, entry.weight);
            }
            Some(value)
        })
    }

    /// Changes the entries of a caller, if there are any, and forgets the caller if none is left.
    fn change_entries<R>(
        &mut self,
        caller: ScopeTag,
        change: impl FnOnce(&mut CallerEntries<K, V>) -> R,
    ) -> Option<R> {
        let own = self.by_caller.get_mut(&caller)?;
        let before = own.weight;
        let outcome = change(own);
        let (after, is_empty, owner) = (own.weight, own.entries.is_empty(), own.owner);
        if before != after || is_empty {
            self.reweigh(owner.unwrap_or(caller), (before, caller), after, is_empty);
        }
        if is_empty {
            self.by_caller.remove(&caller);
        }
        Some(outcome)
    }

    /// Updates the weights above a caller whose entries weighed `before` and now weigh `after`. Forgets the
    /// owner of a caller that has left unless other callers remain.
    fn reweigh(
        &mut self,
        owner: OwnerTag,
        (before, caller): (u64, ScopeTag),
        after: u64,
        has_left: bool,
    ) {
        let share = self.by_owner.entry(owner).or_default();
        self.by_weight.remove(&(share.weight, owner));
        share.callers.remove(&(before, caller));
        share.weight = share.weight - before + after;
        self.weight = self.weight - before + after;
        if !has_left {
            share.callers.insert((after, caller));
        }
        if share.callers.is_empty() {
            self.by_owner.remove(&owner);
        } else {
            self.by_weight.insert((share.weight, owner));
        }
    }

    /// Returns the owner of a caller that has its own share, or may have one now.
    fn owner_with_share(&self, caller: ScopeTag) -> Option<OwnerTag> {
        if let Some(own) = self.by_caller.get(&caller) {
            return own.owner;
        }
        let owner = self.accepted.owner(caller)?;
        let has_share = self.by_owner.contains_key(&owner) || self.by_owner.len() < MAX_SHARES;
        has_share.then_some(owner)
    }

    fn put(&mut self, key: K, value: V, weight: u64) {
        self.sweep();
        self.uses += 1;
        let (uses, caller) = (self.uses, key.caller());
        let owner = self.owner_with_share(caller);
        let for_newcomers = self.max_weight / u64::from(NEWCOMER_FRACTION);
        let room = if owner.is_some() { self.max_weight - for_newcomers } else { for_newcomers };
        // An entry that can never fit evicts no other.
        if weight > room {
            return;
        }
        if owner.is_some() {
            self.by_caller.entry(caller).or_default().owner = owner;
            self.change_entries(caller, |entries| entries.put(key, value, weight, uses));
        } else {
            self.newcomers.put(key, value, weight, uses);
        }
        self.make_room(caller);
    }

    /// Returns the entry under `key` if a value of this weight fits in its place.
    fn entry_of_weight(&mut self, key: &K, weight: u64) -> Option<&mut CacheEntry<V>> {
        let own = self.by_caller.get_mut(&key.caller());
        let entry = own.and_then(|own| own.entries.get_mut(key));
        let entry = entry.or_else(|| self.newcomers.entries.get_mut(key))?;
        (entry.weight == weight).then_some(entry)
    }

    fn remove(&mut self, key: &K) {
        self.change_entries(key.caller(), |entries| entries.remove(key));
        self.newcomers.remove(key);
    }

    /// Evicts entries beyond the bound after `caller` has added one.
    fn make_room(&mut self, caller: ScopeTag) {
        let for_newcomers = self.max_weight / u64::from(NEWCOMER_FRACTION);
        while self.newcomers.weight > for_newcomers && self.newcomers.evict_one() {}
        while self.weight > self.max_weight - for_newcomers {
            let gives_way = self.largest_caller(caller);
            if self.change_entries(gives_way, CallerEntries::evict_one) != Some(true) {
                break;
            }
        }
    }

    /// Returns the caller whose entry gives way to one of `caller`: the largest of the largest owner, or
    /// `caller` itself among equals.
    fn largest_caller(&self, caller: ScopeTag) -> ScopeTag {
        let own = self.by_caller.get(&caller);
        let owner = own.and_then(|own| own.owner);
        let share_of = |owner: OwnerTag| self.by_owner.get(&owner);
        let own_share = owner.and_then(share_of);
        let largest = self.by_weight.last().and_then(|(weight, owner)| {
            let is_larger = *weight > own_share.map_or(0, |share| share.weight);
            share_of(*owner).filter(|_| is_larger)
        });
        let (share, least) = match largest {
            Some(share) => (Some(share), 0),
            None => (own_share, own.map_or(0, |own| own.weight)),
        };
        let candidate = share.and_then(|share| share.callers.last());
        candidate.filter(|(weight, _)| *weight > least).map_or(caller, |(_, largest)| *largest)
    }

    /// Removes expired entries, unless they were searched for a moment ago. A cache without uses keeps them
    /// until the next use.
    fn sweep(&mut self) {
        if self.swept_at.elapsed() < SWEEP_INTERVAL {
            return;
        }
        self.swept_at = Instant::now();
        self.newcomers.remove_expired(self.idle);
        let callers: Vec<ScopeTag> = self.by_caller.keys().copied().collect();
        for caller in callers {
            let idle = self.idle;
            self.change_entries(caller, |entries| entries.remove_expired(idle));
        }
    }
}

impl<K, V> Default for CallerEntries<K, V> {
    fn default() -> Self {
        Self { owner: None, entries: HashMap::default(), queue: BTreeMap::new(), weight: 0 }
    }
}

impl<K: CallerKey, V: Clone> CallerEntries<K, V> {
    fn get(&mut self, key: &K, uses: u64, idle: Duration) -> Option<V> {
        let entry = self.entries.get_mut(key)?;
        if entry.used_at.elapsed() > idle {
            self.remove(key);
            return None;
        }
        (entry.last_use, entry.used_at) = (uses, Instant::now());
        Some(entry.value.clone())
    }

    fn put(&mut self, key: K, value: V, weight: u64, uses: u64) {
        let entry =
            CacheEntry { value, weight, queued: uses, last_use: uses, used_at: Instant::now() };
        self.queue.insert(uses, key.clone());
        self.entries.insert(key, entry);
        self.weight += weight;
    }

    fn remove(&mut self, key: &K) -> Option<CacheEntry<V>> {
        let entry = self.entries.remove(key)?;
        self.queue.remove(&entry.queued);
        self.weight -= entry.weight;
        Some(entry)
    }

    /// Returns the least recently used key, and the time of its use. Moves keys that were used since they
    /// were queued.
    fn oldest(&mut self) -> Option<(K, Instant)> {
        loop {
            let queued = self.queue.first_entry()?;
            let entry = self.entries.get_mut(queued.get())?;
            if entry.last_use == *queued.key() {
                return Some((queued.get().clone(), entry.used_at));
            }
            entry.queued = entry.last_use;
            let key = queued.remove();
            self.queue.insert(entry.last_use, key);
        }
    }

    /// Removes the least recently used entry. Returns whether there was one.
    fn evict_one(&mut self) -> bool {
        let oldest = self.oldest();
        oldest.is_some_and(|(key, _)| self.remove(&key).is_some())
    }

    /// Removes expired entries. Keys are queued by use, so the first one in use ends the search.
    fn remove_expired(&mut self, idle: Duration) {
        while let Some((key, used_at)) = self.oldest()
            && used_at.elapsed() > idle
        {
            self.remove(&key);
        }
    }
}
