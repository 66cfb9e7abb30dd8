//! Generations for many workers at once: parts that are locked apart, so that they seldom wait for
//! each other.

use super::Generations;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts that are locked apart.
const PARTS: usize = 16;

/// What [`Generations`] keeps, about, in parts by the hashes of the keys.
#[derive(Debug)]
pub(crate) struct Shards<K, V, S = RandomState> {
    hashes: S,
    parts: [Mutex<Generations<K, V, S>>; PARTS],
}

impl<K: Eq + Hash, V: Clone, S: BuildHasher + Default> Shards<K, V, S> {
    /// None yet, and at most twice `most` at any time.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            hashes: S::default(),
            parts: std::array::from_fn(|_| Mutex::new(Generations::new(most / PARTS))),
        }
    }

    /// What is kept under `key`; it counts as used.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.part(key).get(key)
    }

    /// Keeps `value`, and forgets what was kept under `key`.
    pub(crate) fn insert(&self, key: K, value: V) {
        self.part(&key).insert(key, value);
    }

    fn part(&self, key: &K) -> MutexGuard<'_, Generations<K, V, S>> {
        // The table of a part goes by the lowest and the highest bits.
        let at = (self.hashes.hash_one(key) >> 40) as usize % PARTS;
        let [first, ..] = &self.parts;
        // Nothing in a part is half done when a worker panics but a value that is then not found.
        let part = self.parts.get(at).unwrap_or(first).lock();
        part.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_what_is_used_stays() {
        let kept = Shards::<u64, u64>::new(1_600);
        for number in 0..10_000 {
            kept.insert(number, number);
            assert_eq!(kept.get(&0), Some(0));
        }
        let known = (0..10_000).filter(|number| kept.get(number).is_some());
        let known = known.count();
        assert!((800..=3_200).contains(&known), "{known}");
    }
}
