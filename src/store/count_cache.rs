//! Provider counts of requests, found again by the conversation's prefixes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::FairCache;
use crate::store::durable::NoteName;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::RecordKey;
use longhaul_core::window::token_ratio::{CountSample, TokenRatio};

/// Number of counts. At some 300 bytes each, they take at most 20 MB.
const MAX_COUNTS: u64 = 65_536;
/// Maximum boundaries to search back for a count. The last answered request lies one or two
/// boundaries back; after a fork or an undo, a few more.
const MAX_LOOKBACK: usize = 64;

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
pub(super) struct CountCache {
    by_prefix: FairCache<(RecordKey, NoteName), CountedRequest>,
}

impl CountCache {
    /// Creates an empty cache that keeps counts for `idle` after their last use.
    pub(super) fn new(idle: Duration, accepted: &Arc<AcceptedCallers>) -> Self {
        Self {
            by_prefix: FairCache::of_entries(MAX_COUNTS, idle, accepted),
        }
    }

    /// Returns the newest count of a conversation, if any.
    pub(super) fn newest(
        &self,
        prefix_keys: &PrefixKeys,
        model: NoteName,
    ) -> Option<CountedRequest> {
        let mut keys = prefix_keys.newest_first().take(MAX_LOOKBACK);
        keys.find_map(|(_, key)| self.by_prefix.get(&(key, model)))
    }

    pub(super) fn insert(&self, key: RecordKey, model: NoteName, counted: CountedRequest) {
        self.by_prefix.insert((key, model), counted);
    }
}
