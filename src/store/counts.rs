//! What the requests of each conversation were counted as, found again by their prefixes.

use std::hash::{BuildHasher, RandomState};

use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::window::count::Pair;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

/// How many requests are remembered with their counts: at about 130 bytes each, 9 MB at the most.
const COUNTS: u64 = 65_536;
/// How many boundaries back a count is looked for. A request that was answered lies a step or two
/// back; behind a fork or an undo, a few more.
const BACK: usize = 64;

/// The counts of requests, by the prefix that each of them was and the model that counted it.
pub(super) struct Counts {
    pairs: Cache<(RecordKey, u64), Pair>,
    /// Names of models are not kept: a client may send any, of any length.
    models: RandomState,
}

impl Default for Counts {
    fn default() -> Self {
        let pairs = Cache::builder()
            .max_capacity(COUNTS)
            .eviction_policy(EvictionPolicy::lru())
            .time_to_idle(super::TIME_TO_IDLE)
            .build();
        Self {
            pairs,
            models: RandomState::new(),
        }
    }
}

impl Counts {
    /// The newest of a conversation.
    pub(super) fn last(&self, chains: &Chains, model: &str) -> Option<Pair> {
        let model = self.models.hash_one(model);
        let mut keys = chains.newest_first().take(BACK);
        keys.find_map(|(_, key)| self.pairs.get(&(key, model)))
    }

    /// Remembers one.
    pub(super) fn keep(&self, key: RecordKey, model: &str, pair: Pair) {
        self.pairs.insert((key, self.models.hash_one(model)), pair);
    }
}
