//! What the requests of each conversation were counted as, found again by their prefixes.

use serde::{Deserialize, Serialize};

use super::far::NoteName;
use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::generations::{Shards, Spread};
use crate::rewrite::window::count::{Density, Pair};

/// How many requests are remembered with their counts, and as many again that were asked for less
/// lately: at some 80 bytes each, 10 MB at the most.
const COUNTS: usize = 65_536;
/// How many boundaries back a count is looked for. A request that was answered lies a step or two
/// back; behind a fork or an undo, a few more.
const BACK: usize = 64;

/// What one request was counted as, and what its model's average was then: the marks of its
/// conversation hang on both, and must stand where they stood on another replica too.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counted {
    /// The request.
    pub(crate) pair: Pair,
    /// The average with it.
    pub(crate) density: Option<Density>,
}

/// The counts of requests, by the prefix that each of them was and the model that counted it.
/// Names of models are not kept: a client may send any, of any length.
pub(super) struct Counts {
    counted: Shards<(RecordKey, NoteName), Counted>,
}

impl Spread for (RecordKey, NoteName) {
    fn bits(&self) -> usize {
        self.0.bits()
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            counted: Shards::new(COUNTS),
        }
    }
}

impl Counts {
    /// The newest of a conversation.
    pub(super) fn last(&self, chains: &Chains, model: NoteName) -> Option<Counted> {
        let mut keys = chains.newest_first().take(BACK);
        keys.find_map(|(_, key)| self.counted.get(&(key, model)))
    }

    /// Remembers one.
    pub(super) fn keep(&self, key: RecordKey, model: NoteName, counted: Counted) {
        self.counted.insert((key, model), counted);
    }
}
