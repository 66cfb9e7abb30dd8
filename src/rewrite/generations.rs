//! A map of bounded size that forgets what was not used for longest, nearly: it keeps two
//! generations, and what is used of the older one moves to the younger.
//!
//! A look takes little more than one into a `HashMap`, where one into moka's caches takes some 1,000
//! instructions: this is for what is looked up at each boundary of a history, or often in a request.
//! Moka's are for what weighs by its size, is let go in time or is changed by many in one step, and
//! for what is seldom looked up.

mod shards;

pub(crate) use shards::{ShardKey, ShardedCache};

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// At most twice `most` values; the `most` that were used last are always among them.
#[derive(Debug)]
pub(crate) struct TwoGenerationCache<K, V, S = RandomState> {
    young: HashMap<K, V, S>,
    old: HashMap<K, V, S>,
    generation_size: usize,
}

impl<K: Eq + Hash, V: Clone, S: BuildHasher + Default> TwoGenerationCache<K, V, S> {
    /// None yet.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            young: HashMap::default(),
            old: HashMap::default(),
            generation_size: most,
        }
    }

    /// What is kept under `key`; it counts as used.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
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

    /// Keeps `value`, and forgets what was kept under `key`.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.generation_size && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_kept_and_the_rest_is_bounded() {
        let mut kept = TwoGenerationCache::<_, _>::new(10);
        for number in 0..100 {
            kept.insert(number, number);
            assert_eq!(kept.get(&0), Some(0));
        }
        assert!((91..100).all(|number| kept.get(&number) == Some(number)));
        assert!(kept.young.len() + kept.old.len() <= 20);
        assert_eq!(kept.get(&50), None);
    }

    #[test]
    fn a_value_takes_the_place_of_the_one_before() {
        let mut kept = TwoGenerationCache::<_, _>::new(1);
        kept.insert("a", 1);
        kept.insert("b", 2);
        kept.insert("a", 3);
        assert_eq!(kept.get("b"), Some(2));
        assert_eq!(kept.get("a"), Some(3));
    }
}
