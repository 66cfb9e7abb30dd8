//! Summaries made behind a caller's back that nobody has used.

use std::hash::Hash;
use std::time::Duration;

use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::rewrite::chain::{RecordKey, Scope};

/// Unused summaries of one conversation after which none is made ahead for it, until one is used. A
/// client that leaves, or goes back, leaves one or two behind; whoever uses none of three rewrites
/// what they cover, will use none of the next, and pays for each.
pub(super) const MAX_PER_CONVERSATION: u32 = 3;
/// Unused summaries of one caller after which none is made ahead for any conversation of theirs, until
/// one is used: where each request begins otherwise, as with the time of day, each is a conversation.
pub(super) const MAX_PER_CALLER: u32 = 4 * MAX_PER_CONVERSATION;
/// Conversations and callers, each, remembered at once.
const MAX_REMEMBERED: u64 = 4_096;
/// How long one is remembered that asks for nothing: it has ended, or begins anew.
const IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// How many there are since one was last used.
pub(super) struct Unused {
    conversations: Cache<RecordKey, u32>,
    callers: Cache<Scope, u32>,
    /// The last that was made for each conversation: only its use shows that they are of use, for an
    /// older one may be in use for long.
    newest: Cache<RecordKey, RecordKey>,
}

impl Default for Unused {
    fn default() -> Self {
        Self {
            conversations: lru_cache(),
            callers: lru_cache(),
            newest: lru_cache(),
        }
    }
}

impl Unused {
    /// Whether one more may be made.
    pub(super) fn allows_another(&self, scope: Scope, conversation: RecordKey) -> bool {
        let of_caller = self.callers.get(&scope).unwrap_or_default();
        let of_conversation = self.conversations.get(&conversation).unwrap_or_default();
        of_caller < MAX_PER_CALLER && of_conversation < MAX_PER_CONVERSATION
    }

    /// One more is made, the record `made`.
    pub(super) fn record_created(&self, scope: Scope, conversation: RecordKey, made: RecordKey) {
        increment(&self.callers, scope);
        increment(&self.conversations, conversation);
        self.newest.insert(conversation, made);
    }

    /// Whether this was the last that was made, and none has been used since.
    pub(super) fn is_newest(&self, conversation: RecordKey, made: RecordKey) -> bool {
        self.newest.get(&conversation) == Some(made)
    }

    /// One of them is used.
    pub(super) fn record_use(&self, scope: Scope, conversation: Option<RecordKey>) {
        self.callers.invalidate(&scope);
        if let Some(conversation) = conversation {
            self.conversations.invalidate(&conversation);
            self.newest.invalidate(&conversation);
        }
    }

    /// Conversations, and callers, for which no more are made.
    pub(super) fn stopped_counts(&self) -> (usize, usize) {
        (
            count_at_least(&self.conversations, MAX_PER_CONVERSATION),
            count_at_least(&self.callers, MAX_PER_CALLER),
        )
    }
}

/// Entries of which the oldest give way: by default a newcomer would.
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

/// How many have come to so many.
fn count_at_least<K: Hash + Eq + Send + Sync + 'static>(
    counts: &Cache<K, u32>,
    many: u32,
) -> usize {
    counts.iter().filter(|(_, unused)| *unused >= many).count()
}

/// Several end at once, and each counts.
fn increment<K: Hash + Eq + Send + Sync + 'static>(counts: &Cache<K, u32>, key: K) {
    counts
        .entry(key)
        .and_compute_with(|entry| Op::Put(entry.map_or(0, moka::Entry::into_value) + 1));
}
