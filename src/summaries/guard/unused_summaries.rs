//! Counts of background summaries that no request has used.

use std::sync::Arc;
use std::time::Duration;

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::{CallerKey, FairCache};
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
/// Time after which an inactive conversation is forgotten: it has ended, or counts as new.
const IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// Numbers of summaries since one was last used.
pub(super) struct UnusedSummaries {
    conversations: FairCache<RecordKey, u32>,
    callers: FairCache<Scope, u32>,
    /// The newest summary of each conversation. Only use of the newest one proves them useful: an
    /// older one may stay in use for long.
    newest: FairCache<RecordKey, RecordKey>,
}

impl UnusedSummaries {
    pub(super) fn new(accepted: &Arc<AcceptedCallers>) -> Self {
        Self {
            conversations: FairCache::of_entries(MAX_REMEMBERED, IDLE_TIMEOUT, accepted),
            callers: FairCache::of_entries(MAX_REMEMBERED, IDLE_TIMEOUT, accepted),
            newest: FairCache::of_entries(MAX_REMEMBERED, IDLE_TIMEOUT, accepted),
        }
    }

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
        self.callers.remove(&scope);
        if let Some(conversation) = conversation {
            self.conversations.remove(&conversation);
            self.newest.remove(&conversation);
        }
    }

    /// Returns the numbers of conversations and of callers whose background summaries have stopped.
    pub(super) fn stopped_counts(&self) -> (usize, usize) {
        (
            self.conversations
                .count(|unused| *unused >= MAX_PER_CONVERSATION),
            self.callers.count(|unused| *unused >= MAX_PER_CALLER),
        )
    }
}

/// Increments a count atomically, since several jobs may end at once.
fn increment<K: CallerKey>(counts: &FairCache<K, u32>, key: K) {
    counts.update(key, |count| Some(count.unwrap_or_default() + 1));
}
