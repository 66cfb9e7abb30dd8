//! What the requests of each conversation were counted as, found again by their prefixes.

use serde::{Deserialize, Serialize};

use super::far::NoteName;
use crate::rewrite::chain::{PrefixKeys, RecordKey};
use crate::rewrite::generations::{ShardKey, ShardedCache};
use crate::rewrite::window::count::{CountSample, TokenRatio};

/// How many requests are remembered with their counts, and as many again that were asked for less
/// lately: at some 80 bytes each, 10 MB at the most.
const COUNTS_PER_GENERATION: usize = 65_536;
/// How many boundaries back a count is looked for. A request that was answered lies a step or two
/// back; behind a fork or an undo, a few more.
const MAX_LOOKBACK: usize = 64;

/// What one request was counted as, and what its model's average was then: the marks of its
/// conversation hang on both, and must stand where they stood on another replica too.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountedRequest {
    /// The request.
    pub(crate) pair: CountSample,
    /// The average with it.
    pub(crate) density: Option<TokenRatio>,
}

/// The counts of requests, by the prefix that each of them was and the model that counted it.
/// Names of models are not kept: a client may send any, of any length.
pub(super) struct CountCache {
    by_prefix: ShardedCache<(RecordKey, NoteName), CountedRequest>,
}

impl ShardKey for (RecordKey, NoteName) {
    fn shard_bits(&self) -> usize {
        self.0.shard_bits()
    }
}

impl Default for CountCache {
    fn default() -> Self {
        Self {
            by_prefix: ShardedCache::new(COUNTS_PER_GENERATION),
        }
    }
}

impl CountCache {
    /// The newest of a conversation.
    pub(super) fn newest(&self, chains: &PrefixKeys, model: NoteName) -> Option<CountedRequest> {
        let mut keys = chains.newest_first().take(MAX_LOOKBACK);
        keys.find_map(|(_, key)| self.by_prefix.get(&(key, model)))
    }

    /// Remembers one.
    pub(super) fn insert(&self, key: RecordKey, model: NoteName, counted: CountedRequest) {
        self.by_prefix.insert((key, model), counted);
    }
}
