//! How many summaries were asked for in the last hour, by a conversation and by the process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;

use crate::lock::Mutex;
use crate::rewrite::chain::RecordKey;

/// Summaries that a process asks for in an hour; past it the digest serves. Twenty conversations have
/// all that `summary.max_per_hour` gives each by default; what asks for more is stuck, and callers pay.
pub(super) const PER_PROCESS: usize = 120;
/// Conversations remembered at once.
const CONVERSATIONS: u64 = 4_096;
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// When the last summaries were asked for.
pub(super) struct Hourly {
    /// What one conversation may ask for.
    per_conversation: usize,
    process: Times,
    conversations: Cache<RecordKey, Arc<Times>>,
}

/// The times in the last hour at which something was done. Whoever counts bounds them.
#[derive(Default)]
pub(crate) struct Times(Mutex<VecDeque<Instant>>);

impl Hourly {
    pub(super) fn new(per_conversation: usize) -> Self {
        Self {
            per_conversation,
            process: Times::default(),
            conversations: Cache::builder()
                .max_capacity(CONVERSATIONS)
                .time_to_idle(HOUR)
                .build(),
        }
    }

    /// Whether the conversation that begins so may ask for one more.
    pub(super) fn has_room(&self, conversation: RecordKey) -> bool {
        let own = self.conversations.get(&conversation);
        self.process.lately() < PER_PROCESS
            && own.is_none_or(|own| own.lately() < self.per_conversation)
    }

    /// Whether nobody may ask for one more.
    pub(super) fn is_spent(&self) -> bool {
        self.process.lately() >= PER_PROCESS
    }

    /// It asks for one.
    pub(super) fn count(&self, conversation: RecordKey) {
        self.process.now();
        let own = self.conversations.entry(conversation).or_default();
        own.into_value().now();
    }
}

impl Times {
    /// How many they are.
    pub(crate) fn lately(&self) -> usize {
        let mut times = self.0.lock();
        while times.front().is_some_and(|at| at.elapsed() >= HOUR) {
            times.pop_front();
        }
        times.len()
    }

    /// It is done now.
    pub(crate) fn now(&self) {
        self.0.lock().push_back(Instant::now());
    }
}
