//! A two-generation cache for concurrent use, split into shards with separate locks to reduce
//! contention.

use crate::collections::two_generation_cache::TwoGenerationCache;
use parking_lot::Mutex;
use parking_lot::MutexGuard;
use std::hash::Hash;

/// Number of separately locked shards.
const SHARD_COUNT: usize = 16;

/// A key with evenly distributed bits, because it is a keyed hash.
pub trait ShardKey {
    /// Returns some bits of the key, which select the shard.
    fn shard_bits(&self) -> usize;
}

impl ShardKey for u64 {
    fn shard_bits(&self) -> usize {
        (*self >> 32) as usize
    }
}

/// A pair is sharded by its first element.
impl<K: ShardKey, T> ShardKey for (K, T) {
    fn shard_bits(&self) -> usize {
        self.0.shard_bits()
    }
}

/// A [`TwoGenerationCache`] split into shards by key. Eviction order is per shard.
#[derive(Debug)]
pub struct ShardedCache<K, V> {
    shards: [Mutex<TwoGenerationCache<K, V>>; SHARD_COUNT],
}

impl<K: Eq + Hash + ShardKey, V: Clone> ShardedCache<K, V> {
    /// Creates an empty cache of at most `2 * per_generation` values.
    pub fn new(per_generation: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| {
                Mutex::new(TwoGenerationCache::new(per_generation / SHARD_COUNT))
            }),
        }
    }

    /// Returns the value of `key` and marks it as used.
    pub fn get(&self, key: &K) -> Option<V> {
        self.shard(key).get(key)
    }

    /// Stores `value` under `key`, replacing any previous value.
    pub fn insert(&self, key: K, value: V) {
        self.shard(&key).insert(key, value);
    }

    /// Removes all values and frees their memory.
    pub fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear();
        }
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, TwoGenerationCache<K, V>> {
        let [first, ..] = &self.shards;
        self.shards
            .get(key.shard_bits() % SHARD_COUNT)
            .unwrap_or(first)
            .lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_used_values_within_a_bounded_size() {
        let cache = ShardedCache::<u64, u64>::new(1_600);
        let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for number in 0..10_000 {
            cache.insert(key(number), number);
            assert_eq!(cache.get(&key(0)), Some(0));
        }
        let found = (0..10_000).filter(|&number| cache.get(&key(number)).is_some());
        let found = found.count();
        assert!((800..=3_200).contains(&found), "{found}");
    }
}
