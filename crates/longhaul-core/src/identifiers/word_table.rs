//! Set of words, each with a number in the order of insertion.

use crate::collections::CacheHashState;
use std::hash::{BuildHasher, Hasher};

/// Slots of the smallest table that holds words.
const MIN_SLOTS: usize = 64;

/// Distinct words in one buffer, found by a keyed hash.
#[derive(Default)]
pub(super) struct WordTable {
    text: String,
    words: Vec<StoredWord>,
    /// Numbers of words plus one, each at the first free slot from that of its hash on; zero for a free slot.
    /// The length is a power of two, or zero. At least half of the slots are free.
    slots: Vec<u32>,
    hash_state: CacheHashState,
}

/// A word of the table.
struct StoredWord {
    hash: u64,
    start: usize,
    end: usize,
}

impl WordTable {
    /// Returns the number of `word`, or `None` if the table does not hold it.
    pub(super) fn find(&self, word: &str) -> Option<usize> {
        let hash = self.hash(word);
        for slot in self.probes(hash) {
            let number = self.slots.get(slot)?.checked_sub(1)? as usize;
            let stored = self.words.get(number)?;
            if stored.hash == hash && self.slice(stored) == word.as_bytes() {
                return Some(number);
            }
        }
        None
    }

    /// Adds a word that the table does not hold.
    pub(super) fn insert(&mut self, word: &str) {
        if self.slots.len() <= 2 * self.words.len() {
            self.grow();
        }
        let hash = self.hash(word);
        let start = self.text.len();
        self.text.push_str(word);
        self.words.push(StoredWord {
            hash,
            start,
            end: self.text.len(),
        });
        self.occupy(hash, self.words.len());
    }

    /// Returns all words, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let words = self.words.iter();
        words.map(|word| self.text.get(word.start..word.end).unwrap_or_default())
    }

    fn hash(&self, word: &str) -> u64 {
        let mut hasher = self.hash_state.build_hasher();
        hasher.write(word.as_bytes());
        hasher.finish()
    }

    fn slice(&self, word: &StoredWord) -> &[u8] {
        let text = self.text.as_bytes();
        text.get(word.start..word.end).unwrap_or_default()
    }

    /// Returns the slots to search for a hash.
    fn probes(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let last = self.slots.len().wrapping_sub(1);
        let first = usize::try_from(hash & u64::from(u32::MAX)).unwrap_or_default();
        (0..self.slots.len()).map(move |step| first.wrapping_add(step) & last)
    }

    fn grow(&mut self) {
        let count = (4 * self.words.len()).next_power_of_two().max(MIN_SLOTS);
        self.slots = vec![0; count];
        for number in 1..=self.words.len() {
            if let Some(word) = self.words.get(number - 1) {
                self.occupy(word.hash, number);
            }
        }
    }

    fn occupy(&mut self, hash: u64, number: usize) {
        let free = self
            .probes(hash)
            .find(|&slot| self.slots.get(slot) == Some(&0));
        if let Some(slot) = free.and_then(|slot| self.slots.get_mut(slot)) {
            *slot = u32::try_from(number).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_found_by_its_number() {
        let mut table = WordTable::default();
        assert_eq!(table.find("word 0"), None);
        let word = |at: usize| format!("word {at}");
        for at in 0..1_000 {
            assert_eq!(table.find(&word(at)), None);
            table.insert(&word(at));
            assert!(table.slots.len() >= 2 * table.words.len());
        }
        for at in 0..1_000 {
            assert_eq!(table.find(&word(at)), Some(at));
        }
        assert_eq!(table.find("word"), None);
        assert!(table.iter().eq((0..1_000).map(word)));
    }

    #[test]
    fn words_of_one_hash_are_told_apart() {
        let mut table = WordTable::default();
        for word in ["one", "two", "three"] {
            table.insert(word);
        }
        // All words take the slots from one on.
        for word in &mut table.words {
            word.hash = 7;
        }
        table.grow();
        let stored: Vec<&str> = table.iter().collect();
        assert_eq!(stored, ["one", "two", "three"]);
        let taken = table.slots.iter().skip(7).take(4);
        assert_eq!(taken.copied().collect::<Vec<_>>(), [1, 2, 3, 0]);
    }
}
