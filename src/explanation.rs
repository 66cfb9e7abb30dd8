//! Explanations of requests in words: what became of each message, by which rule, and why.
//!
//! `longhaul explain`, the dashboard and the admin listener show the same report.

pub(crate) mod cause;
pub(crate) mod report;
pub(crate) mod stored;
pub(crate) mod table;
pub(crate) mod verdict;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};

pub(crate) use cause::{PlanCause, Refusal};
use longhaul_core::units::scope::RecordKey;
pub(crate) use stored::{ExplanationContext, StoredExplanation};

/// Bits of a request's identifier: enough to distinguish all requests that are kept.
const REQUEST_BITS: u32 = 48;

/// Identifier of one request, drawn at random.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RequestId(u64);

impl RequestId {
    pub(crate) fn draw() -> Self {
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(SEED.hash_one(number) >> (u64::BITS - REQUEST_BITS))
    }

    /// Parses an identifier as [`Display`](fmt::Display) writes it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

/// Identifier of a conversation: the end of a keyed hash of its beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ConversationId(u64);

impl ConversationId {
    /// Derives the identifier. It distinguishes thousands of conversations, and is useless as a key
    /// of the store.
    pub(crate) fn new(first_key: RecordKey) -> Self {
        let id = first_key.to_bytes().last_chunk().copied();
        Self(u64::from_be_bytes(id.unwrap_or_default()))
    }

    /// Parses an identifier as [`Display`](fmt::Display) writes it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_an_id_of_its_own() {
        let mut ids: Vec<String> = (0..1_000).map(|_| RequestId::draw().to_string()).collect();
        assert!(ids.iter().all(|id| id.len() == 12));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 1_000);
    }
}
