//! A cache with one bound for all scopes. The scope that holds the most makes room.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Original, OriginalContent};
use longhaul_core::units::recall_id::RecallId;
use longhaul_core::units::scope::ScopeTag;

/// Bytes of an entry without its text: keys, and the bookkeeping of the cache.
const ENTRY_OVERHEAD_BYTES: u64 = 256;

/// Originals in memory. Evicts the least recently used one of the scope that holds the most.
pub(super) struct FairCache {
    max_bytes: u64,
    idle: Duration,
    shelves: Mutex<Shelves>,
}

#[derive(Default)]
struct Shelves {
    by_scope: HashMap<ScopeTag, Shelf>,
    bytes: u64,
    /// Number of uses so far, which orders them.
    uses: u64,
}

/// Originals of one scope.
#[derive(Default)]
struct Shelf {
    entries: HashMap<RecallId, CachedOriginal>,
    /// IDs by their last use, oldest first.
    order: BTreeMap<u64, RecallId>,
    bytes: u64,
}

struct CachedOriginal {
    original: Arc<Original>,
    last_use: u64,
    used_at: Instant,
    bytes: u64,
}

impl FairCache {
    /// Creates an empty cache with room for `max_bytes`, each entry kept for `idle` after its last use.
    pub(super) fn new(max_bytes: u64, idle: Duration) -> Self {
        Self {
            max_bytes,
            idle,
            shelves: Mutex::default(),
        }
    }

    /// Returns an original, and counts that as a use.
    pub(super) fn get(&self, id: RecallId) -> Option<Arc<Original>> {
        let shelves = &mut *self.shelves.lock();
        shelves.uses += 1;
        let shelf = shelves.by_scope.get_mut(&id.scope())?;
        let entry = shelf.entries.get_mut(&id)?;
        if entry.used_at.elapsed() > self.idle {
            shelves.remove(id);
            return None;
        }
        shelf.order.remove(&entry.last_use);
        shelf.order.insert(shelves.uses, id);
        (entry.last_use, entry.used_at) = (shelves.uses, Instant::now());
        Some(Arc::clone(&entry.original))
    }

    /// Counts a use of an original. Returns whether the original is there.
    pub(super) fn touch(&self, id: RecallId) -> bool {
        let Some(original) = self.get(id) else {
            return false;
        };
        // An original is there only with the units that it refers to.
        let is_there = |unit: &RecallId| self.get(*unit).is_some();
        match &original.content {
            OriginalContent::Outline(_) | OriginalContent::Text(_) => true,
            OriginalContent::Slice(unit, ..) => is_there(unit),
            OriginalContent::Units(units) => units.iter().all(is_there),
        }
    }

    /// Stores an original, in place of any with this ID.
    pub(super) fn insert(&self, id: RecallId, original: Original) {
        let shelves = &mut *self.shelves.lock();
        shelves.remove(id);
        shelves.uses += 1;
        let bytes = weight(&original);
        let shelf = shelves.by_scope.entry(id.scope()).or_default();
        shelf.order.insert(shelves.uses, id);
        let entry = CachedOriginal {
            original: Arc::new(original),
            last_use: shelves.uses,
            used_at: Instant::now(),
            bytes,
        };
        shelf.entries.insert(id, entry);
        shelf.bytes += bytes;
        shelves.bytes += bytes;
        while shelves.bytes > self.max_bytes && shelves.evict_one() {}
    }
}

impl Shelves {
    fn remove(&mut self, id: RecallId) {
        let Some(shelf) = self.by_scope.get_mut(&id.scope()) else {
            return;
        };
        if let Some(entry) = shelf.entries.remove(&id) {
            shelf.order.remove(&entry.last_use);
            shelf.bytes -= entry.bytes;
            self.bytes -= entry.bytes;
        }
        if shelf.entries.is_empty() {
            self.by_scope.remove(&id.scope());
        }
    }

    /// Removes the least recently used original of the largest scope. Returns whether there was one.
    fn evict_one(&mut self) -> bool {
        let largest = self.by_scope.values().max_by_key(|shelf| shelf.bytes);
        let oldest = largest.and_then(|shelf| shelf.order.values().next().copied());
        if let Some(oldest) = oldest {
            self.remove(oldest);
        }
        oldest.is_some()
    }
}

fn weight(original: &Original) -> u64 {
    let id = size_of::<RecallId>();
    let bytes = match &original.content {
        OriginalContent::Outline(units) => units
            .iter()
            .map(|(_, title)| id + title.len() + size_of::<String>())
            .sum(),
        OriginalContent::Slice(..) => id,
        OriginalContent::Text(text) => text.len(),
        OriginalContent::Units(units) => units.len() * id,
    };
    ENTRY_OVERHEAD_BYTES + u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(scope: u8, number: u8) -> RecallId {
        let mut bytes = [scope; RecallId::BYTES];
        bytes[31] = number;
        RecallId::from_bytes(bytes)
    }

    fn original(scope: u8) -> Original {
        Original {
            outline: id(scope, 0),
            content: OriginalContent::Text("x".repeat(744)),
        }
    }

    #[test]
    fn a_scope_that_floods_the_cache_evicts_only_its_own() {
        let cache = FairCache::new(10_000, Duration::from_mins(1));
        for number in 0..4 {
            cache.insert(id(1, number), original(1));
        }
        for number in 0..100 {
            cache.insert(id(2, number), original(2));
        }
        assert!((0..4).all(|number| cache.touch(id(1, number))));
        let left = (0..100).filter(|number| cache.touch(id(2, *number)));
        assert_eq!(left.collect::<Vec<_>>(), [94, 95, 96, 97, 98, 99]);
        assert_eq!(cache.shelves.lock().bytes, 10_000);
    }

    #[test]
    fn the_least_recently_used_original_goes_first_and_one_replaced_counts_once() {
        let cache = FairCache::new(3_000, Duration::from_mins(1));
        for number in [0, 1, 2, 2] {
            cache.insert(id(1, number), original(1));
        }
        assert!(cache.touch(id(1, 0)));
        cache.insert(id(1, 3), original(1));
        let left = (0..4).filter(|number| cache.touch(id(1, *number)));
        assert_eq!(left.collect::<Vec<_>>(), [0, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_original_expires_after_its_last_use() {
        let cache = FairCache::new(3_000, Duration::from_mins(1));
        cache.insert(id(1, 0), original(1));
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(50)).await;
            assert!(cache.touch(id(1, 0)));
        }
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(!cache.touch(id(1, 0)));
        assert_eq!(cache.shelves.lock().bytes, 0);
    }
}
