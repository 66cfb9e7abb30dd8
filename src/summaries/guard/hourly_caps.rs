//! Hourly caps on summaries, per conversation, caller and process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::{FairCache, ONE_FOR_EACH};
use crate::metrics::{Label as _, WithheldReason};
use crate::summaries::CostMeter;
use longhaul_core::units::scope::{RecordKey, Scope};
use parking_lot::Mutex;

/// Summaries per process and hour; beyond that the digest replaces them. Enough for forty
/// conversations at the default of `summary.max_per_hour`. A process that needs more is stuck, and
/// callers pay for it.
pub(super) const PER_PROCESS: usize = 240;
/// A caller's share of the summaries that the other callers leave: a quarter. So callers who use up
/// their shares leave some to the next one.
const CALLER_SHARE: usize = 4;
/// Summaries of a caller that is alone in its hour, enough for ten conversations.
#[cfg(test)]
pub(super) const PER_CALLER: usize = PER_PROCESS / CALLER_SHARE;
/// Age below which callers have one share together. Credentials are made up faster than callers
/// come.
pub(super) const NEWCOMER_AGE: Duration = Duration::from_mins(1);
/// Maximum number of remembered conversations.
const MAX_CONVERSATIONS: u64 = 4_096;
/// Maximum number of remembered callers.
const MAX_CALLERS: u64 = ONE_FOR_EACH;
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// Times of the summaries in the last hour.
pub(super) struct HourlyCaps {
    /// Summaries per conversation and hour.
    per_conversation: usize,
    process: Arc<RollingHour>,
    callers: FairCache<Scope, Arc<CallerHour>>,
    /// Summaries of callers that were newcomers then.
    newcomers: Arc<RollingHour>,
    conversations: FairCache<RecordKey, Arc<RollingHour>>,
}

/// The hour of one caller.
struct CallerHour {
    first_seen: Instant,
    times: Arc<RollingHour>,
}

/// A summary that counts towards the caps. On drop:
///
/// - if it was not charged, it no longer counts for the caller and the conversation;
/// - if it was not answered, it no longer counts for the process, so that a caller without a valid
///   key takes no one else's share.
#[must_use]
pub(crate) struct HourlyReservation {
    /// Times of the process, and of newcomers if the caller is one.
    shared: Vec<Arc<RollingHour>>,
    /// Times of the caller and of the conversation.
    caller_and_conversation: [Arc<RollingHour>; 2],
    cost_meter: Arc<CostMeter>,
}

impl Drop for HourlyReservation {
    fn drop(&mut self) {
        if !self.cost_meter.any_call_accepted() {
            self.shared.iter().for_each(|times| times.remove_newest());
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
struct RollingHour(Mutex<VecDeque<Instant>>);

impl HourlyCaps {
    pub(super) fn new(per_conversation: usize, accepted: &Arc<AcceptedCallers>) -> Self {
        Self {
            per_conversation,
            process: Arc::default(),
            callers: FairCache::of_entries(MAX_CALLERS, HOUR, accepted),
            newcomers: Arc::default(),
            conversations: FairCache::of_entries(MAX_CONVERSATIONS, HOUR, accepted),
        }
    }

    /// Returns the cap that this caller and conversation have reached, if any.
    pub(super) fn reached_cap(
        &self,
        scope: Scope,
        conversation: RecordKey,
    ) -> Option<WithheldReason> {
        let caller = self.caller(scope);
        let own = self.conversations.get(&conversation);
        if self.is_process_capped() {
            Some(WithheldReason::Process)
        } else if self.is_share_used(self.counted_for(&caller).count()) {
            Some(WithheldReason::Caller)
        } else {
            let lately = own.map_or(0, |own| own.count());
            (lately >= self.per_conversation).then_some(WithheldReason::Conversation)
        }
    }

    /// Returns the hour of a caller, which begins now if the caller is unknown.
    fn caller(&self, scope: Scope) -> Arc<CallerHour> {
        self.callers.get_or_insert_with(scope, || {
            Arc::new(CallerHour {
                first_seen: Instant::now(),
                times: Arc::default(),
            })
        })
    }

    /// Returns the times that count towards a caller's share: those of all newcomers for a
    /// newcomer.
    fn counted_for<'a>(&'a self, caller: &'a CallerHour) -> &'a Arc<RollingHour> {
        if caller.is_newcomer() {
            &self.newcomers
        } else {
            &caller.times
        }
    }

    /// Returns the share of a caller that had `own` summaries in the last hour, at least one.
    fn share(&self, own: usize) -> usize {
        let left = PER_PROCESS.saturating_sub(self.process.count());
        ((left + own) / CALLER_SHARE).max(1)
    }

    /// Whether a caller that had `own` summaries in the last hour has used its share.
    fn is_share_used(&self, own: usize) -> bool {
        own >= self.share(own)
    }

    /// Whether the process has reached its cap.
    pub(super) fn is_process_capped(&self) -> bool {
        self.process.count() >= PER_PROCESS
    }

    /// Returns the number of callers that have used their own share.
    pub(super) fn capped_callers(&self) -> usize {
        self.callers
            .count(|caller| self.is_share_used(caller.times.count()))
    }

    /// Counts a summary whose cost `meter` accumulates.
    pub(super) fn reserve(
        &self,
        scope: Scope,
        conversation: RecordKey,
        meter: &Arc<CostMeter>,
    ) -> HourlyReservation {
        let caller = self.caller(scope);
        let own = self
            .conversations
            .get_or_insert_with(conversation, Arc::default);
        let mut shared = vec![Arc::clone(&self.process)];
        if caller.is_newcomer() {
            _ = self.newcomers.record_now();
            shared.push(Arc::clone(&self.newcomers));
        }
        if own.record_now() == self.per_conversation {
            log_cap_reached(WithheldReason::Conversation, self.per_conversation);
        }
        let of_caller = caller.times.record_now();
        if self.process.record_now() == PER_PROCESS {
            log_cap_reached(WithheldReason::Process, PER_PROCESS);
        }
        if of_caller == self.share(of_caller) {
            log_cap_reached(WithheldReason::Caller, of_caller);
        }
        HourlyReservation {
            shared,
            caller_and_conversation: [Arc::clone(&caller.times), own],
            cost_meter: Arc::clone(meter),
        }
    }
}

impl CallerHour {
    /// Whether the caller was first seen within [`NEWCOMER_AGE`].
    fn is_newcomer(&self) -> bool {
        self.first_seen.elapsed() < NEWCOMER_AGE
    }
}

fn log_cap_reached(whose: WithheldReason, most: usize) {
    tracing::info!(
        cap = whose.label(),
        most,
        "hourly cap on summaries reached; digests replace summaries until the hour is over"
    );
}

impl RollingHour {
    /// Returns the number of events in the last hour.
    fn count(&self) -> usize {
        let mut times = self.0.lock();
        remove_expired(&mut times);
        times.len()
    }

    /// Adds an event now, and returns the new number.
    fn record_now(&self) -> usize {
        let mut times = self.0.lock();
        remove_expired(&mut times);
        times.push_back(Instant::now());
        times.len()
    }

    fn remove_newest(&self) {
        self.0.lock().pop_back();
    }
}

fn remove_expired(times: &mut VecDeque<Instant>) {
    while times.front().is_some_and(|at| at.elapsed() >= HOUR) {
        times.pop_front();
    }
}
