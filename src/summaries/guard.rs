//! Guards that limit summaries: a circuit breaker after failures, a pause after throttling, one background
//! job per caller, and hourly caps.

pub(crate) mod hourly_caps;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use tokio::time::Instant;

use crate::callers::fair_cache::{FairCache, ONE_FOR_EACH};
use crate::callers::{AcceptedCallers, FORGET_AFTER};
use crate::metrics::{Metrics, WithheldReason};
use crate::summaries::{CostMeter, SummaryError};
use hourly_caps::{HourlyCaps, HourlyReservation};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::{RecordKey, Scope};
use longhaul_core::units::tokens::Tokens;

/// Pause in summary calls after an upstream reported overload, and time until an open breaker lets one call
/// through. One more failure opens it again.
const PAUSE: Duration = Duration::from_mins(5);
const MAX_CALLERS: u64 = ONE_FOR_EACH;

/// Results of past summaries, and the limits derived from them.
pub(crate) struct SummaryGuards {
    callers: CallerStates,
    /// Failures by the prefix of history that a summary failed for. They apply to all conversations that extend
    /// the prefix, but not to other conversations of the caller.
    failures: FairCache<RecordKey, FailureStreak>,
    hourly: HourlyCaps,
    /// Summaries of a conversation since one was last used, and the newest of them. Only use of the newest one
    /// proves them useful: an older one may stay in use for long.
    unused: FairCache<RecordKey, (u32, RecordKey)>,
    /// Summaries of a caller since one was last used.
    unused_of_callers: FairCache<Scope, u32>,
    metrics: Arc<Metrics>,
}

/// State of one caller's summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CallerState {
    paused_until: Option<Instant>,
    /// End of the pause for background summaries alone. They would compete with chats that the
    /// upstream already throttles.
    background_paused_until: Option<Instant>,
    /// End of the pause for background summaries because of the login's quota.
    quota_paused_until: Option<Instant>,
    /// Whether a background job of this caller is running.
    in_background: bool,
}

/// Reasons that currently withhold summaries, with counts. The fields are keys of the dashboard's JSON.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct GuardHealth {
    /// Prefixes of history with several recent failures in a row. Conversations that extend them
    /// get no summaries.
    pub(crate) failing: usize,
    /// Callers whose upstream reported overload.
    pub(crate) paused: usize,
    /// Conversations without background summaries because the last ones were not used.
    pub(crate) unused: usize,
    /// Callers without background summaries for any of their conversations, for the same reason.
    pub(crate) unused_callers: usize,
    /// Whether the process has reached its hourly cap.
    pub(crate) spent: bool,
    /// Callers that have reached their hourly cap.
    pub(crate) spent_callers: usize,
}

#[derive(Clone)]
struct CallerStates(Arc<FairCache<Scope, CallerState>>);

/// A summary under consideration: the caller, the conversation and the cut.
pub(crate) struct SummaryPermit {
    scope: Scope,
    /// The key that identifies the conversation as it grows.
    conversation: RecordKey,
    cut: RecordKey,
    tokens: Tokens,
    failure_streak: Option<FailureStreak>,
    /// `None` if a client waits for the summary.
    background: Option<BackgroundSlot>,
}

/// Holds a caller's background slot until dropped, whatever happens to the task that owns it.
struct BackgroundSlot {
    callers: CallerStates,
    scope: Scope,
}

impl Drop for BackgroundSlot {
    fn drop(&mut self) {
        self.callers.update(self.scope, |state| state.in_background = false);
    }
}

impl CallerStates {
    fn get(&self, scope: Scope) -> CallerState {
        self.0.get(&scope).unwrap_or_default()
    }

    /// Updates a caller's state atomically, since several jobs may end at once. A state that does not
    /// change is not stored.
    fn update(&self, scope: Scope, change: impl FnOnce(&mut CallerState)) {
        self.0.update(scope, |before| {
            let before = before.unwrap_or_default();
            let mut state = before;
            change(&mut state);
            (state != before).then_some(state)
        });
    }
}

/// Whether `status` means that the upstream is rate-limited or overloaded.
pub(crate) fn is_overload_status(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

impl SummaryGuards {
    /// Creates guards that allow each conversation `per_hour` summaries an hour. Withheld summaries
    /// are counted in `metrics`.
    pub(crate) fn new(
        per_hour: usize,
        metrics: &Arc<Metrics>,
        accepted: &Arc<AcceptedCallers>,
    ) -> Self {
        let callers = FairCache::of_entries(MAX_CALLERS, FORGET_AFTER, accepted);
        Self {
            callers: CallerStates(Arc::new(callers)),
            failures: FairCache::of_entries(MAX_REMEMBERED, FORGET_AFTER, accepted),
            hourly: HourlyCaps::new(per_hour, accepted),
            unused: FairCache::of_entries(MAX_REMEMBERED, IDLE_TIMEOUT, accepted),
            unused_of_callers: FairCache::of_entries(MAX_REMEMBERED, IDLE_TIMEOUT, accepted),
            metrics: Arc::clone(metrics),
        }
    }

    /// Creates the permit for the summary up to `cut` of a caller's conversation of `tokens`.
    pub(crate) fn permit(
        &self,
        scope: Scope,
        prefix_keys: &PrefixKeys,
        cut: RecordKey,
        tokens: Tokens,
    ) -> SummaryPermit {
        SummaryPermit {
            scope,
            conversation: prefix_keys.conversation_key().unwrap_or(cut),
            cut,
            tokens,
            failure_streak: prefix_keys.newest_first().find_map(|(_, key)| self.failures.get(&key)),
            background: None,
        }
    }

    /// Whether a client may wait for a summary now.
    pub(crate) fn allows(&self, permit: &SummaryPermit) -> bool {
        self.count_withheld(self.withheld_reason(permit))
    }

    /// Returns the reason to withhold a summary, if any.
    fn withheld_reason(&self, permit: &SummaryPermit) -> Option<WithheldReason> {
        if is_ahead(self.callers.get(permit.scope).paused_until) {
            return Some(WithheldReason::Throttled);
        }
        let failed = permit.failure_streak;
        if failed.is_some_and(|failed| failed.is_open(permit.tokens)) {
            return Some(WithheldReason::Breaker);
        }
        self.hourly.reached_cap(permit.scope, permit.conversation)
    }

    /// Whether no reason withholds a summary. Counts the reason if there is one.
    fn count_withheld(&self, withheld: Option<WithheldReason>) -> bool {
        if let Some(why) = withheld {
            self.metrics.withheld.add(why);
        }
        withheld.is_none()
    }

    /// Returns the permit for a background summary if one may start now. The caller's background
    /// slot is taken until the permit is dropped.
    pub(crate) fn try_acquire_background(
        &self,
        mut permit: SummaryPermit,
    ) -> Option<SummaryPermit> {
        let (scopes, scope) = (&self.callers, permit.scope);
        let state = scopes.get(scope);
        let of_caller = self.unused_of_callers.get(&scope).unwrap_or_default();
        let of_conversation = self.unused.get(&permit.conversation).map_or(0, |(unused, _)| unused);
        let why = if of_caller >= MAX_UNUSED_PER_CALLER
            || of_conversation >= MAX_UNUSED_PER_CONVERSATION
        {
            Some(WithheldReason::Unused)
        } else if is_ahead(state.background_paused_until) {
            Some(WithheldReason::Throttled)
        } else {
            is_ahead(state.quota_paused_until).then_some(WithheldReason::Quota)
        };
        if !self.count_withheld(why) || !self.allows(&permit) {
            return None;
        }
        scopes.update(scope, |state| {
            if !std::mem::replace(&mut state.in_background, true) {
                permit.background = Some(BackgroundSlot { callers: scopes.clone(), scope });
            }
        });
        permit.background.is_some().then_some(permit)
    }

    /// Records that the upstream throttled a chat of this caller.
    pub(crate) fn record_throttled_chat(&self, scope: Scope) {
        let until = Some(Instant::now() + PAUSE);
        self.callers.update(scope, |state| state.background_paused_until = until);
    }

    /// Records for how long a login's quota pauses background summaries of this caller, if it does.
    pub(crate) fn record_quota(&self, scope: Scope, pause: Option<Duration>) {
        let until = pause.and_then(|pause| Instant::now().checked_add(pause));
        self.callers.update(scope, |state| state.quota_paused_until = until);
    }

    /// Records the start of a job whose cost `meter` accumulates. The job counts towards the hourly
    /// caps until the returned value is dropped. If it was charged, it counts for an hour.
    pub(crate) fn record_start(
        &self,
        permit: &SummaryPermit,
        meter: &Arc<CostMeter>,
    ) -> HourlyReservation {
        self.hourly.reserve(permit.scope, permit.conversation, meter)
    }

    pub(crate) fn record_end(&self, permit: SummaryPermit, outcome: Result<(), SummaryError>) {
        let SummaryPermit { scope, conversation, cut, tokens, failure_streak: failed, background } =
            permit;
        let record_failures = |count| {
            self.failures.insert(cut, FailureStreak { count, updated_at: Instant::now(), tokens });
        };
        match outcome {
            Ok(()) => {
                self.callers.update(scope, |state| state.paused_until = None);
                if background.is_some() {
                    let one_more = |unused: Option<u32>| unused.unwrap_or_default() + 1;
                    self.unused_of_callers.update(scope, |unused| Some(one_more(unused)));
                    self.unused.update(conversation, |before| {
                        Some((one_more(before.map(|(unused, _)| unused)), cut))
                    });
                }
                if failed.is_some() {
                    record_failures(0);
                }
            }
            Err(SummaryError::NothingToAsk) => {}
            Err(SummaryError::Refused(status)) if is_overload_status(status) => {
                let until = Some(Instant::now() + PAUSE);
                self.callers.update(scope, |state| state.paused_until = until);
            }
            Err(
                SummaryError::NotASummary(_)
                | SummaryError::Refused(_)
                | SummaryError::TimedOut
                | SummaryError::Unreachable,
            ) => record_failures(failed.map_or(0, |failed| failed.count) + 1),
        }
    }

    /// Records that the upstream accepted a request of this conversation that uses a new summary.
    pub(crate) fn record_use(&self, scope: Scope, prefix_keys: &PrefixKeys) {
        self.unused_of_callers.remove(&scope);
        if let Some(conversation) = prefix_keys.conversation_key() {
            self.unused.remove(&conversation);
        }
    }

    /// Records that the upstream accepted a request that starts from the record `made`, and not as
    /// the first request to do so. If this process made that summary, another process was the first
    /// to use it.
    pub(crate) fn record_later_use(&self, scope: Scope, prefix_keys: &PrefixKeys, made: RecordKey) {
        if let Some(conversation) = prefix_keys.conversation_key()
            && self.unused.get(&conversation).is_some_and(|(_, newest)| newest == made)
        {
            self.record_use(scope, prefix_keys);
        }
    }

    pub(crate) fn health(&self) -> GuardHealth {
        GuardHealth {
            failing: self.failures.count(|failed| failed.is_open(failed.tokens)),
            paused: self.callers.0.count(|state| is_ahead(state.paused_until)),
            unused: self.unused.count(|(unused, _)| *unused >= MAX_UNUSED_PER_CONVERSATION),
            unused_callers: self.unused_of_callers.count(|unused| *unused >= MAX_UNUSED_PER_CALLER),
            spent: self.hourly.is_process_capped(),
            spent_callers: self.hourly.capped_callers(),
        }
    }
}

/// Unused summaries of one conversation after which background summaries stop until one is used. A
/// client that leaves or rewinds leaves one or two unused. A client that uses none of three
/// rewrites the messages that they cover. It would use none of the next ones and pay for each.
const MAX_UNUSED_PER_CONVERSATION: u32 = 3;
/// Unused summaries of one caller after which background summaries stop for all their conversations
/// until one is used. If every request begins differently, for example with the time of day, each
/// request counts as a conversation.
const MAX_UNUSED_PER_CALLER: u32 = 4 * MAX_UNUSED_PER_CONVERSATION;
/// Maximum number of remembered conversations, callers, and prefixes.
const MAX_REMEMBERED: u64 = 4_096;
/// Time after which an inactive conversation is forgotten: it has ended, or counts as new.
const IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// Consecutive failures that open the breaker. Without it, sessions made fifty futile calls in a
/// row.
const MAX_FAILURES: u32 = 3;
/// Growth of a conversation after which an open breaker lets one call through: the larger
/// conversation is a different task.
const GROWTH_PERCENT: u32 = 20;

/// Consecutive failures of a prefix and the prefixes it extends.
#[derive(Clone, Copy, Debug)]
struct FailureStreak {
    count: u32,
    updated_at: Instant,
    /// Size of the conversation at that time.
    tokens: Tokens,
}

impl FailureStreak {
    /// Whether calls are blocked for a conversation that now has `tokens`.
    fn is_open(&self, tokens: Tokens) -> bool {
        self.count >= MAX_FAILURES
            && self.updated_at.elapsed() < PAUSE
            && tokens < self.tokens.percent(100 + GROWTH_PERCENT)
    }
}

/// Whether a pause lasts.
fn is_ahead(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() < until)
}

#[cfg(test)]
mod tests;
