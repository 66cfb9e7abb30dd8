//! Where records live between requests: bounded, first writer wins.

mod counts;
pub(crate) mod far;
mod file;
mod format;
mod redis;
#[cfg(test)]
mod scripted;
mod tiered;

use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::record::{Known, Record};
use crate::rewrite::window::count::Pair;
use counts::Counts;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Records are kept for a week from their last use: a session left on Friday goes on on Monday.
const TIME_TO_IDLE: Duration = Duration::from_hours(7 * 24);
/// What a record weighs beside its texts: key, numbers, the cache's own bookkeeping.
const ENTRY_BYTES: u32 = 512;
/// How many prefixes are remembered as met: at about 100 bytes each, 25 MB at the most.
const SEEN: u64 = 262_144;
/// How many conversations are remembered whose rewritten form was refused.
const REFUSED: u64 = 4_096;
/// How many conversations are remembered as told of.
const TOLD: u64 = 4_096;

/// The records of this process. The least recently used go first: by the cache's usual policy a new
/// record would have to be asked for more often than an old one before it is kept at all.
pub(crate) struct Store {
    records: Cache<RecordKey, Arc<Kept>>,
    seen: Cache<RecordKey, ()>,
    /// Prefixes of which an upstream refused the form that we gave them, and took the original.
    refused: Cache<RecordKey, ()>,
    /// Conversations whose operator was told that they are not pruned, by their first prefix.
    told: Cache<RecordKey, ()>,
    counts: Counts,
}

/// A record with its one mutable bit, which only ever goes to true.
struct Kept {
    record: Arc<Record>,
    adopted: AtomicBool,
}

impl Store {
    /// An empty store that holds records of `bytes` in all.
    pub(crate) fn new(bytes: u64) -> Self {
        let records = Cache::builder()
            .max_capacity(bytes)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, kept: &Arc<Kept>| weight(&kept.record))
            .time_to_idle(TIME_TO_IDLE)
            .build();
        let seen = Cache::builder()
            .max_capacity(SEEN)
            .eviction_policy(EvictionPolicy::lru())
            .time_to_idle(TIME_TO_IDLE)
            .build();
        Self {
            records,
            seen,
            refused: Cache::new(REFUSED),
            told: Cache::new(TOLD),
            counts: Counts::default(),
        }
    }

    /// What is known of a conversation.
    pub(crate) fn known(&self, chains: &Chains) -> Known {
        Known::gather(
            chains,
            |key| {
                let kept = self.records.get(&key)?;
                Some((
                    kept.adopted.load(Ordering::Acquire),
                    Arc::clone(&kept.record),
                ))
            },
            |key| self.seen.contains_key(&key),
        )
    }

    /// Keeps a record that is not in use yet. One that is there already stays.
    pub(crate) fn keep(&self, key: RecordKey, record: Record) {
        self.insert(key, record);
    }

    /// Keeps a record with which a request has been accepted.
    pub(crate) fn adopt(&self, key: RecordKey, record: Record) {
        self.insert(key, record)
            .adopted
            .store(true, Ordering::Release);
    }

    /// A request that ends at this prefix has been through here.
    pub(crate) fn met(&self, key: RecordKey) {
        self.seen.insert(key, ());
    }

    /// The upstream does not take the form that we gave the conversation with this prefix.
    pub(crate) fn refuse_form(&self, key: RecordKey) {
        self.refused.insert(key, ());
    }

    /// Whether the form of a conversation was refused at one of its prefixes.
    pub(crate) fn is_form_refused(&self, chains: &Chains) -> bool {
        let mut prefixes = chains.newest_first();
        prefixes.any(|(_, key)| self.refused.contains_key(&key))
    }

    /// Whether this is the first time that something is told of the conversation with this prefix.
    pub(crate) fn tells_first(&self, key: RecordKey) -> bool {
        self.told.entry(key).or_insert(()).is_fresh()
    }

    /// `model` counted a request that ends at this prefix.
    pub(crate) fn count(&self, key: RecordKey, model: &str, pair: Pair) {
        self.counts.keep(key, model, pair);
    }

    /// What `model` counted last for a conversation.
    pub(crate) fn last_count(&self, chains: &Chains, model: &str) -> Option<Pair> {
        self.counts.last(chains, model)
    }

    fn insert(&self, key: RecordKey, record: Record) -> Arc<Kept> {
        self.records
            .entry(key)
            .or_insert_with(|| {
                Arc::new(Kept {
                    record: Arc::new(record),
                    adopted: AtomicBool::new(false),
                })
            })
            .into_value()
    }
}

fn weight(record: &Record) -> u32 {
    let texts = [&record.text, &record.summary, &record.previous_summary];
    let bytes: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
    let clips = record.clips.len() * size_of::<crate::rewrite::record::Clip>();
    u32::try_from(bytes + clips + record.model.len())
        .unwrap_or(u32::MAX)
        .saturating_add(ENTRY_BYTES)
}

#[cfg(test)]
mod tests;
