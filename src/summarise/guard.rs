//! What keeps summaries from doing harm: a breaker, a pause after throttling, one at a time behind
//! a caller's back, and caps on what is asked for in an hour.

mod breaker;
mod hourly;
mod unused;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use moka::ops::compute::Op;
use moka::sync::Cache;
use tokio::time::Instant;

use super::{CostMeter, SummaryError};
use crate::metrics::{Metrics, WithheldReason};
use crate::rewrite::chain::{PrefixKeys, RecordKey, Scope};
use crate::rewrite::tokens::Tokens;
use breaker::{FailureStreak, SummaryBackoff};
pub(crate) use hourly::RollingHour;
use hourly::{HourlyCaps, HourlyReservation};
use unused::Unused;

/// How long nobody is asked after an upstream said that it has too much to do.
const PAUSE: Duration = Duration::from_mins(5);
/// Callers remembered at once.
const MAX_CALLERS: u64 = 4_096;

/// How summaries have gone.
pub(crate) struct SummaryGuards {
    callers: CallerStates,
    backoff: SummaryBackoff,
    hourly: HourlyCaps,
    unused: Unused,
    metrics: Arc<Metrics>,
}

/// How those of one caller have gone.
#[derive(Clone, Copy, Debug, Default)]
struct CallerState {
    paused_until: Option<Instant>,
    /// The same for what nobody waits for: it would take the place of chats that were refused one.
    background_paused_until: Option<Instant>,
    /// A job behind this caller's back has not ended.
    in_background: bool,
}

/// What keeps summaries from being asked for at the moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct GuardHealth {
    /// Places in histories where several failed in a row, of late: nobody is asked for what has grown
    /// out of them.
    pub(crate) failing: usize,
    /// Callers whose upstream has too much to do.
    pub(crate) paused: usize,
    /// Conversations for which none is made ahead: the last ones were of no use.
    pub(crate) unused: usize,
    /// Callers of whom that is so for all their conversations.
    pub(crate) unused_callers: usize,
    /// Whether the process has asked for as many as it may in an hour.
    pub(crate) spent: bool,
    /// Callers who have asked for as many as one may.
    pub(crate) spent_callers: usize,
}

/// How those of each caller have gone.
#[derive(Clone, Debug)]
struct CallerStates(Cache<Scope, CallerState>);

/// One summary that is thought of: whose, of which conversation, up to where.
#[derive(Debug)]
pub(crate) struct SummaryPermit {
    scope: Scope,
    /// What the conversation is known by as it grows.
    conversation: RecordKey,
    cut: RecordKey,
    tokens: Tokens,
    failure_streak: Option<FailureStreak>,
    /// None where somebody waits for it.
    background: Option<BackgroundSlot>,
}

/// While this lives, a job behind a caller's back is under way, or thought to be: whatever becomes of
/// the task that has it.
#[derive(Debug)]
struct BackgroundSlot {
    callers: CallerStates,
    scope: Scope,
}

impl Drop for BackgroundSlot {
    fn drop(&mut self) {
        self.callers.update(self.scope, |state| {
            Some(CallerState {
                in_background: false,
                ..state
            })
        });
    }
}

impl CallerStates {
    fn get(&self, scope: Scope) -> CallerState {
        self.0.get(&scope).unwrap_or_default()
    }

    /// Changes how it goes for a caller, unless that is as it should be. Several end at once, and
    /// each counts.
    fn update(&self, scope: Scope, change: impl FnOnce(CallerState) -> Option<CallerState>) {
        self.0.entry(scope).and_compute_with(|entry| {
            let before = entry.map(moka::Entry::into_value).unwrap_or_default();
            change(before).map_or(Op::Nop, Op::Put)
        });
    }
}

/// Whether an upstream that answers so has too much to do.
pub(crate) fn is_overload_status(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    )
}

impl SummaryGuards {
    /// Guards under which a conversation may ask for so many summaries an hour. What they withhold is
    /// counted.
    pub(crate) fn new(per_hour: usize, metrics: &Arc<Metrics>) -> Self {
        Self {
            callers: CallerStates(Cache::new(MAX_CALLERS)),
            backoff: SummaryBackoff::default(),
            hourly: HourlyCaps::new(per_hour),
            unused: Unused::default(),
            metrics: Arc::clone(metrics),
        }
    }

    /// A ticket for the summary up to `cut` of a caller's conversation of `tokens`.
    pub(crate) fn permit(
        &self,
        scope: Scope,
        chains: &PrefixKeys,
        cut: RecordKey,
        tokens: Tokens,
    ) -> SummaryPermit {
        SummaryPermit {
            scope,
            conversation: chains.conversation_key().unwrap_or(cut),
            cut,
            tokens,
            failure_streak: self.backoff.streak(chains),
            background: None,
        }
    }

    /// Whether a client may wait for a summary now.
    pub(crate) fn allows(&self, ticket: &SummaryPermit) -> bool {
        self.count_withheld(self.withheld_reason(ticket))
    }

    /// The same of what is no summary: it is not counted.
    pub(crate) fn allows_title(&self, ticket: &SummaryPermit) -> bool {
        self.withheld_reason(ticket).is_none()
    }

    /// What keeps a summary from being asked for.
    fn withheld_reason(&self, ticket: &SummaryPermit) -> Option<WithheldReason> {
        let paused = self.callers.get(ticket.scope).paused_until;
        if paused.is_some_and(|until| Instant::now() < until) {
            return Some(WithheldReason::Throttled);
        }
        let failed = ticket.failure_streak;
        if failed.is_some_and(|failed| failed.is_open(ticket.tokens)) {
            return Some(WithheldReason::Breaker);
        }
        self.hourly.reached_cap(ticket.scope, ticket.conversation)
    }

    /// Whether nothing keeps one; what does is counted.
    fn count_withheld(&self, withheld: Option<WithheldReason>) -> bool {
        if let Some(why) = withheld {
            self.metrics.withheld.add(why);
        }
        withheld.is_none()
    }

    /// The ticket for a summary behind a caller's back, if one may be made now. It counts as begun for
    /// as long as the ticket is kept.
    pub(crate) fn try_acquire_background(
        &self,
        mut ticket: SummaryPermit,
    ) -> Option<SummaryPermit> {
        let (scopes, scope) = (&self.callers, ticket.scope);
        let throttled = scopes.get(scope).background_paused_until;
        let why = if !self.unused.allows_another(scope, ticket.conversation) {
            Some(WithheldReason::Unused)
        } else if throttled.is_some_and(|until| Instant::now() < until) {
            Some(WithheldReason::Throttled)
        } else {
            None
        };
        if !self.count_withheld(why) || !self.allows(&ticket) {
            return None;
        }
        scopes.update(scope, |state| {
            if state.in_background {
                return None;
            }
            ticket.background = Some(BackgroundSlot {
                callers: scopes.clone(),
                scope,
            });
            Some(CallerState {
                in_background: true,
                ..state
            })
        });
        ticket.background.is_some().then_some(ticket)
    }

    /// A chat of this caller was refused: its upstream has too much to do.
    pub(crate) fn record_throttled_chat(&self, scope: Scope) {
        self.callers.update(scope, |state| {
            Some(CallerState {
                background_paused_until: Some(Instant::now() + PAUSE),
                ..state
            })
        });
    }

    /// A job is started, which is paid for at `till`. It counts for as long as what is given back is
    /// kept, and if it was charged for, for an hour.
    pub(crate) fn record_start(
        &self,
        ticket: &SummaryPermit,
        till: &Arc<CostMeter>,
    ) -> HourlyReservation {
        self.hourly.reserve(ticket.scope, ticket.conversation, till)
    }

    /// A job has ended so.
    pub(crate) fn record_end(&self, ticket: SummaryPermit, outcome: Result<(), SummaryError>) {
        let SummaryPermit {
            scope,
            conversation,
            cut,
            tokens,
            failure_streak: failed,
            background: behind,
        } = ticket;
        match outcome {
            Ok(()) => {
                self.callers.update(scope, |state| {
                    state.paused_until.map(|_| CallerState {
                        paused_until: None,
                        ..state
                    })
                });
                if behind.is_some() {
                    self.unused.record_created(scope, conversation, cut);
                }
                if failed.is_some() {
                    self.backoff.record_success(cut, tokens);
                }
            }
            Err(SummaryError::NothingToAsk) => {}
            Err(SummaryError::Refused(status)) if is_overload_status(status) => {
                self.callers.update(scope, |state| {
                    Some(CallerState {
                        paused_until: Some(Instant::now() + PAUSE),
                        ..state
                    })
                });
            }
            Err(
                SummaryError::NotASummary(_)
                | SummaryError::Refused(_)
                | SummaryError::TimedOut
                | SummaryError::Unreachable,
            ) => self.backoff.record_failure(cut, failed, tokens),
        }
    }

    /// A request of this conversation with a summary was accepted.
    pub(crate) fn record_use(&self, scope: Scope, chains: &PrefixKeys) {
        self.unused.record_use(scope, chains.conversation_key());
    }

    /// A request of this conversation that starts from the record `made` was accepted, not the first
    /// to do so: if that summary was made here, it was used by another process first.
    pub(crate) fn record_later_use(&self, scope: Scope, chains: &PrefixKeys, made: RecordKey) {
        if let Some(conversation) = chains.conversation_key()
            && self.unused.is_newest(conversation, made)
        {
            self.unused.record_use(scope, Some(conversation));
        }
    }

    /// How they stand now.
    pub(crate) fn health(&self) -> GuardHealth {
        let now = Instant::now();
        let states = || self.callers.0.iter().map(|(_, state)| state);
        let paused = |state: &CallerState| state.paused_until.is_some_and(|until| now < until);
        let (unused, unused_callers) = self.unused.stopped_counts();
        GuardHealth {
            failing: self.backoff.open_count(),
            paused: states().filter(paused).count(),
            unused,
            unused_callers,
            spent: self.hourly.is_process_capped(),
            spent_callers: self.hourly.capped_callers(),
        }
    }
}

#[cfg(test)]
mod tests;
