//! Records and marks in memory: bounded, first writer wins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use super::counts::CountCache;
use super::far::NoteName;
use super::format::SealTag;
use crate::rewrite::chain::{PrefixKeys, RecordKey};
use crate::rewrite::generations::ShardedCache;
use crate::rewrite::record::{CompactionRecord, PriorRecords};

/// What a record weighs beside its texts: key, numbers, the cache's own bookkeeping.
const ENTRY_OVERHEAD_BYTES: u32 = 512;
/// Of how many prefixes it is remembered that they were met, and of as many again that were used
/// less lately: at some 50 bytes each, 26 MB at the most.
const MAX_SEEN: usize = 262_144;
/// How many conversations are remembered of which a rewrite was refused.
const MAX_REFUSED: u64 = 4_096;
/// Of how many models for each of them.
const MAX_REFUSING_MODELS: usize = 16;

/// What this process remembers. The least recently used go first: by the cache's usual policy a new
/// record would have to be asked for more often than an old one before it is kept at all.
pub(super) struct MemoryStore {
    pub(super) records: Cache<RecordKey, Arc<CachedRecord>>,
    seen: ShardedCache<RecordKey, ()>,
    /// Prefixes of which an upstream refused what we made of them, and took the original, with the
    /// models that did. None are named where another process met it: that may have been any.
    refused: Cache<RecordKey, Vec<NoteName>>,
    /// Prefixes at which a model took a rewrite after that, and how much of it. Of this process alone:
    /// another, or this one after a restart, is refused once more before it knows.
    tolerances: Cache<(RecordKey, NoteName), RewriteTolerance>,
    /// Whether there was ever a record, and a refusal: most conversations need neither, and each
    /// would be looked for at every boundary of every request.
    ever_stored: EverStored,
    pub(super) counts: CountCache,
}

/// What a model takes of what we make of a conversation, as far as it has shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RewriteTolerance {
    /// Nothing was refused, or it was taken since.
    All,
    /// It was refused, and taken since without a summary.
    ClearingOnly,
    /// It was refused.
    Nothing,
}

/// What there was since the start. Set before anything of it can be found.
#[derive(Default)]
struct EverStored {
    records: AtomicBool,
    refusals: AtomicBool,
}

/// A record with its one mutable bit, which only ever goes to true.
pub(super) struct CachedRecord {
    pub(super) record: Arc<CompactionRecord>,
    /// The same bit for whatever record takes this one's place.
    adopted: Arc<AtomicBool>,
    /// What the far tier has it sealed with. Without it the record is provisional: the far tier has
    /// not said yet whose stays.
    confirmed_tag: Option<SealTag>,
}

impl CachedRecord {
    pub(super) fn is_adopted(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed_tag.is_some()
    }
}

/// What came of holding a record of the far tier against what is here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MergeOutcome {
    /// It is what is here now. Here it was adopted, and there it is not yet.
    AdoptedHereOnly,
    /// It is what is here now.
    Merged,
    /// It cannot be read. What was here is left as it was.
    Unreadable,
}

impl MemoryStore {
    /// Nothing yet, with room for records of `bytes` in all, each kept for `idle` from its last use.
    pub(super) fn new(bytes: u64, idle: Duration) -> Self {
        let records = Cache::builder()
            .max_capacity(bytes)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, kept: &Arc<CachedRecord>| weight(&kept.record))
            .time_to_idle(idle)
            .build();
        Self {
            records,
            seen: ShardedCache::new(MAX_SEEN),
            refused: Cache::new(MAX_REFUSED),
            tolerances: Cache::new(MAX_REFUSED),
            ever_stored: EverStored::default(),
            counts: CountCache::default(),
        }
    }

    /// What is known of a conversation.
    pub(super) fn prior_records(&self, chains: &PrefixKeys) -> PriorRecords {
        let has_records = self.ever_stored.records.load(Ordering::Acquire);
        PriorRecords::look_up(
            chains,
            |key| {
                if !has_records {
                    return None;
                }
                let kept = self.records.get(&key)?;
                Some((kept.is_adopted(), Arc::clone(&kept.record)))
            },
            |key| self.seen.get(&key).is_some(),
        )
    }

    /// The prefixes of a conversation of which a far tier may know more, newest first: down to the
    /// prefix that the deepest record in use was made for which it has confirmed. That one is the last
    /// of them, so that it stays in use there too.
    pub(super) fn keys_to_refresh(&self, chains: &PrefixKeys) -> Vec<RecordKey> {
        let mut keys = Vec::new();
        let mut deepest = 0;
        for (at, key) in chains.newest_first() {
            if at < deepest {
                break;
            }
            keys.push(key);
            let kept = self.records.get(&key);
            if let Some(kept) = kept.filter(|kept| kept.is_confirmed() && kept.is_adopted())
                && kept.record.keeps_newest_unit(chains)
                && kept.record.model == chains.model()
            {
                deepest = deepest.max(kept.record.prefix_end(at, chains.head_len()));
            }
        }
        keys
    }

    /// Keeps a record, unless one is there; says which one is kept.
    pub(super) fn insert_if_absent(
        &self,
        key: RecordKey,
        record: CompactionRecord,
    ) -> Arc<CachedRecord> {
        self.ever_stored.records.store(true, Ordering::Release);
        let entry = self.records.entry(key).or_insert_with(|| {
            Arc::new(CachedRecord {
                record: Arc::new(record),
                adopted: Arc::default(),
                confirmed_tag: None,
            })
        });
        entry.into_value()
    }

    /// Keeps a record with which a request has been accepted, unless one is there: that is taken to
    /// have been accepted, if it is the same model's. Says which one is kept, and whether it is so.
    pub(super) fn adopt(
        &self,
        key: RecordKey,
        record: CompactionRecord,
    ) -> (Arc<CachedRecord>, bool) {
        let model = record.model.clone();
        let kept = self.insert_if_absent(key, record);
        let is_accepted = kept.record.model == model;
        if is_accepted {
            kept.adopted.store(true, Ordering::Release);
        }
        (kept, is_accepted)
    }

    /// The record that the far tier has, sealed with `check`, takes the place of what is here.
    pub(super) fn merge_record(
        &self,
        key: RecordKey,
        check: SealTag,
        adopted: bool,
        open: impl FnOnce() -> Option<CompactionRecord>,
    ) -> MergeOutcome {
        self.ever_stored.records.store(true, Ordering::Release);
        let mut outcome = MergeOutcome::Merged;
        self.records.entry(key).and_compute_with(|entry| {
            let here = entry.map(moka::Entry::into_value);
            let bit = here.as_ref().map(|kept| Arc::clone(&kept.adopted));
            let bit = bit.unwrap_or_default();
            if here
                .as_ref()
                .is_some_and(|kept| kept.confirmed_tag == Some(check))
            {
                outcome = merge_adopted(&bit, adopted);
                return Op::Nop;
            }
            let Some(record) = open() else {
                outcome = MergeOutcome::Unreadable;
                return Op::Nop;
            };
            outcome = merge_adopted(&bit, adopted);
            Op::Put(Arc::new(CachedRecord {
                record: Arc::new(record),
                adopted: bit,
                confirmed_tag: Some(check),
            }))
        });
        outcome
    }

    /// The record under a key.
    pub(super) fn get(&self, key: RecordKey) -> Option<Arc<CachedRecord>> {
        self.records.get(&key)
    }

    /// A request that ends at this prefix has been through here.
    pub(super) fn mark_seen(&self, key: RecordKey) {
        self.seen.insert(key, ());
    }

    /// A model does not take what we made of the conversation with this prefix.
    pub(super) fn record_rewrite_refusal(&self, key: RecordKey, model: NoteName) {
        self.ever_stored.refusals.store(true, Ordering::Release);
        self.tolerances.invalidate(&(key, model));
        let mut models = self.refused.get(&key).unwrap_or_default();
        if models.len() < MAX_REFUSING_MODELS && !models.contains(&model) {
            models.push(model);
            self.refused.insert(key, models);
        }
    }

    /// The same, met by another process with a model that it does not name.
    pub(super) fn record_remote_refusal(&self, key: RecordKey) {
        self.ever_stored.refusals.store(true, Ordering::Release);
        self.refused.entry(key).or_default();
    }

    /// Whether it was refused at this very prefix.
    pub(super) fn is_refused_at(&self, key: RecordKey) -> bool {
        self.refused.contains_key(&key)
    }

    /// A model took that much of what we made of a conversation, having refused it before.
    pub(super) fn record_rewrite_acceptance(
        &self,
        key: RecordKey,
        model: NoteName,
        takes: RewriteTolerance,
    ) {
        self.tolerances.insert((key, model), takes);
    }

    /// What the model takes of a conversation: what it showed at the longest of its prefixes counts.
    pub(super) fn rewrite_tolerance(
        &self,
        chains: &PrefixKeys,
        model: impl FnOnce() -> NoteName,
    ) -> RewriteTolerance {
        if !self.ever_stored.refusals.load(Ordering::Acquire) {
            return RewriteTolerance::All;
        }
        let model = model();
        let mut prefixes = chains.newest_first().map(|(_, key)| key);
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

/// Takes over that a record is adopted; says whether only this process knows that it is.
fn merge_adopted(bit: &AtomicBool, adopted: bool) -> MergeOutcome {
    if adopted {
        bit.store(true, Ordering::Release);
        MergeOutcome::Merged
    } else if bit.load(Ordering::Acquire) {
        MergeOutcome::AdoptedHereOnly
    } else {
        MergeOutcome::Merged
    }
}

fn weight(record: &CompactionRecord) -> u32 {
    let texts = [&record.text, &record.summary, &record.previous_summary];
    let bytes: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
    let clips = record.clips.len() * size_of::<crate::rewrite::record::Clip>();
    u32::try_from(bytes + clips + record.model.len())
        .unwrap_or(u32::MAX)
        .saturating_add(ENTRY_OVERHEAD_BYTES)
}
