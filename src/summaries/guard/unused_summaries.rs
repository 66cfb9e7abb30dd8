//! Counts of background summaries that no request has used.

use std::hash::Hash;
use std::time::Duration;

use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use longhaul_core::units::scope::{RecordKey, Scope};

/// Unused summaries of one conversation after which background summaries stop until one is used. A
/// client that leaves or rewinds leaves one or two unused. A client that uses none of three
/// rewrites the messages that they cover. It would use none of the next ones and pay for each.
pub(super) const MAX_PER_CONVERSATION: u32 = 3;
/// Unused summaries of one caller after which background summaries stop for all their conversations
/// until one is used. If every request begins differently, for example with the time of day, each
/// request counts as a conversation.
pub(super) const MAX_PER_CALLER: u32 = 4 * MAX_PER_CONVERSATION;
/// Maximum number of remembered conversations, and of remembered callers.
const MAX_REMEMBERED: u64 = 4_096;
/// Time after which an inactive conversation is forgotten: it has ended, or will start anew.
const IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// Numbers of summaries since one was last used.
pub(super) struct UnusedSummaries {
    conversations: Cache<RecordKey, u32>,
    callers: Cache<Scope, u32>,
    /// The newest summary of each conversation. Only use of the newest one proves them useful: an
    /// older one may stay in use for long.
    newest: Cache<RecordKey, RecordKey>,
}

impl Default for UnusedSummaries {
    fn default() -> Self {
        Self {
            conversations: lru_cache(),
            callers: lru_cache(),
            newest: lru_cache(),
        }
    }
}

impl UnusedSummaries {
    /// Whether one more summary may be made.
    pub(super) fn allows_another(&self, scope: Scope, conversation: RecordKey) -> bool {
        let of_caller = self.callers.get(&scope).unwrap_or_default();
        let of_conversation = self.conversations.get(&conversation).unwrap_or_default();
        of_caller < MAX_PER_CALLER && of_conversation < MAX_PER_CONVERSATION
    }

    /// Records a new summary, the record `made`.
    pub(super) fn record_created(&self, scope: Scope, conversation: RecordKey, made: RecordKey) {
        increment(&self.callers, scope);
        increment(&self.conversations, conversation);
        self.newest.insert(conversation, made);
    }

    /// Whether `made` is the newest summary and none has been used since.
    pub(super) fn is_newest(&self, conversation: RecordKey, made: RecordKey) -> bool {
        self.newest.get(&conversation) == Some(made)
    }

    /// Records the use of a summary.
    pub(super) fn record_use(&self, scope: Scope, conversation: Option<RecordKey>) {
        self.callers.invalidate(&scope);
        if let Some(conversation) = conversation {
            self.conversations.invalidate(&conversation);
            self.newest.invalidate(&conversation);
        }
    }

    /// Returns the numbers of conversations and of callers whose background summaries have stopped.
    pub(super) fn stopped_counts(&self) -> (usize, usize) {
        (
            count_at_least(&self.conversations, MAX_PER_CONVERSATION),
            count_at_least(&self.callers, MAX_PER_CALLER),
        )
    }
}

/// Creates a cache that evicts its least recently used entries. The default policy may reject new
/// ones.
fn lru_cache<K, V>() -> Cache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    Cache::builder()
        .max_capacity(MAX_REMEMBERED)
        .eviction_policy(EvictionPolicy::lru())
        .time_to_idle(IDLE_TIMEOUT)
        .build()
}

/// Counts the entries with at least `many` unused summaries.
fn count_at_least<K: Hash + Eq + Send + Sync + 'static>(
    counts: &Cache<K, u32>,
    many: u32,
) -> usize {
    counts.iter().filter(|(_, unused)| *unused >= many).count()
}

/// Increments a count atomically, since several jobs may end at once.
fn increment<K: Hash + Eq + Send + Sync + 'static>(counts: &Cache<K, u32>, key: K) {
    counts
        .entry(key)
        .and_compute_with(|entry| Op::Put(entry.map_or(0, moka::Entry::into_value) + 1));
}
