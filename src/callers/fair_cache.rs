//! A cache with one bound for all callers, of which each has an equal share.
//!
//! An entry gives way to another caller's only if its own caller holds more. Callers of whom no request
//! was accepted share a small part, so invented credentials evict nothing of other callers.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::callers::AcceptedCallers;
use longhaul_core::units::recall_id::RecallId;
use longhaul_core::units::scope::{RecordKey, Scope, ScopeTag};

/// Callers with a shelf of their own. Further ones share the newcomers' shelf until all entries of some
/// caller have expired.
pub(crate) const MAX_SHELVES: usize = 4_096;
/// Newcomers share one part in so many of the bound.
const NEWCOMER_FRACTION: u64 = 8;
/// Room for one entry of each caller that has a shelf.
pub(crate) const ONE_FOR_EACH: u64 = 4_688;
/// Minimum time between two searches for expired entries.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// A key that names its caller.
pub(crate) trait CallerKey: Clone + Eq + Hash {
    /// Returns the tag of the caller's scope.
    fn caller(&self) -> ScopeTag;
}

impl CallerKey for RecallId {
    fn caller(&self) -> ScopeTag {
        self.scope()
    }
}

impl CallerKey for RecordKey {
    fn caller(&self) -> ScopeTag {
        self.scope()
    }
}

impl CallerKey for Scope {
    fn caller(&self) -> ScopeTag {
        self.tag()
    }
}

/// The caller of a pair is that of its first element.
impl<K: CallerKey, T: Clone + Eq + Hash> CallerKey for (K, T) {
    fn caller(&self) -> ScopeTag {
        self.0.caller()
    }
}

/// Entries of all callers. Evicts the least recently used entry of the caller that holds the most.
pub(crate) struct FairCache<K, V> {
    weigh: fn(&V) -> u64,
    shelves: Mutex<Shelves<K, V>>,
}

struct Shelves<K, V> {
    max_weight: u64,
    idle: Duration,
    accepted: Arc<AcceptedCallers>,
    by_caller: HashMap<ScopeTag, Shelf<K, V>>,
    /// Callers by the weight of their shelves, to find the largest.
    by_weight: BTreeSet<(u64, ScopeTag)>,
    newcomers: Shelf<K, V>,
    /// Weight of the entries in `by_caller`.
    weight: u64,
    /// Number of uses so far, which orders them.
    uses: u64,
    swept_at: Instant,
}

/// Entries of one caller, or of all newcomers.
struct Shelf<K, V> {
    entries: HashMap<K, CacheEntry<V>>,
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
        weigh: fn(&V) -> u64,
        accepted: &Arc<AcceptedCallers>,
    ) -> Self {
        Self {
            weigh,
            shelves: Mutex::new(Shelves {
                max_weight,
                idle,
                accepted: Arc::clone(accepted),
                by_caller: HashMap::new(),
                by_weight: BTreeSet::new(),
                newcomers: Shelf::default(),
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

    /// Returns the value under `key`, and counts that as a use.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.shelves.lock().get(key)
    }

    /// Stores `value` under `key`, in place of any other.
    pub(crate) fn insert(&self, key: K, value: V) {
        self.update(key, |_| Some(value));
    }

    /// Stores the value of `make` under `key` unless there is one. Returns the stored value.
    pub(crate) fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        let shelves = &mut *self.shelves.lock();
        shelves.get(&key).unwrap_or_else(|| {
            let value = make();
            let weight = (self.weigh)(&value);
            shelves.put(key, value.clone(), weight);
            value
        })
    }

    /// Replaces the value under `key` with that of `change`, atomically. `None` leaves it as it is.
    pub(crate) fn update(&self, key: K, change: impl FnOnce(Option<V>) -> Option<V>) {
        let shelves = &mut *self.shelves.lock();
        if let Some(value) = change(shelves.get(&key)) {
            let weight = (self.weigh)(&value);
            shelves.remove(&key);
            shelves.put(key, value, weight);
        }
    }

    /// Returns the weight of all entries.
    #[cfg(test)]
    pub(crate) fn weight(&self) -> u64 {
        let shelves = self.shelves.lock();
        shelves.weight + shelves.newcomers.weight
    }

    /// Removes the entry under `key`.
    pub(crate) fn remove(&self, key: &K) {
        self.shelves.lock().remove(key);
    }
}

impl<K: CallerKey, V: Clone> Shelves<K, V> {
    fn get(&mut self, key: &K) -> Option<V> {
        self.sweep();
        self.uses += 1;
        let (uses, idle, caller) = (self.uses, self.idle, key.caller());
        let own = self.change_shelf(caller, |shelf| shelf.get(key, uses, idle));
        own.flatten().or_else(|| {
            let value = self.newcomers.get(key, uses, idle)?;
            // The caller was accepted since.
            if self.has_shelf(caller)
                && let Some(entry) = self.newcomers.remove(key)
            {
                self.put(key.clone(), entry.value, entry.weight);
            }
            Some(value)
        })
    }

    /// Changes the shelf of a caller, if the caller has one, and removes the shelf if it is empty then.
    fn change_shelf<R>(
        &mut self,
        caller: ScopeTag,
        change: impl FnOnce(&mut Shelf<K, V>) -> R,
    ) -> Option<R> {
        let shelf = self.by_caller.get_mut(&caller)?;
        let before = shelf.weight;
        let outcome = change(shelf);
        let (after, is_empty) = (shelf.weight, shelf.entries.is_empty());
        self.weight = self.weight - before + after;
        if before != after || is_empty {
            self.by_weight.remove(&(before, caller));
        }
        if is_empty {
            self.by_caller.remove(&caller);
        } else if before != after {
            self.by_weight.insert((after, caller));
        }
        Some(outcome)
    }

    /// Whether a caller has a shelf of its own, or may have one now.
    fn has_shelf(&self, caller: ScopeTag) -> bool {
        self.by_caller.contains_key(&caller)
            || self.accepted.contains(caller) && self.by_caller.len() < MAX_SHELVES
    }

    fn put(&mut self, key: K, value: V, weight: u64) {
        self.sweep();
        self.uses += 1;
        let (uses, caller) = (self.uses, key.caller());
        let has_shelf = self.has_shelf(caller);
        let for_newcomers = self.max_weight / NEWCOMER_FRACTION;
        let room = if has_shelf {
            self.max_weight - for_newcomers
        } else {
            for_newcomers
        };
        // An entry that can never fit evicts no other.
        if weight > room {
            return;
        }
        if has_shelf {
            self.by_caller.entry(caller).or_default();
            self.change_shelf(caller, |shelf| shelf.put(key, value, weight, uses));
        } else {
            self.newcomers.put(key, value, weight, uses);
        }
        self.make_room(caller);
    }

    fn remove(&mut self, key: &K) {
        self.change_shelf(key.caller(), |shelf| shelf.remove(key));
        self.newcomers.remove(key);
    }

    /// Evicts entries beyond the bound after `caller` has added one.
    fn make_room(&mut self, caller: ScopeTag) {
        let for_newcomers = self.max_weight / NEWCOMER_FRACTION;
        while self.newcomers.weight > for_newcomers && self.newcomers.evict_one() {}
        while self.weight > self.max_weight - for_newcomers {
            let own = self.by_caller.get(&caller).map_or(0, |shelf| shelf.weight);
            let largest = self.by_weight.last().copied();
            let larger = largest.filter(|(weight, _)| *weight > own);
            let gives_way = larger.map_or(caller, |(_, tag)| tag);
            if self.change_shelf(gives_way, Shelf::evict_one) != Some(true) {
                break;
            }
        }
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
            self.change_shelf(caller, |shelf| shelf.remove_expired(idle));
        }
    }
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            queue: BTreeMap::new(),
            weight: 0,
        }
    }
}

impl<K: CallerKey, V: Clone> Shelf<K, V> {
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
        let entry = CacheEntry {
            value,
            weight,
            queued: uses,
            last_use: uses,
            used_at: Instant::now(),
        };
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

    /// Removes the least recently used entry. Returns whether there was one.
    fn evict_one(&mut self) -> bool {
        while let Some((queued, key)) = self.queue.pop_first() {
            match self.entries.get_mut(&key) {
                Some(entry) if entry.last_use > queued => {
                    entry.queued = entry.last_use;
                    self.queue.insert(entry.last_use, key);
                }
                Some(_) | None => return self.remove(&key).is_some(),
            }
        }
        false
    }

    /// Removes expired entries. Keys are queued by use, so the first one in use ends the search.
    fn remove_expired(&mut self, idle: Duration) {
        while let Some((&queued, key)) = self.queue.first_key_value() {
            let Some(entry) = self.entries.get_mut(key) else {
                break;
            };
            if entry.last_use > queued {
                let last_use = entry.last_use;
                entry.queued = last_use;
                if let Some(key) = self.queue.remove(&queued) {
                    self.queue.insert(last_use, key);
                }
            } else if entry.used_at.elapsed() > idle {
                let key = key.clone();
                self.remove(&key);
            } else {
                break;
            }
        }
    }
}
