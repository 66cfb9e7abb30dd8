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

use super::{Failure, Till};
use crate::metrics::{Metrics, Withheld};
use crate::rewrite::chain::{Chains, RecordKey, Scope};
use crate::rewrite::tokens::Tokens;
use breaker::{Breaker, Failed};
pub(crate) use hourly::Times;
use hourly::{Counted, Hourly};
use unused::Unused;

/// How long nobody is asked after an upstream said that it has too much to do.
const PAUSE: Duration = Duration::from_mins(5);
/// Callers remembered at once.
const SCOPES: u64 = 4_096;

/// How summaries have gone.
pub(crate) struct Guards {
    scopes: Scopes,
    breaker: Breaker,
    hourly: Hourly,
    unused: Unused,
    metrics: Arc<Metrics>,
}

/// How those of one caller have gone.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    paused_until: Option<Instant>,
    /// The same for what nobody waits for: it would take the place of chats that were refused one.
    throttled_until: Option<Instant>,
    /// A job behind this caller's back has not ended.
    behind: bool,
}

/// What keeps summaries from being asked for at the moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Health {
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
struct Scopes(Cache<Scope, State>);

/// One summary that is thought of: whose, of which conversation, up to where.
#[derive(Debug)]
pub(crate) struct Ticket {
    scope: Scope,
    /// What the conversation is known by as it grows.
    conversation: RecordKey,
    cut: RecordKey,
    tokens: Tokens,
    failed: Option<Failed>,
    /// None where somebody waits for it.
    behind: Option<Behind>,
}

/// While this lives, a job behind a caller's back is under way, or thought to be: whatever becomes of
/// the task that has it.
#[derive(Debug)]
struct Behind {
    scopes: Scopes,
    scope: Scope,
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.scopes.change(self.scope, |state| {
            Some(State {
                behind: false,
                ..state
            })
        });
    }
}

impl Scopes {
    fn of(&self, scope: Scope) -> State {
        self.0.get(&scope).unwrap_or_default()
    }

    /// Changes how it goes for a caller, unless that is as it should be. Several end at once, and
    /// each counts.
    fn change(&self, scope: Scope, change: impl FnOnce(State) -> Option<State>) {
        self.0.entry(scope).and_compute_with(|entry| {
            let before = entry.map(moka::Entry::into_value).unwrap_or_default();
            change(before).map_or(Op::Nop, Op::Put)
        });
    }
}

/// Whether an upstream that answers so has too much to do.
pub(crate) fn is_too_busy(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    )
}

impl Guards {
    /// Guards under which a conversation may ask for so many summaries an hour. What they withhold is
    /// counted.
    pub(crate) fn new(per_hour: usize, metrics: &Arc<Metrics>) -> Self {
        Self {
            scopes: Scopes(Cache::new(SCOPES)),
            breaker: Breaker::default(),
            hourly: Hourly::new(per_hour),
            unused: Unused::default(),
            metrics: Arc::clone(metrics),
        }
    }

    /// A ticket for the summary up to `cut` of a caller's conversation of `tokens`.
    pub(crate) fn ticket(
        &self,
        scope: Scope,
        chains: &Chains,
        cut: RecordKey,
        tokens: Tokens,
    ) -> Ticket {
        Ticket {
            scope,
            conversation: chains.begun().unwrap_or(cut),
            cut,
            tokens,
            failed: self.breaker.of(chains),
            behind: None,
        }
    }

    /// Whether a client may wait for a summary now.
    pub(crate) fn allows(&self, ticket: &Ticket) -> bool {
        self.count(self.withheld(ticket))
    }

    /// The same of what is no summary: it is not counted.
    pub(crate) fn is_open_to(&self, ticket: &Ticket) -> bool {
        self.withheld(ticket).is_none()
    }

    /// What keeps a summary from being asked for.
    fn withheld(&self, ticket: &Ticket) -> Option<Withheld> {
        let paused = self.scopes.of(ticket.scope).paused_until;
        if paused.is_some_and(|until| Instant::now() < until) {
            return Some(Withheld::Throttled);
        }
        let failed = ticket.failed;
        if failed.is_some_and(|failed| failed.is_open(ticket.tokens)) {
            return Some(Withheld::Breaker);
        }
        self.hourly.spent(ticket.scope, ticket.conversation)
    }

    /// Whether nothing keeps one; what does is counted.
    fn count(&self, withheld: Option<Withheld>) -> bool {
        if let Some(why) = withheld {
            self.metrics.withheld.add(why);
        }
        withheld.is_none()
    }

    /// The ticket for a summary behind a caller's back, if one may be made now. It counts as begun for
    /// as long as the ticket is kept.
    pub(crate) fn begin_behind(&self, mut ticket: Ticket) -> Option<Ticket> {
        let (scopes, scope) = (&self.scopes, ticket.scope);
        let throttled = scopes.of(scope).throttled_until;
        let why = if !self.unused.has_room(scope, ticket.conversation) {
            Some(Withheld::Unused)
        } else if throttled.is_some_and(|until| Instant::now() < until) {
            Some(Withheld::Throttled)
        } else {
            None
        };
        if !self.count(why) || !self.allows(&ticket) {
            return None;
        }
        scopes.change(scope, |state| {
            if state.behind {
                return None;
            }
            ticket.behind = Some(Behind {
                scopes: scopes.clone(),
                scope,
            });
            Some(State {
                behind: true,
                ..state
            })
        });
        ticket.behind.is_some().then_some(ticket)
    }

    /// A chat of this caller was refused: its upstream has too much to do.
    pub(crate) fn chat_was_throttled(&self, scope: Scope) {
        self.scopes.change(scope, |state| {
            Some(State {
                throttled_until: Some(Instant::now() + PAUSE),
                ..state
            })
        });
    }

    /// A job is started, which is paid for at `till`. It counts for as long as what is given back is
    /// kept, and if it was charged for, for an hour.
    pub(crate) fn started(&self, ticket: &Ticket, till: &Arc<Till>) -> Counted {
        self.hourly.count(ticket.scope, ticket.conversation, till)
    }

    /// A job has ended so.
    pub(crate) fn ended(&self, ticket: Ticket, outcome: Result<(), Failure>) {
        let Ticket {
            scope,
            conversation,
            cut,
            tokens,
            failed,
            behind,
        } = ticket;
        match outcome {
            Ok(()) => {
                self.scopes.change(scope, |state| {
                    state.paused_until.map(|_| State {
                        paused_until: None,
                        ..state
                    })
                });
                if behind.is_some() {
                    self.unused.made(scope, conversation, cut);
                }
                if failed.is_some() {
                    self.breaker.forgive(cut, tokens);
                }
            }
            Err(Failure::NothingToAsk) => {}
            Err(Failure::Refused(status)) if is_too_busy(status) => {
                self.scopes.change(scope, |state| {
                    Some(State {
                        paused_until: Some(Instant::now() + PAUSE),
                        ..state
                    })
                });
            }
            Err(
                Failure::NotASummary(_)
                | Failure::Refused(_)
                | Failure::TimedOut
                | Failure::Unreachable,
            ) => self.breaker.fail(cut, failed, tokens),
        }
    }

    /// A request of this conversation with a summary was accepted.
    pub(crate) fn used(&self, scope: Scope, chains: &Chains) {
        self.unused.used(scope, chains.begun());
    }

    /// A request of this conversation that starts from the record `made` was accepted, not the first
    /// to do so: if that summary was made here, it was used by another process first.
    pub(crate) fn in_use(&self, scope: Scope, chains: &Chains, made: RecordKey) {
        if let Some(conversation) = chains.begun()
            && self.unused.last_is(conversation, made)
        {
            self.unused.used(scope, Some(conversation));
        }
    }

    /// How they stand now.
    pub(crate) fn health(&self) -> Health {
        let now = Instant::now();
        let states = || self.scopes.0.iter().map(|(_, state)| state);
        let paused = |state: &State| state.paused_until.is_some_and(|until| now < until);
        let (unused, unused_callers) = self.unused.stopped();
        Health {
            failing: self.breaker.open(),
            paused: states().filter(paused).count(),
            unused,
            unused_callers,
            spent: self.hourly.is_spent(),
            spent_callers: self.hourly.spent_callers(),
        }
    }
}

#[cfg(test)]
mod tests;
