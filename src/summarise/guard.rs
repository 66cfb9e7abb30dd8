//! What keeps summaries from doing harm: a breaker, a pause after throttling, one at a time behind
//! a caller's back, and a cap on what a process asks for in an hour.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use moka::sync::Cache;
use tokio::time::Instant;

use super::Failure;
use crate::rewrite::chain::Scope;

/// Failures in a row after which nobody is asked. Without it, sessions have sent fifty in a row
/// (compaction complaint 1).
const FAILURES: u32 = 3;
/// Summaries made behind a caller's back that nobody has used; after so many no more are made
/// until one is.
const UNUSED: u32 = 3;
/// How long nobody is asked then, and after an upstream said that it has too much to do.
const PAUSE: Duration = Duration::from_mins(5);
/// Callers remembered at once.
const SCOPES: u64 = 4_096;
/// Summaries that a process asks for in an hour; past it the digest serves.
const PER_HOUR: usize = 120;
const HOUR: Duration = Duration::from_hours(1);

/// How callers' summaries have gone.
pub(crate) struct Guards {
    scopes: Cache<Scope, State>,
    /// When the last jobs were started.
    started: Mutex<VecDeque<Instant>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    failures: u32,
    /// Summaries made behind the caller's back since one was last used.
    unused: u32,
    paused_until: Option<Instant>,
    /// When a job behind this caller's back was started that has not ended.
    behind: Option<Instant>,
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            scopes: Cache::new(SCOPES),
            started: Mutex::default(),
        }
    }
}

impl Guards {
    /// Whether a client may wait for a summary now.
    pub(crate) fn allow(&self, scope: Scope) -> bool {
        let state = self.scopes.get(&scope).unwrap_or_default();
        state
            .paused_until
            .is_none_or(|until| Instant::now() >= until)
            && self.has_room()
    }

    /// Whether a summary may be made behind a caller's back now. If so it counts as begun.
    pub(crate) fn begin_behind(&self, scope: Scope) -> bool {
        let mut state = self.scopes.get(&scope).unwrap_or_default();
        let busy = state.behind.is_some_and(|since| since.elapsed() < PAUSE);
        if busy || state.unused >= UNUSED || !self.allow(scope) {
            return false;
        }
        state.behind = Some(Instant::now());
        self.scopes.insert(scope, state);
        true
    }

    /// A job is started.
    pub(crate) fn started(&self) {
        self.started
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(Instant::now());
    }

    /// A job has ended so.
    pub(crate) fn ended(&self, scope: Scope, outcome: Result<(), Failure>) {
        let mut state = self.scopes.get(&scope).unwrap_or_default();
        let behind = state.behind.take().is_some();
        match outcome {
            Ok(()) => {
                let unused = state.unused + u32::from(behind);
                state = State {
                    unused,
                    ..State::default()
                };
            }
            Err(Failure::NothingToAsk) => {}
            Err(failure) => {
                state.failures += 1;
                let throttled = matches!(
                    failure,
                    Failure::Refused(
                        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
                    )
                );
                if throttled || state.failures >= FAILURES {
                    // When the pause is over one more is asked: one more failure pauses again.
                    state.paused_until = Some(Instant::now() + PAUSE);
                }
            }
        }
        self.scopes.insert(scope, state);
    }

    /// A request with a summary was accepted.
    pub(crate) fn used(&self, scope: Scope) {
        if let Some(state) = self.scopes.get(&scope).filter(|state| state.unused > 0) {
            self.scopes.insert(scope, State { unused: 0, ..state });
        }
    }

    fn has_room(&self) -> bool {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        while started.front().is_some_and(|at| at.elapsed() >= HOUR) {
            started.pop_front();
        }
        started.len() < PER_HOUR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(number: u8) -> Scope {
        Scope::new(&[number; 32], &[])
    }

    #[tokio::test(start_paused = true)]
    async fn three_failures_pause_the_caller_they_met_and_nobody_else() {
        let guards = Guards::default();
        for _ in 0..FAILURES {
            assert!(guards.allow(scope(1)));
            guards.ended(scope(1), Err(Failure::TimedOut));
        }
        assert!(!guards.allow(scope(1)) && guards.allow(scope(2)));
        tokio::time::advance(PAUSE).await;
        assert!(guards.allow(scope(1)), "half open");
        guards.ended(scope(1), Err(Failure::TimedOut));
        assert!(!guards.allow(scope(1)), "and closed again at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_upstream_is_left_alone_at_once() {
        let guards = Guards::default();
        guards.ended(
            scope(1),
            Err(Failure::Refused(StatusCode::TOO_MANY_REQUESTS)),
        );
        assert!(!guards.allow(scope(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_to_ask_is_no_failure_and_success_forgives() {
        let guards = Guards::default();
        for _ in 0..10 {
            guards.ended(scope(1), Err(Failure::NothingToAsk));
        }
        guards.ended(scope(1), Err(Failure::Unreachable));
        guards.ended(scope(1), Err(Failure::Unreachable));
        guards.ended(scope(1), Ok(()));
        guards.ended(scope(1), Err(Failure::Unreachable));
        assert!(guards.allow(scope(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_is_made_behind_a_callers_back() {
        let guards = Guards::default();
        assert!(guards.begin_behind(scope(1)));
        assert!(!guards.begin_behind(scope(1)));
        assert!(guards.begin_behind(scope(2)));
        guards.ended(scope(1), Ok(()));
        assert!(guards.begin_behind(scope(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_uses_is_not_made_again() {
        let guards = Guards::default();
        for _ in 0..UNUSED {
            assert!(guards.begin_behind(scope(1)));
            guards.ended(scope(1), Ok(()));
        }
        assert!(!guards.begin_behind(scope(1)));
        assert!(guards.allow(scope(1)), "one that is waited for is used");
        guards.used(scope(1));
        assert!(guards.begin_behind(scope(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_has_its_cap() {
        let guards = Guards::default();
        for _ in 0..PER_HOUR {
            guards.started();
        }
        assert!(!guards.allow(scope(1)));
        tokio::time::advance(HOUR).await;
        assert!(guards.allow(scope(1)));
    }
}
