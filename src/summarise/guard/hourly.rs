//! How many summaries were asked for in the last hour, by a conversation, a caller and the process.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;

use super::super::CostMeter;
use crate::lock::Mutex;
use crate::metrics::{Label as _, WithheldReason};
use crate::rewrite::chain::{RecordKey, Scope};

/// Summaries that a process asks for in an hour; past it the digest serves. Twenty conversations have
/// all that `summary.max_per_hour` gives each by default; what asks for more is stuck, and callers pay.
pub(super) const PER_PROCESS: usize = 120;
/// Of those, what one caller may ask for, all that ten conversations have: no caller's are all that
/// there are.
pub(super) const PER_CALLER: usize = PER_PROCESS / 2;
/// Conversations remembered at once.
const MAX_CONVERSATIONS: u64 = 4_096;
/// And callers.
const MAX_CALLERS: u64 = 4_096;
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// When the last summaries were asked for.
pub(super) struct HourlyCaps {
    /// What one conversation may ask for.
    per_conversation: usize,
    process: Arc<RollingHour>,
    callers: Cache<Scope, Arc<RollingHour>>,
    conversations: Cache<RecordKey, Arc<RollingHour>>,
}

/// One that is asked for. What nobody charges for no longer counts once it is dropped. For the process
/// nothing does that nobody has answered by then: who has no valid key takes nobody's place.
#[must_use]
pub(crate) struct HourlyReservation {
    process: Arc<RollingHour>,
    /// The caller's and the conversation's.
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

/// The times in the last hour at which something was done. Whoever counts bounds them.
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

    /// Which cap a caller's conversation that begins so has come to, if it may ask for no more.
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

    /// Whether nobody may ask for one more.
    pub(super) fn is_process_capped(&self) -> bool {
        self.process.count() >= PER_PROCESS
    }

    /// Callers who may ask for no more, whatever others do.
    pub(super) fn capped_callers(&self) -> usize {
        let spent = |(_, times): &(_, Arc<RollingHour>)| times.count() >= PER_CALLER;
        self.callers.iter().filter(spent).count()
    }

    /// It asks for one, which is paid for at `till`.
    pub(super) fn reserve(
        &self,
        scope: Scope,
        conversation: RecordKey,
        till: &Arc<CostMeter>,
    ) -> HourlyReservation {
        let of_caller = self.callers.entry(scope).or_default();
        let own = self.conversations.entry(conversation).or_default();
        let counted = HourlyReservation {
            process: Arc::clone(&self.process),
            caller_and_conversation: [of_caller.into_value(), own.into_value()],
            cost_meter: Arc::clone(till),
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

/// Tells the operator that no more are asked for in this hour.
fn log_cap_reached(whose: WithheldReason, most: usize) {
    tracing::info!(
        cap = whose.label(),
        most,
        "as many summaries are asked for as an hour may have; until it is over, digests stand in"
    );
}

/// Times of so many, each forgotten when nothing was asked for in an hour.
fn hourly_cache<K: Hash + Eq + Send + Sync + 'static>(many: u64) -> Cache<K, Arc<RollingHour>> {
    Cache::builder()
        .max_capacity(many)
        .time_to_idle(HOUR)
        .build()
}

impl RollingHour {
    /// How many they are.
    pub(crate) fn count(&self) -> usize {
        let mut times = self.0.lock();
        remove_expired(&mut times);
        times.len()
    }

    /// It is done now; how many they are with that.
    pub(crate) fn record_now(&self) -> usize {
        let mut times = self.0.lock();
        remove_expired(&mut times);
        times.push_back(Instant::now());
        times.len()
    }

    /// What was done at the last of them does not count.
    fn remove_newest(&self) {
        self.0.lock().pop_back();
    }
}

/// Forgets those that are an hour ago.
fn remove_expired(times: &mut VecDeque<Instant>) {
    while times.front().is_some_and(|at| at.elapsed() >= HOUR) {
        times.pop_front();
    }
}
