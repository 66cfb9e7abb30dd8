//! A cache with one bound for all callers. Each owner has an equal share, and each caller an equal part of
//! the share of its owner.
//!
//! An entry gives way to another owner's only if its own owner holds more. Callers of whom no request
//! was accepted share a small part, so invented credentials evict nothing of other callers.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indexmap::IndexMap;
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
/// Minimum seconds between two searches for expired entries.
const SWEEP_INTERVAL: u32 = 60;

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
    /// Whether an entry was ever stored. Most caches stay empty in most processes, and look-ups at every boundary of a
    /// request then take no lock.
    ever_stored: AtomicBool,
    state: Mutex<CacheState<K, V>>,
}

struct CacheState<K, V> {
    max_weight: u64,
    idle: Duration,
    weight_of: fn(&V) -> u64,
    accepted: Arc<AcceptedCallers>,
    /// Entries of all callers, in one block of memory: small allocations that outlive the requests between
    /// them keep whole pages.
    entries: IndexMap<K, CacheEntry<V>, CacheHashState>,
    /// The order of the entries of each caller with a share, and of those of all newcomers together.
    by_caller: HashMap<ScopeTag, CallerEntries, CacheHashState>,
    by_owner: HashMap<OwnerTag, OwnerShare, CacheHashState>,
    /// Owners by the weight of their entries, to find the largest.
    by_weight: BTreeSet<(u64, OwnerTag)>,
    /// Weight of the entries of callers with a share.
    weight: u64,
    created: Instant,
    /// Seconds from the creation to the last search for expired entries.
    swept_at: u32,
}

#[derive(Default)]
struct OwnerShare {
    weight: u64,
    /// Callers of the owner by the weight of their entries.
    callers: BTreeSet<(u64, ScopeTag)>,
}

/// Entries of one caller, or of all newcomers, linked in the order of their last use.
struct CallerEntries {
    /// `None` for newcomers.
    owner: Option<OwnerTag>,
    oldest: Index,
    newest: Index,
    weight: u64,
}

struct CacheEntry<V> {
    value: V,
    /// Entry of the same list that was used just before this one, and just after.
    older: Index,
    newer: Index,
    /// Seconds from the creation of the cache to the last use.
    used_at: u32,
    is_newcomer: bool,
}

/// Position of an entry, which changes if an earlier entry is removed. [`NONE`] is no entry.
type Index = u32;
const NONE: Index = Index::MAX;

/// Stands for all newcomers: the tag of a caller is a hash.
const NEWCOMERS: ScopeTag = ScopeTag([0; 8]);

impl<K: CallerKey, V: Clone> FairCache<K, V> {
    /// Creates an empty cache with room for `max_weight`, each entry kept for `idle` after its last use.
    /// The weight of a value never changes.
    pub(crate) fn new(
        max_weight: u64,
        idle: Duration,
        weight_of: fn(&V) -> u64,
        accepted: &Arc<AcceptedCallers>,
    ) -> Self {
        let state = Mutex::new(CacheState {
            max_weight,
            idle,
            weight_of,
            accepted: Arc::clone(accepted),
            entries: IndexMap::default(),
            by_caller: HashMap::default(),
            by_owner: HashMap::default(),
            by_weight: BTreeSet::new(),
            weight: 0,
            created: Instant::now(),
            swept_at: 0,
        });
        Self { ever_stored: AtomicBool::new(false), state }
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
        if self.is_empty() { None } else { self.state.lock().get(key) }
    }

    /// Whether no entry was ever stored.
    pub(crate) fn is_empty(&self) -> bool {
        !self.ever_stored.load(Ordering::Acquire)
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
            self.ever_stored.store(true, Ordering::Release);
            state.put(key, value.clone());
            value
        })
    }

    /// Replaces the value under `key` with that of `change`, atomically. `None` leaves it as it is.
    pub(crate) fn update(&self, key: K, change: impl FnOnce(Option<V>) -> Option<V>) {
        let state = &mut *self.state.lock();
        if let Some(value) = change(state.get(&key)) {
            self.ever_stored.store(true, Ordering::Release);
            state.put(key, value);
        }
    }

    /// Returns the number of entries whose value is one that `matches`.
    pub(crate) fn count(&self, matches: impl Fn(&V) -> bool) -> usize {
        let state = &*self.state.lock();
        let now = state.now();
        let entries = state.entries.values();
        entries.filter(|it| !state.has_expired(it.used_at, now) && matches(&it.value)).count()
    }

    /// Returns all entries, in no order. Counts as no use.
    pub(crate) fn entries(&self) -> Vec<(K, V)> {
        let state = &*self.state.lock();
        state.entries.iter().map(|(key, entry)| (key.clone(), entry.value.clone())).collect()
    }

    /// Removes the entry under `key`.
    pub(crate) fn remove(&self, key: &K) {
        let state = &mut *self.state.lock();
        state.remove(state.index_of(key));
    }
}

impl<K: CallerKey, V: Clone> CacheState<K, V> {
    fn get(&mut self, key: &K) -> Option<V> {
        let now = self.sweep();
        let at = self.index_of(key);
        let (_, entry) = self.entries.get_index_mut(at as usize)?;
        let (value, is_newcomer) = (entry.value.clone(), entry.is_newcomer);
        let (is_newest, used_at) = (entry.newer == NONE, mem::replace(&mut entry.used_at, now));
        if self.has_expired(used_at, now) {
            self.remove(at);
            return None;
        }
        if is_newcomer && self.owner_with_share(key.caller()).is_some() {
            // The caller was accepted since.
            self.remove(at);
            self.put(key.clone(), value.clone());
        } else if !is_newest {
            self.unlink(at);
            self.link_newest(at);
        }
        Some(value)
    }

    fn put(&mut self, key: K, value: V) {
        let (used_at, at, caller) = (self.sweep(), self.index_of(&key), key.caller());
        let weight = (self.weight_of)(&value);
        if let Some((_, entry)) = self.entries.get_index_mut(at as usize) {
            if (self.weight_of)(&entry.value) == weight {
                entry.value = value;
                return;
            }
            self.remove(at);
        }
        let owner = self.owner_with_share(caller);
        let for_newcomers = self.max_weight / u64::from(NEWCOMER_FRACTION);
        let room = if owner.is_some() { self.max_weight - for_newcomers } else { for_newcomers };
        // An entry that can never fit evicts no other.
        if weight > room {
            return;
        }
        let is_newcomer = owner.is_none();
        let list = list_of(&key, is_newcomer);
        let empty = CallerEntries { owner, oldest: NONE, newest: NONE, weight: 0 };
        self.by_caller.entry(list).or_insert(empty);
        let entry = CacheEntry { value, older: NONE, newer: NONE, used_at, is_newcomer };
        let (at, _) = self.entries.insert_full(key, entry);
        self.link_newest(at.try_into().unwrap_or(NONE));
        self.reweigh(list, weight, 0);
        let is_full = |newcomers: &CallerEntries| newcomers.weight > for_newcomers;
        while self.by_caller.get(&NEWCOMERS).is_some_and(is_full) && self.evict(NEWCOMERS) {}
        while self.weight > self.max_weight - for_newcomers
            && self.evict(self.largest_caller(caller))
        {}
    }

    fn index_of(&self, key: &K) -> Index {
        self.entries.get_index_of(key).and_then(|at| at.try_into().ok()).unwrap_or(NONE)
    }

    /// Removes the least recently used entry of a list. Returns whether there was one.
    fn evict(&mut self, list: ScopeTag) -> bool {
        let list = self.by_caller.get(&list);
        self.remove(list.map_or(NONE, |list| list.oldest))
    }

    /// Removes the entry at `at`, whose place the last entry takes. Returns whether there was one.
    fn remove(&mut self, at: Index) -> bool {
        self.unlink(at);
        let Some((key, entry)) = self.entries.swap_remove_index(at as usize) else {
            return false;
        };
        if let Some((moved, &CacheEntry { older, newer, is_newcomer, .. })) =
            self.entries.get_index(at as usize)
        {
            let list = list_of(moved, is_newcomer);
            self.join(list, (older, newer), (at, at));
        }
        self.reweigh(list_of(&key, entry.is_newcomer), 0, (self.weight_of)(&entry.value));
        true
    }

    /// Takes the entry at `at` out of the order of its list.
    fn unlink(&mut self, at: Index) {
        if let Some((key, entry)) = self.entries.get_index(at as usize) {
            let (older, newer) = (entry.older, entry.newer);
            self.join(list_of(key, entry.is_newcomer), (older, newer), (newer, older));
        }
    }

    /// Puts the entry at `at` at the end of its list.
    fn link_newest(&mut self, at: Index) {
        let Some((key, entry)) = self.entries.get_index(at as usize) else {
            return;
        };
        let list = list_of(key, entry.is_newcomer);
        let last = self.by_caller.get(&list).map_or(NONE, |list| list.newest);
        if let Some((_, entry)) = self.entries.get_index_mut(at as usize) {
            (entry.older, entry.newer) = (last, NONE);
        }
        self.join(list, (last, NONE), (at, at));
    }

    /// Lets `next` follow the entry `older` in a list, and `previous` precede the entry `newer`. Without an entry,
    /// the list begins or ends there.
    fn join(
        &mut self,
        list: ScopeTag,
        (older, newer): (Index, Index),
        (next, previous): (Index, Index),
    ) {
        if let Some((_, entry)) = self.entries.get_index_mut(older as usize) {
            entry.newer = next;
        } else if let Some(list) = self.by_caller.get_mut(&list) {
            list.oldest = next;
        }
        if let Some((_, entry)) = self.entries.get_index_mut(newer as usize) {
            entry.older = previous;
        } else if let Some(list) = self.by_caller.get_mut(&list) {
            list.newest = previous;
        }
    }

    /// Updates the weights of a list and above. Forgets a caller without entries, and its owner unless other
    /// callers remain.
    fn reweigh(&mut self, caller: ScopeTag, added: u64, removed: u64) {
        let Some(own) = self.by_caller.get_mut(&caller) else {
            return;
        };
        let before = own.weight;
        own.weight = before + added - removed;
        let (after, has_left) = (own.weight, own.oldest == NONE);
        let Some(owner) = own.owner else {
            return;
        };
        let share = self.by_owner.entry(owner).or_default();
        self.by_weight.remove(&(share.weight, owner));
        share.callers.remove(&(before, caller));
        share.weight = share.weight + added - removed;
        self.weight = self.weight + added - removed;
        if has_left {
            self.by_caller.remove(&caller);
        } else {
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

    /// Returns the seconds since the creation. Removes expired entries, unless they were searched for a moment
    /// ago. A cache without uses keeps them until the next use.
    fn sweep(&mut self) -> u32 {
        let now = self.now();
        if now - self.swept_at < SWEEP_INTERVAL {
            return now;
        }
        self.swept_at = now;
        let lists: Vec<ScopeTag> = self.by_caller.keys().copied().collect();
        for list in lists {
            while let Some(oldest) = self.by_caller.get(&list).map(|list| list.oldest)
                && let Some((_, entry)) = self.entries.get_index(oldest as usize)
                && self.has_expired(entry.used_at, now)
            {
                self.remove(oldest);
            }
        }
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to_fit();
        }
        now
    }

    fn now(&self) -> u32 {
        self.created.elapsed().as_secs().try_into().unwrap_or(u32::MAX)
    }

    fn has_expired(&self, used_at: u32, now: u32) -> bool {
        u64::from(now - used_at) > self.idle.as_secs()
    }
}

fn list_of(key: &impl CallerKey, is_newcomer: bool) -> ScopeTag {
    if is_newcomer { NEWCOMERS } else { key.caller() }
}
