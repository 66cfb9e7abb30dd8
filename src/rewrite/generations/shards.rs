//! Generations for many workers at once: parts that are locked apart, so that they seldom wait for
//! each other.

use super::TwoGenerationCache;
use crate::lock::Mutex;
use foldhash::fast::RandomState;
use std::hash::Hash;
use std::sync::MutexGuard;

/// Parts that are locked apart.
const SHARD_COUNT: usize = 16;

/// A key that is spread evenly by itself, being a hash that was made with a secret.
pub(crate) trait ShardKey {
    /// Some bits of it.
    fn shard_bits(&self) -> usize;
}

impl ShardKey for u64 {
    fn shard_bits(&self) -> usize {
        (*self >> 32) as usize
    }
}

/// One part. Its keys are hashed under a secret once more, but cheaply: they are hashes already.
type Shard<K, V> = TwoGenerationCache<K, V, RandomState>;

/// What [`Generations`] keeps, about, in parts by their keys.
#[derive(Debug)]
pub(crate) struct ShardedCache<K, V> {
    shards: [Mutex<Shard<K, V>>; SHARD_COUNT],
}

impl<K: Eq + Hash + ShardKey, V: Clone> ShardedCache<K, V> {
    /// None yet, and at most twice `most` at any time.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| {
                Mutex::new(TwoGenerationCache::new(most / SHARD_COUNT))
            }),
        }
    }

    /// What is kept under `key`; it counts as used.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.shard(key).get(key)
    }

    /// Keeps `value`, and forgets what was kept under `key`.
    pub(crate) fn insert(&self, key: K, value: V) {
        self.shard(&key).insert(key, value);
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K, V>> {
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
    fn what_is_kept_is_bounded_and_what_is_used_stays() {
        let kept = ShardedCache::<u64, u64>::new(1_600);
        let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for number in 0..10_000 {
            kept.insert(key(number), number);
            assert_eq!(kept.get(&key(0)), Some(0));
        }
        let known = (0..10_000).filter(|&number| kept.get(&key(number)).is_some());
        let known = known.count();
        assert!((800..=3_200).contains(&known), "{known}");
    }
}
