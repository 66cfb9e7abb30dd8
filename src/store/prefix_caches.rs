//! Removals of bound thinking and counts of requests, found again by the conversation's prefixes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::FairCache;
use crate::store::durable::NoteName;
use longhaul_core::policy::thinking_removal::{PriorRemovals, ThinkingRemoval};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::RecordKey;
use longhaul_core::window::token_ratio::{CountSample, TokenRatio};

/// Bytes of all removals. A conversation adds one removal for each compaction: at least 11,000 fit.
const MAX_REMOVAL_BYTES: u64 = 16 << 20;
/// Removals at one prefix and for one model. Processes that plan alike store the same one.
const MAX_REMOVALS: usize = 8;
/// Bytes of one removal at most: 64 ranges of 16 bytes, the edits and the allocation.
const REMOVAL_BYTES: u64 = 1_152;
/// Bytes of an entry without its removals: the key, and the bookkeeping of the cache.
const ENTRY_OVERHEAD_BYTES: u64 = 256;

/// A removal in the durable store, with the note name of its model.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredRemoval {
    /// The name as a number in little-endian order.
    pub(super) model: u64,
    pub(super) removal: Arc<ThinkingRemoval>,
}

/// The prefix that a request was, and its model.
pub(super) type EntryKey = (RecordKey, NoteName);

/// Removals by the prefix that each request was and by its model. A removal never changes: several
/// of one prefix unite.
pub(super) struct RemovalCache {
    by_prefix: FairCache<EntryKey, Arc<[Arc<ThinkingRemoval>]>>,
}

impl RemovalCache {
    /// Creates an empty cache that keeps removals for `idle` after their last use.
    pub(super) fn new(idle: Duration, accepted: &Arc<AcceptedCallers>) -> Self {
        let weigh = |removals: &Arc<[Arc<ThinkingRemoval>]>| weight(removals.len());
        Self { by_prefix: FairCache::new(MAX_REMOVAL_BYTES, idle, weigh, accepted) }
    }

    pub(super) fn look_up(
        &self,
        prefix_keys: &PrefixKeys,
        model: NoteName,
        counts: bool,
    ) -> PriorRemovals {
        if self.by_prefix.is_empty() {
            return PriorRemovals::default();
        }
        PriorRemovals::look_up(prefix_keys, counts, |key| {
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
        let mut is_new = false;
        self.by_prefix.update((key, model), |removals| {
            let mut removals = removals.map(|it| it.to_vec()).unwrap_or_default();
            if removals.contains(&removal) {
                return None;
            }
            is_new = true;
            // The newest edits are the most likely to be looked for.
            if removals.len() == MAX_REMOVALS {
                removals.remove(0);
            }
            removals.push(removal);
            Some(removals.into())
        });
        is_new
    }
}

fn weight(removals: usize) -> u64 {
    let count = u64::try_from(removals).unwrap_or(u64::MAX);
    ENTRY_OVERHEAD_BYTES.saturating_add(REMOVAL_BYTES.saturating_mul(count))
}

/// Number of counts. At some 140 bytes each, they take at most 10 MB.
pub(super) const MAX_COUNTS: u64 = 65_536;
/// Maximum boundaries to search back for a count. The last answered request lies one or two
/// boundaries back; after a fork or an undo, a few more.
pub(super) const MAX_LOOKBACK: usize = 64;

/// The count of one request, and its model's average ratio at that time. The thresholds of the
/// conversation depend on both, and must be equal on another replica.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountedRequest {
    /// The request's estimate and count.
    pub(crate) sample: CountSample,
    /// The model's average ratio, including this request.
    pub(crate) average_ratio: Option<TokenRatio>,
}

/// Counts of requests, by the prefix that each request was and by the model that counted it. Model
/// names are not stored: a client may send any name, of any length.
pub(super) type CountCache = FairCache<EntryKey, CountedRequest>;
