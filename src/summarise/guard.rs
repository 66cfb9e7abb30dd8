//! What keeps summaries from doing harm: a breaker, a pause after throttling, one at a time behind
//! a caller's back, and caps on what is asked for in an hour.

mod breaker;
mod hourly;

use std::time::Duration;

use http::StatusCode;
use moka::sync::Cache;
use tokio::time::Instant;

use super::Failure;
use crate::rewrite::chain::{Chains, RecordKey, Scope};
use crate::rewrite::tokens::Tokens;
use breaker::{Breaker, Failed};
use hourly::Hourly;

/// Summaries made behind a caller's back that nobody has used; after so many no more are made
/// until one is.
const UNUSED: u32 = 3;
/// How long nobody is asked after an upstream said that it has too much to do.
const PAUSE: Duration = Duration::from_mins(5);
/// Callers remembered at once.
const SCOPES: u64 = 4_096;

/// How summaries have gone.
pub(crate) struct Guards {
    scopes: Cache<Scope, State>,
    breaker: Breaker,
    hourly: Hourly,
}

/// How those of one caller have gone.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Summaries made behind the caller's back since one was last used.
    unused: u32,
    paused_until: Option<Instant>,
    /// When a job behind this caller's back was started that has not ended.
    behind: Option<Instant>,
}

/// What keeps summaries from being asked for at the moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Health {
    /// Places in histories where several failed in a row, of late: nobody is asked for what has grown
    /// out of them.
    pub(crate) failing: usize,
    /// Callers whose upstream has too much to do.
    pub(crate) paused: usize,
    /// Callers for whom none is made ahead: the last ones were of no use.
    pub(crate) unused: usize,
    /// Whether the process has asked for as many as it may in an hour.
    pub(crate) spent: bool,
}

/// One summary that is thought of: whose, of which conversation, up to where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    scope: Scope,
    /// The shortest prefix of the conversation: what it is known by as it grows.
    conversation: RecordKey,
    cut: RecordKey,
    tokens: Tokens,
    failed: Option<Failed>,
}

impl Guards {
    /// Guards under which a conversation may ask for so many summaries an hour.
    pub(crate) fn new(per_hour: usize) -> Self {
        Self {
            scopes: Cache::new(SCOPES),
            breaker: Breaker::default(),
            hourly: Hourly::new(per_hour),
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
            conversation: chains.oldest().unwrap_or(cut),
            cut,
            tokens,
            failed: self.breaker.of(chains),
        }
    }

    /// Whether a client may wait for a summary now.
    pub(crate) fn allow(&self, ticket: &Ticket) -> bool {
        let paused = self.state(ticket.scope).paused_until;
        paused.is_none_or(|until| Instant::now() >= until)
            && ticket
                .failed
                .is_none_or(|failed| !failed.is_open(ticket.tokens))
            && self.hourly.has_room(ticket.conversation)
    }

    /// Whether a summary may be made behind a caller's back now. If so it counts as begun.
    pub(crate) fn begin_behind(&self, ticket: &Ticket) -> bool {
        let mut state = self.state(ticket.scope);
        let busy = state.behind.is_some_and(|since| since.elapsed() < PAUSE);
        if busy || state.unused >= UNUSED || !self.allow(ticket) {
            return false;
        }
        state.behind = Some(Instant::now());
        self.scopes.insert(ticket.scope, state);
        true
    }

    /// A job is started.
    pub(crate) fn started(&self, ticket: &Ticket) {
        self.hourly.count(ticket.conversation);
    }

    /// A job has ended so.
    pub(crate) fn ended(&self, ticket: &Ticket, outcome: Result<(), Failure>) {
        let mut state = self.state(ticket.scope);
        let behind = state.behind.take().is_some();
        match outcome {
            Ok(()) => {
                state.unused += u32::from(behind);
                state.paused_until = None;
                if ticket.failed.is_some() {
                    self.breaker.forgive(ticket.cut, ticket.tokens);
                }
            }
            Err(Failure::NothingToAsk) => {}
            Err(Failure::Refused(
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE,
            )) => state.paused_until = Some(Instant::now() + PAUSE),
            Err(
                Failure::NotASummary(_)
                | Failure::Refused(_)
                | Failure::TimedOut
                | Failure::Unreachable,
            ) => self.breaker.fail(ticket.cut, ticket.failed, ticket.tokens),
        }
        self.scopes.insert(ticket.scope, state);
    }

    /// A job has ended without a call: another process has made the summary.
    pub(crate) fn spared(&self, ticket: &Ticket) {
        let state = self.state(ticket.scope);
        self.scopes.insert(
            ticket.scope,
            State {
                behind: None,
                ..state
            },
        );
    }

    /// A request with a summary was accepted.
    pub(crate) fn used(&self, scope: Scope) {
        if let Some(state) = self.scopes.get(&scope).filter(|state| state.unused > 0) {
            self.scopes.insert(scope, State { unused: 0, ..state });
        }
    }

    /// How they stand now.
    pub(crate) fn health(&self) -> Health {
        let now = Instant::now();
        let states = || self.scopes.iter().map(|(_, state)| state);
        let paused = |state: &State| state.paused_until.is_some_and(|until| now < until);
        Health {
            failing: self.breaker.open(),
            paused: states().filter(paused).count(),
            unused: states().filter(|state| state.unused >= UNUSED).count(),
            spent: self.hourly.is_spent(),
        }
    }

    fn state(&self, scope: Scope) -> State {
        self.scopes.get(&scope).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
