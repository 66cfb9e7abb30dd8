//! Bounded map with approximate least-recently-used eviction. The map keeps two generations and
//! moves an entry of the older one to the younger one on use.
//!
//! A look-up costs little more than one in a `HashMap`. Use this map for keys looked up at each boundary of
//! a history, or often within a request. For values that are weighted by size or expire by time, the program
//! has a cache that all callers share.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::{Mutex, MutexGuard};

use crate::collections::CacheHashState;

/// Cache of at most twice `generation_size` values, which always include the `generation_size`
/// values used last.
#[derive(Debug)]
pub struct TwoGenerationCache<K, V> {
    young: HashMap<K, V, CacheHashState>,
    old: HashMap<K, V, CacheHashState>,
    generation_size: usize,
}

impl<K: Eq + Hash, V: Clone> TwoGenerationCache<K, V> {
    /// Creates an empty cache.
    pub fn new(per_generation: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), generation_size: per_generation }
    }

    /// Returns the value of `key` and marks it as used.
    pub fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    /// Stores `value` under `key`, replacing any previous value.
    pub fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.generation_size && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    /// Returns all keys, in no order. Counts as no use.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.young.keys().chain(self.old.keys())
    }

    /// Removes all values and frees their memory.
    pub fn clear(&mut self) {
        self.young = HashMap::default();
        self.old = HashMap::default();
    }
}

/// A [`TwoGenerationCache`] behind a lock, with `GENERATION_SIZE` values in a generation.
#[derive(Debug)]
pub struct LockedCache<K, V, const GENERATION_SIZE: usize>(Mutex<TwoGenerationCache<K, V>>);

impl<K: Eq + Hash, V: Clone, const SIZE: usize> Default for LockedCache<K, V, SIZE> {
    fn default() -> Self {
        Self(Mutex::new(TwoGenerationCache::new(SIZE)))
    }
}

impl<K, V, const SIZE: usize> LockedCache<K, V, SIZE> {
    /// Locks the cache.
    pub fn lock(&self) -> MutexGuard<'_, TwoGenerationCache<K, V>> {
        self.0.lock()
    }
}

/// Number of separately locked shards.
const SHARD_COUNT: usize = 16;

/// A [`TwoGenerationCache`] split into shards by key, a keyed hash with evenly distributed bits. Eviction order is
/// per shard.
#[derive(Debug)]
pub(crate) struct ShardedCache<V> {
    shards: [Mutex<TwoGenerationCache<u64, V>>; SHARD_COUNT],
}

impl<V: Clone> ShardedCache<V> {
    /// Creates an empty cache of at most `2 * per_generation` values.
    pub(crate) fn new(per_generation: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| {
                Mutex::new(TwoGenerationCache::new(per_generation / SHARD_COUNT))
            }),
        }
    }

    /// Returns the value of `key` and marks it as used.
    pub(crate) fn get(&self, key: u64) -> Option<V> {
        self.shard(key).get(&key)
    }

    /// Stores `value` under `key`, replacing any previous value.
    pub(crate) fn insert(&self, key: u64, value: V) {
        self.shard(key).insert(key, value);
    }

    /// Removes all values and frees their memory.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear();
        }
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, TwoGenerationCache<u64, V>> {
        let [first, ..] = &self.shards;
        self.shards.get((key >> 32) as usize % SHARD_COUNT).unwrap_or(first).lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_recently_used_values_within_a_bounded_size() {
        let mut cache = TwoGenerationCache::new(10);
        for number in 0..100 {
            cache.insert(number, number);
            assert_eq!(cache.get(&0), Some(0));
        }
        assert!((91..100).all(|number| cache.get(&number) == Some(number)));
        assert!(cache.young.len() + cache.old.len() <= 20);
        assert_eq!(cache.get(&50), None);
    }

    #[test]
    fn insert_replaces_the_earlier_value_of_a_key() {
        let mut cache = TwoGenerationCache::new(1);
        cache.insert("a", 1);
        cache.insert("b", 2);
        cache.insert("a", 3);
        assert_eq!(cache.get("b"), Some(2));
        assert_eq!(cache.get("a"), Some(3));
    }
}

#[cfg(test)]
mod sharded_cache_tests {
    use super::*;

    #[test]
    fn keeps_used_values_within_a_bounded_size() {
        let cache = ShardedCache::<u64>::new(1_600);
        let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for number in 0..10_000 {
            cache.insert(key(number), number);
            assert_eq!(cache.get(key(0)), Some(0));
        }
        let found = (0..10_000).filter(|&number| cache.get(key(number)).is_some());
        let found = found.count();
        assert!((800..=3_200).contains(&found), "{found}");
    }
}
