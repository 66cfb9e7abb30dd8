//! In-memory store of records and flags: bounded, first writer wins.

use std::sync::Arc;
use std::time::Duration;

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::FairCache;
use crate::store::durable::NoteName;
use crate::store::format::SealTag;
use crate::store::kept_texts::KeptCache;
use crate::store::prefix_caches::{CountCache, MAX_COUNTS, RemovalCache};
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::RecordKey;

/// Bytes of a record without its texts: key, numbers, and the cache's own bookkeeping.
const ENTRY_OVERHEAD_BYTES: u64 = 512;
/// Number of prefixes remembered as seen. At some 80 bytes each, they take at most 22 MB.
const MAX_SEEN: u64 = 262_144;
/// Maximum number of conversations for which a refused rewrite is remembered.
const MAX_REFUSED: u64 = 4_096;
/// Maximum number of models remembered for each of them.
const MAX_REFUSING_MODELS: usize = 16;

/// Store in the memory of this process. Evicts the least recently used entries of the caller that holds
/// the most.
pub(super) struct MemoryStore {
    pub(super) records: FairCache<RecordKey, CachedRecord>,
    pub(super) seen: FairCache<RecordKey, ()>,
    /// Prefixes at which an upstream refused a rewrite and accepted the original, with the models
    /// that did. The list is empty if another process has seen the refusal: any model may have
    /// refused.
    pub(super) refused: FairCache<RecordKey, Vec<NoteName>>,
    /// Prefixes at which a model accepted a rewrite after that, and how much of it. Not shared:
    /// another process, or this one after a restart, is refused once more first.
    pub(super) tolerances: FairCache<(RecordKey, NoteName), RewriteTolerance>,
    pub(super) counts: CountCache,
    pub(super) removals: RemovalCache,
    pub(super) kept: KeptCache,
}

/// Share of a rewrite that a model has accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RewriteTolerance {
    /// No rewrite was refused, or a whole one was accepted since.
    All,
    /// A rewrite was refused; one without a summary was accepted since.
    ClearingOnly,
    /// A rewrite was refused.
    Nothing,
}

/// A record with what the cache knows of it, in the block of the cache.
#[derive(Clone)]
pub(super) struct CachedRecord {
    pub(super) record: Arc<CompactionRecord>,
    /// Whether the record, or one that it replaced, is adopted. Only changes to true.
    pub(super) is_adopted: bool,
    /// Seal tag of the durable store's copy. `None` while the record is provisional: the durable
    /// store has not confirmed yet which record stays.
    confirmed_tag: Option<SealTag>,
}

impl CachedRecord {
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed_tag.is_some()
    }
}

/// Outcome of merging a record of the durable store into memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MergeOutcome {
    /// Memory has the record now. It is adopted here, but not yet in the durable store.
    AdoptedHereOnly,
    /// Memory has the record now.
    Merged,
    /// The record cannot be read. Memory is unchanged.
    Unreadable,
}

impl MemoryStore {
    /// Creates an empty store with room for `bytes` of records, each kept for `idle` after its last
    /// use.
    pub(super) fn new(bytes: u64, idle: Duration, accepted: &Arc<AcceptedCallers>) -> Self {
        Self {
            records: FairCache::new(bytes, idle, |kept| weight(&kept.record), accepted),
            seen: FairCache::of_entries(MAX_SEEN, idle, accepted),
            refused: FairCache::of_entries(MAX_REFUSED, idle, accepted),
            tolerances: FairCache::of_entries(MAX_REFUSED, idle, accepted),
            counts: CountCache::of_entries(MAX_COUNTS, idle, accepted),
            removals: RemovalCache::new(idle, accepted),
            kept: KeptCache::new(idle, accepted),
        }
    }

    pub(super) fn prior_records(&self, prefix_keys: &PrefixKeys) -> PriorRecords {
        PriorRecords::look_up(
            prefix_keys,
            |key| {
                let kept = self.records.get(&key)?;
                Some((kept.is_adopted, kept.record))
            },
            |key| self.seen.get(&key).is_some(),
        )
    }

    /// Returns the prefixes of a conversation for which a durable store may have newer entries,
    /// newest first.
    ///
    /// The list ends with the prefix that the deepest adopted and confirmed record was made for.
    /// That prefix is read too, so that its record stays in use in the durable store.
    pub(super) fn keys_to_refresh(&self, prefix_keys: &PrefixKeys) -> Vec<RecordKey> {
        let mut keys = Vec::new();
        let mut deepest = 0;
        for (at, key) in prefix_keys.newest_first() {
            if at < deepest {
                break;
            }
            for key in prefix_keys.record_keys(key) {
                keys.push(key);
                let kept = self.records.get(&key);
                if let Some(kept) = kept.filter(|kept| kept.is_confirmed() && kept.is_adopted)
                    && kept.record.keeps_newest_unit(prefix_keys)
                    && kept.record.model == prefix_keys.model()
                {
                    deepest = deepest.max(kept.record.prefix_end(at, prefix_keys.head_len()));
                }
            }
        }
        keys
    }

    /// Stores a record unless one exists. Returns the stored one.
    pub(super) fn insert_if_absent(
        &self,
        key: RecordKey,
        record: CompactionRecord,
    ) -> CachedRecord {
        self.records.get_or_insert_with(key, || CachedRecord {
            record: Arc::new(record),
            is_adopted: false,
            confirmed_tag: None,
        })
    }

    /// Stores a record with which a request has been accepted, unless one exists. An existing
    /// record is marked as adopted if it is the same model's. Returns the stored record, and
    /// whether it is that model's.
    pub(super) fn adopt(&self, key: RecordKey, record: CompactionRecord) -> (CachedRecord, bool) {
        let model = record.model.clone();
        let mut kept = self.insert_if_absent(key, record);
        let is_accepted = kept.record.model == model;
        if is_accepted && !kept.is_adopted {
            kept.is_adopted = true;
            self.records.update(key, |here| Some(CachedRecord { is_adopted: true, ..here? }));
        }
        (kept, is_accepted)
    }

    /// Replaces the record in memory with the durable store's, whose seal tag is `check`.
    pub(super) fn merge_record(
        &self,
        key: RecordKey,
        check: SealTag,
        adopted: bool,
        open: impl FnOnce() -> Option<CompactionRecord>,
    ) -> MergeOutcome {
        let is_same = |kept: &CachedRecord| kept.confirmed_tag == Some(check);
        // All callers share the lock of the cache, so records are opened outside.
        let opened = if self.records.get(&key).is_some_and(|kept| is_same(&kept)) {
            None
        } else {
            let Some(record) = open() else {
                return MergeOutcome::Unreadable;
            };
            Some(Arc::new(record))
        };
        let mut outcome = MergeOutcome::Merged;
        self.records.update(key, |here| {
            let was_adopted = here.as_ref().is_some_and(|kept| kept.is_adopted);
            if was_adopted && !adopted {
                outcome = MergeOutcome::AdoptedHereOnly;
            }
            let record = opened.filter(|_| !here.as_ref().is_some_and(is_same));
            let confirmed_tag = Some(check);
            let new =
                record.map(|record| CachedRecord { record, is_adopted: false, confirmed_tag });
            Some(CachedRecord { is_adopted: adopted || was_adopted, ..new.or(here)? })
        });
        outcome
    }

    pub(super) fn record_rewrite_refusal(&self, key: RecordKey, model: NoteName) {
        self.tolerances.remove(&(key, model));
        self.refused.update(key, |models| {
            let mut models = models.unwrap_or_default();
            let is_new = models.len() < MAX_REFUSING_MODELS && !models.contains(&model);
            is_new.then(|| {
                models.push(model);
                models
            })
        });
    }

    /// Records a refusal that another process has seen, by a model that it does not name.
    pub(super) fn record_remote_refusal(&self, key: RecordKey) {
        self.refused.get_or_insert_with(key, Vec::new);
    }

    /// Returns how much of a rewrite the model accepts, as learned at the longest prefix of the
    /// conversation.
    pub(super) fn rewrite_tolerance(
        &self,
        prefix_keys: &PrefixKeys,
        model: impl FnOnce() -> NoteName,
    ) -> RewriteTolerance {
        if self.refused.is_empty() {
            return RewriteTolerance::All;
        }
        let model = model();
        let mut prefixes = prefix_keys.newest_first().map(|(_, key)| key);
        let shown = prefixes.find_map(|key| {
            self.tolerances.get(&(key, model)).or_else(|| {
                let models = self.refused.get(&key)?;
                let refused = models.is_empty() || models.contains(&model);
                refused.then_some(RewriteTolerance::Nothing)
            })
        });
        shown.unwrap_or(RewriteTolerance::All)
    }
}

fn weight(record: &CompactionRecord) -> u64 {
    let item = record.provider.as_ref().map_or(&None, |it| &it.item);
    let texts = [&record.text, &record.summary, &record.previous_summary, item];
    let bytes: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
    let clips = record.clips.len() * size_of::<longhaul_core::policy::record::Clip>();
    let segments = record.segments.len() * size_of::<longhaul_core::policy::segments::Segment>();
    let bytes = u64::try_from(bytes + clips + segments + record.model.len());
    bytes.unwrap_or(u64::MAX).saturating_add(ENTRY_OVERHEAD_BYTES)
}
