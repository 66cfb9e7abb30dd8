//! Hourly caps on summaries, per conversation, caller and process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::{FairCache, ONE_FOR_EACH};
use crate::callers::owners::OwnerTag;
use crate::metrics::WithheldReason;
use crate::summaries::CostMeter;
use longhaul_core::units::scope::{RecordKey, Scope};
use parking_lot::Mutex;

/// Summaries per process and hour; beyond that the digest replaces them. Enough for forty
/// conversations at the default of `summary.max_per_hour`. A process that needs more is stuck, and
/// callers pay for it.
pub(super) const PER_PROCESS: usize = 240;
/// An owner's share of the summaries that the other owners leave: a quarter. So owners who use up
/// their shares leave some to the next one.
const CALLER_SHARE: usize = 4;
#[cfg(test)]
pub(super) const PER_CALLER: usize = PER_PROCESS / CALLER_SHARE;
/// Age below which owners have one share together, in addition to their own. An upstream without keys
/// accepts credentials that are made up faster than callers come.
pub(super) const NEWCOMER_AGE: Duration = Duration::from_mins(1);
/// Maximum number of remembered conversations.
const MAX_CONVERSATIONS: u64 = 4_096;
/// Maximum number of remembered owners.
const MAX_OWNERS: u64 = ONE_FOR_EACH;
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// Times of the summaries in the last hour.
pub(super) struct HourlyCaps {
    /// Summaries per conversation and hour.
    per_conversation: usize,
    process: Arc<RollingHour>,
    accepted: Arc<AcceptedCallers>,
    owners: FairCache<OwnerTag, Arc<OwnerHour>>,
    /// Summaries of callers without an owner, and of owners that were new then.
    newcomers: Arc<RollingHour>,
    conversations: FairCache<RecordKey, Arc<RollingHour>>,
}

struct OwnerHour {
    first_seen: Instant,
    times: Arc<RollingHour>,
}

/// A summary that counts towards the caps. On drop:
///
/// - if it was not charged, it no longer counts for the owner and the conversation;
/// - if it was not answered, it no longer counts for the process, so that a caller without a valid
///   key takes no one else's share.
#[must_use]
pub(crate) struct HourlyReservation {
    /// Times of the process, and of newcomers if the caller is one.
    shared: Vec<Arc<RollingHour>>,
    /// Times of the owner, if there is one, and of the conversation.
    own: Vec<Arc<RollingHour>>,
    /// Caps that this summary reaches, each with its number of summaries.
    pub(crate) reached: Vec<(WithheldReason, usize)>,
    cost_meter: Arc<CostMeter>,
}

impl Drop for HourlyReservation {
    fn drop(&mut self) {
        if !self.cost_meter.any_call_accepted() {
            self.shared.iter().for_each(|times| times.remove_newest());
        }
        if !self.cost_meter.any_call_charged() {
            self.own.iter().for_each(|times| times.remove_newest());
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
            accepted: Arc::clone(accepted),
            owners: FairCache::of_entries(MAX_OWNERS, HOUR, accepted),
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
        let own = self.conversations.get(&conversation);
        let is_used = |times: &Arc<RollingHour>| self.is_share_used(times.count());
        if self.is_process_capped() {
            Some(WithheldReason::Process)
        } else if self.times_of(scope).iter().any(is_used) {
            Some(WithheldReason::Caller)
        } else {
            let lately = own.map_or(0, |own| own.count());
            (lately >= self.per_conversation).then_some(WithheldReason::Conversation)
        }
    }

    /// Returns the hour of a caller's owner, which begins now if the owner is unknown. `None` if no
    /// upstream has accepted the caller.
    fn owner(&self, scope: Scope) -> Option<Arc<OwnerHour>> {
        let owner = self.accepted.owner(scope.tag())?;
        let hour = self.owners.get_or_insert_with(owner, || {
            Arc::new(OwnerHour { first_seen: Instant::now(), times: Arc::default() })
        });
        Some(hour)
    }

    /// Returns the times that count towards the share of a caller's owner, and towards that of newcomers
    /// if the caller is one. Both shares apply.
    fn times_of(&self, scope: Scope) -> Vec<Arc<RollingHour>> {
        let owner = self.owner(scope);
        let is_new = owner.as_ref().is_none_or(|owner| owner.is_newcomer());
        let newcomers = is_new.then(|| Arc::clone(&self.newcomers));
        let own = owner.map(|owner| Arc::clone(&owner.times));
        own.into_iter().chain(newcomers).collect()
    }

    /// Returns the share of an owner that had `own` summaries in the last hour, at least one.
    fn share(&self, own: usize) -> usize {
        let left = PER_PROCESS.saturating_sub(self.process.count());
        ((left + own) / CALLER_SHARE).max(1)
    }

    /// Whether an owner that had `own` summaries in the last hour has used its share.
    fn is_share_used(&self, own: usize) -> bool {
        own >= self.share(own)
    }

    /// Whether the process has reached its cap.
    pub(super) fn is_process_capped(&self) -> bool {
        self.process.count() >= PER_PROCESS
    }

    /// Returns the number of owners that have used their own share.
    pub(super) fn capped_callers(&self) -> usize {
        self.owners.count(|owner| self.is_share_used(owner.times.count()))
    }

    /// Counts a summary whose cost `meter` accumulates.
    pub(super) fn reserve(
        &self,
        scope: Scope,
        conversation: RecordKey,
        meter: &Arc<CostMeter>,
    ) -> HourlyReservation {
        let conversation = self.conversations.get_or_insert_with(conversation, Arc::default);
        let owner = self.owner(scope);
        let mut reached = Vec::new();
        let mut shared = vec![Arc::clone(&self.process)];
        if owner.as_ref().is_none_or(|owner| owner.is_newcomer()) {
            _ = self.newcomers.record_now();
            shared.push(Arc::clone(&self.newcomers));
        }
        if conversation.record_now() == self.per_conversation {
            reached.push((WithheldReason::Conversation, self.per_conversation));
        }
        let times = owner.map(|owner| Arc::clone(&owner.times));
        let of_owner = times.as_ref().map(|times| times.record_now());
        if self.process.record_now() == PER_PROCESS {
            reached.push((WithheldReason::Process, PER_PROCESS));
        }
        if let Some(of_owner) = of_owner.filter(|own| *own == self.share(*own)) {
            reached.push((WithheldReason::Caller, of_owner));
        }
        HourlyReservation {
            shared,
            own: times.into_iter().chain([conversation]).collect(),
            reached,
            cost_meter: Arc::clone(meter),
        }
    }
}

impl OwnerHour {
    /// Whether the owner was first seen within [`NEWCOMER_AGE`].
    fn is_newcomer(&self) -> bool {
        self.first_seen.elapsed() < NEWCOMER_AGE
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::owners::Owners;

    #[tokio::test(start_paused = true)]
    async fn one_credential_has_one_share_whatever_identities_it_shows() {
        let scope = |number: u8| Scope::new(&[0; 32], &[&[number]]);
        let accepted = Arc::<AcceptedCallers>::default();
        let credential = Owners::of_tags(&[scope(1).tag()]);
        for number in 2..=200 {
            accepted.insert(scope(number).tag(), &credential);
        }
        accepted.insert_alone(scope(201).tag());
        let caps = HourlyCaps::new(usize::MAX, &accepted);
        let is_allowed = |number: u8| {
            let conversation = scope(number).named_key("");
            caps.reached_cap(scope(number), conversation).is_none()
        };
        assert!(is_allowed(201), "seen before");
        let mut taken = 0;
        for _ in 0..3 {
            for number in 2..=200 {
                if is_allowed(number) {
                    let meter = Arc::new(CostMeter::new(&Arc::default(), None));
                    let counted = caps.reserve(scope(number), scope(number).named_key(""), &meter);
                    meter.start_call(0).mark_accepted();
                    drop(counted);
                    taken += 1;
                }
            }
            tokio::time::advance(NEWCOMER_AGE).await;
        }
        assert_eq!(taken, PER_CALLER);
        assert!(is_allowed(201));
    }
}
