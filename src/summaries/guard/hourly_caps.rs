//! Hourly caps on summaries, per conversation, caller and process.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;

use crate::metrics::{Label as _, WithheldReason};
use crate::summaries::CostMeter;
use longhaul_core::units::scope::{RecordKey, Scope};
use parking_lot::Mutex;

/// Summaries per process and hour; beyond that the digest replaces them. Enough for twenty
/// conversations at the default of `summary.max_per_hour`. A process that needs more is stuck, and
/// callers pay for it.
pub(super) const PER_PROCESS: usize = 120;
/// Summaries per caller and hour, enough for ten conversations. Half the process's cap, so that one
/// caller cannot use it up.
pub(super) const PER_CALLER: usize = PER_PROCESS / 2;
/// Maximum number of remembered conversations.
const MAX_CONVERSATIONS: u64 = 4_096;
/// Maximum number of remembered callers.
const MAX_CALLERS: u64 = 4_096;
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// Times of the summaries in the last hour.
pub(super) struct HourlyCaps {
    /// Summaries per conversation and hour.
    per_conversation: usize,
    process: Arc<RollingHour>,
    callers: Cache<Scope, Arc<RollingHour>>,
    conversations: Cache<RecordKey, Arc<RollingHour>>,
}

/// A summary that counts towards the caps. On drop:
///
/// - if it was not charged, it no longer counts for the caller and the conversation;
/// - if it was not answered, it no longer counts for the process, so that a caller without a valid
///   key takes no one else's share.
#[must_use]
pub(crate) struct HourlyReservation {
    process: Arc<RollingHour>,
    /// Times of the caller and of the conversation.
    caller_and_conversation: [Arc<RollingHour>; 2],
    cost_meter: Arc<CostMeter>,
}

impl Drop for HourlyReservation {
    fn drop(&mut self) {
        if !self.cost_meter.any_call_accepted() {
            self.process.remove_newest();
        }
        if !self.cost_meter.any_call_charged() {
            self.caller_and_conversation
                .iter()
                .for_each(|times| times.remove_newest());
        }
    }
}

/// Times of the events in the last hour. The caller bounds their number.
#[derive(Default)]
pub(crate) struct RollingHour(Mutex<VecDeque<Instant>>);

impl HourlyCaps {
    pub(super) fn new(per_conversation: usize) -> Self {
        Self {
            per_conversation,
            process: Arc::default(),
            callers: hourly_cache(MAX_CALLERS),
            conversations: hourly_cache(MAX_CONVERSATIONS),
        }
    }

    /// Returns the cap that this caller and conversation have reached, if any.
    pub(super) fn reached_cap(
        &self,
        scope: Scope,
        conversation: RecordKey,
    ) -> Option<WithheldReason> {
        let of_caller = self.callers.get(&scope);
        let own = self.conversations.get(&conversation);
        if self.is_process_capped() {
            Some(WithheldReason::Process)
        } else if of_caller.is_some_and(|all| all.count() >= PER_CALLER) {
            Some(WithheldReason::Caller)
        } else {
            let lately = own.map_or(0, |own| own.count());
            (lately >= self.per_conversation).then_some(WithheldReason::Conversation)
        }
    }

    /// Whether the process has reached its cap.
    pub(super) fn is_process_capped(&self) -> bool {
        self.process.count() >= PER_PROCESS
    }

    /// Returns the number of callers that have reached their own cap.
    pub(super) fn capped_callers(&self) -> usize {
        let spent = |(_, times): &(_, Arc<RollingHour>)| times.count() >= PER_CALLER;
        self.callers.iter().filter(spent).count()
    }

    /// Counts a summary whose cost `till` accumulates.
    pub(super) fn reserve(
        &self,
        scope: Scope,
        conversation: RecordKey,
        meter: &Arc<CostMeter>,
    ) -> HourlyReservation {
        let of_caller = self.callers.entry(scope).or_default();
        let own = self.conversations.entry(conversation).or_default();
        let counted = HourlyReservation {
            process: Arc::clone(&self.process),
            caller_and_conversation: [of_caller.into_value(), own.into_value()],
            cost_meter: Arc::clone(meter),
        };
        let [of_caller, own] = &counted.caller_and_conversation;
        for (times, most, whose) in [
            (own, self.per_conversation, WithheldReason::Conversation),
            (of_caller, PER_CALLER, WithheldReason::Caller),
            (&counted.process, PER_PROCESS, WithheldReason::Process),
        ] {
            if times.record_now() == most {
                log_cap_reached(whose, most);
            }
        }
        counted
    }
}

/// Logs that a cap has been reached for this hour.
fn log_cap_reached(whose: WithheldReason, most: usize) {
    tracing::info!(
        cap = whose.label(),
        most,
        "hourly cap on summaries reached; digests replace summaries until the hour is over"
    );
}

/// Creates a cache of `many` entries that expire after an hour without access.
fn hourly_cache<K: Hash + Eq + Send + Sync + 'static>(many: u64) -> Cache<K, Arc<RollingHour>> {
    Cache::builder()
        .max_capacity(many)
        .time_to_idle(HOUR)
        .build()
}

impl RollingHour {
    /// Returns the number of events in the last hour.
    pub(crate) fn count(&self) -> usize {
        let mut times = self.0.lock();
        remove_expired(&mut times);
        times.len()
    }

    /// Adds an event now, and returns the new number.
    pub(crate) fn record_now(&self) -> usize {
        let mut times = self.0.lock();
        remove_expired(&mut times);
        times.push_back(Instant::now());
        times.len()
    }

    /// Removes the newest event.
    fn remove_newest(&self) {
        self.0.lock().pop_back();
    }
}

/// Removes events older than an hour.
fn remove_expired(times: &mut VecDeque<Instant>) {
    while times.front().is_some_and(|at| at.elapsed() >= HOUR) {
        times.pop_front();
    }
}
