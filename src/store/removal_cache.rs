//! Removals of bound thinking, found again by the conversation's prefixes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::store::durable::NoteName;
use longhaul_core::policy::thinking_removal::{PriorRemovals, ThinkingRemoval};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::RecordKey;

/// Bytes of all removals. A conversation adds one removal for each compaction: at least 11,000 fit.
const MAX_REMOVAL_BYTES: u64 = 16 << 20;
/// Removals at one prefix and for one model. Processes that plan alike store the same one.
const MAX_REMOVALS: usize = 8;
/// Prefixes with removals of one scope: a quarter of all, so that no caller displaces those of others.
const MAX_PER_SCOPE: usize = 2_900;
/// Prefixes whose order is remembered, a little more than the cache has room for.
const MAX_ORDERED: usize = 4 * MAX_PER_SCOPE + 1_024;
/// Bytes of one removal at most: 64 ranges of 16 bytes, the edits and the allocation.
const REMOVAL_BYTES: u32 = 1_152;
/// Bytes of an entry without its removals: the key, and the bookkeeping of the cache.
const ENTRY_OVERHEAD_BYTES: u32 = 256;

/// A removal in the durable store, with the note name of its model.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredRemoval {
    model: u64,
    removal: Arc<ThinkingRemoval>,
}

impl StoredRemoval {
    pub(super) fn new(model: NoteName, removal: Arc<ThinkingRemoval>) -> Self {
        let model = u64::from_le_bytes(model.0);
        Self { model, removal }
    }
}

/// The prefix that a request was, and its model.
type EntryKey = (RecordKey, NoteName);

/// The order in which entries were made, by which each scope loses its oldest.
#[derive(Default)]
struct EntryOrder(VecDeque<EntryKey>);

impl EntryOrder {
    /// Adds an entry. Returns the oldest entry of the same scope if the scope has too many now.
    fn push(&mut self, entry: EntryKey) -> Option<EntryKey> {
        let scope = entry.0.scope();
        self.0.push_back(entry);
        if self.0.len() > MAX_ORDERED {
            self.0.pop_front();
        }
        let is_own = |other: &EntryKey| other.0.scope() == scope;
        let own = self.0.iter().filter(|other| is_own(other)).count();
        let oldest = self.0.iter().position(is_own)?;
        (own > MAX_PER_SCOPE).then(|| self.0.remove(oldest))?
    }
}

/// Removals by the prefix that each request was and by its model. A removal never changes: several
/// of one prefix unite.
pub(super) struct RemovalCache {
    by_prefix: Cache<EntryKey, Arc<[Arc<ThinkingRemoval>]>>,
    order: Mutex<EntryOrder>,
    /// Whether there was ever a removal. Most processes have none, so the flag saves a look-up at
    /// every boundary of a request.
    ever_stored: AtomicBool,
}

impl RemovalCache {
    /// Creates an empty cache that keeps removals for `idle` after their last use.
    pub(super) fn new(idle: Duration) -> Self {
        let by_prefix = Cache::builder()
            .max_capacity(MAX_REMOVAL_BYTES)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, removals: &Arc<[Arc<ThinkingRemoval>]>| weight(removals.len()))
            .time_to_idle(idle)
            .build();
        Self {
            by_prefix,
            order: Mutex::default(),
            ever_stored: AtomicBool::default(),
        }
    }

    /// Returns the removals of a conversation, for requests to `model`.
    pub(super) fn look_up(&self, prefix_keys: &PrefixKeys, model: NoteName) -> PriorRemovals {
        if !self.ever_stored.load(Ordering::Acquire) {
            return PriorRemovals::default();
        }
        PriorRemovals::look_up(prefix_keys, |key| {
            let removals = self.by_prefix.get(&(key, model));
            removals.map(|it| it.to_vec()).unwrap_or_default()
        })
    }

    /// Adds a removal. Returns whether it was new.
    pub(super) fn insert(
        &self,
        key: RecordKey,
        model: NoteName,
        removal: Arc<ThinkingRemoval>,
    ) -> bool {
        self.ever_stored.store(true, Ordering::Release);
        let (mut is_new, mut is_first) = (false, false);
        self.by_prefix
            .entry((key, model))
            .and_compute_with(|entry| {
                is_first = entry.is_none();
                let entry = entry.map(moka::Entry::into_value);
                let mut removals = entry.map(|it| it.to_vec()).unwrap_or_default();
                if removals.contains(&removal) {
                    return Op::Nop;
                }
                is_new = true;
                // The newest edits are the most likely to be looked for.
                if removals.len() == MAX_REMOVALS {
                    removals.remove(0);
                }
                removals.push(removal);
                Op::Put(removals.into())
            });
        let displaced = is_first.then(|| self.order.lock().push((key, model)));
        if let Some(oldest) = displaced.flatten() {
            self.by_prefix.invalidate(&oldest);
        }
        is_new
    }

    /// Adds a removal that another process stored.
    pub(super) fn merge(&self, key: RecordKey, stored: StoredRemoval) {
        let model = NoteName(stored.model.to_le_bytes());
        self.insert(key, model, stored.removal);
    }
}

/// Returns the bytes of an entry with so many removals.
fn weight(removals: usize) -> u32 {
    let count = u32::try_from(removals).unwrap_or(u32::MAX);
    ENTRY_OVERHEAD_BYTES.saturating_add(REMOVAL_BYTES.saturating_mul(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::units::scope::Scope;

    fn key(caller: u8, number: usize) -> RecordKey {
        Scope::new(&[caller; 32], &[]).named_key(&number.to_string())
    }

    #[test]
    fn a_caller_with_too_many_removals_loses_its_own_oldest_ones() {
        let cache = RemovalCache::new(Duration::from_mins(1));
        let model = NoteName([0; 8]);
        let insert = |key| cache.insert(key, model, Arc::default());
        assert!(insert(key(1, 0)));
        for number in 0..=MAX_PER_SCOPE {
            assert!(insert(key(2, number)));
        }
        let is_kept = |key| cache.by_prefix.contains_key(&(key, model));
        assert!(is_kept(key(1, 0)));
        assert!(!is_kept(key(2, 0)));
        assert!(is_kept(key(2, 1)) && is_kept(key(2, MAX_PER_SCOPE)));
    }
}
