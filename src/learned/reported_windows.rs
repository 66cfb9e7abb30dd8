//! Windows reported by the upstream, queried in the background for the chats that need them.
//!
//! A query starts after a chat was answered. The credentials are then valid, and a server that
//! loads models on demand has loaded this one. An answer counts for every caller: a model's window
//! is not secret and does not depend on the caller. Only a refusal of the credentials does. Another
//! caller may then query again; if that caller is refused, too, no query starts for a while.

pub(crate) mod formats;
pub(crate) mod query;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::learned::reported_windows::query::{WindowAnswer, WindowQuery};
use crate::upstream::Upstream;
use crate::wall_clock;
use longhaul_core::collections::two_generation_cache::TwoGenerationCache;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::Timestamped;
use parking_lot::Mutex;

/// Models per cache generation: the answers for at least this many are remembered, for at most
/// twice as many. A client may name any model.
const MODELS_PER_GENERATION: usize = 512;
/// Maximum queries in flight, each for another model.
const MAX_IN_FLIGHT: usize = 4;
/// Delay after an answer: an operator may restart a local server with another window.
const REFRESH_AFTER: Duration = Duration::from_hours(1);
/// Delay after a failed query.
const RETRY_AFTER: Duration = Duration::from_mins(10);

/// The windows that one upstream reports for its models.
#[derive(Clone)]
pub(crate) struct ReportedWindows {
    by_model: Arc<Mutex<TwoGenerationCache<String, ReportedWindow>>>,
    /// Models with a query in flight.
    in_flight: Arc<Mutex<HashSet<String>>>,
}

/// The last reported window of a model, and the outcome of the last query.
#[derive(Clone, Copy, Debug)]
struct ReportedWindow {
    /// `None` until the upstream has answered; `None` inside if it reported no window.
    window: Option<Timestamped<Option<Tokens>>>,
    last_query: LastQuery,
    queried_at: Instant,
}

/// The outcome of a query, as far as it decides when the next is due.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LastQuery {
    /// Answered, with or without a window.
    Answered,
    /// Not answered, or refused for two callers.
    Failed,
    /// Refused for this caller.
    Refused(Scope),
}

impl LastQuery {
    /// Returns the outcome after the upstream refused `scope`. After a second refused caller, no
    /// other may query at once: two callers would otherwise alternate forever.
    fn after_refusal(before: Option<Self>, scope: Scope) -> Self {
        match before {
            Some(Self::Refused(other)) if other != scope => Self::Failed,
            Some(Self::Answered | Self::Failed | Self::Refused(_)) | None => Self::Refused(scope),
        }
    }
}

impl Default for ReportedWindows {
    fn default() -> Self {
        Self {
            by_model: Arc::new(Mutex::new(TwoGenerationCache::new(MODELS_PER_GENERATION))),
            in_flight: Arc::default(),
        }
    }
}

impl ReportedWindows {
    /// Returns the window that the upstream reports for `model`, if any.
    pub(crate) fn window(&self, model: &str) -> Option<Tokens> {
        self.timestamped_window(model)?.what
    }

    /// Returns the reported window of `model` with its time, for other processes.
    pub(crate) fn timestamped_window(&self, model: &str) -> Option<Timestamped<Option<Tokens>>> {
        self.by_model.lock().get(model)?.window
    }

    /// Merges the window of `model` that another process received, if any. This process still
    /// queries at its own time.
    pub(crate) fn merge_remote(&self, model: &str, window: Option<Timestamped<Option<Tokens>>>) {
        let mut all = self.by_model.lock();
        let before = all.get(model);
        if window <= before.and_then(|said| said.window) {
            return;
        }
        let (last, at) = before.map_or_else(
            || (LastQuery::Failed, Instant::now()),
            |said| (said.last_query, said.queried_at),
        );
        all.insert(
            model.to_owned(),
            ReportedWindow {
                window,
                last_query: last,
                queried_at: at,
            },
        );
    }

    /// Whether a query for `model` is due that `scope` may send.
    pub(crate) fn is_due(&self, model: &str, scope: Scope) -> bool {
        self.by_model.lock().get(model).is_none_or(|said| {
            let since = said.queried_at.elapsed();
            match said.last_query {
                LastQuery::Answered => since >= REFRESH_AFTER,
                LastQuery::Failed => since >= RETRY_AFTER,
                LastQuery::Refused(other) => other != scope || since >= RETRY_AFTER,
            }
        })
    }

    /// Starts a query in the background, unless one for this model or too many are in flight.
    pub(crate) fn query_in_background(
        &self,
        question: WindowQuery,
        scope: Scope,
        upstream: &Arc<Upstream>,
    ) {
        let Some(open) = QueryGuard::try_begin(&self.in_flight, &question.model) else {
            return;
        };
        let (said, upstream) = (Arc::clone(&self.by_model), Arc::clone(upstream));
        tokio::spawn(async move {
            let asked = question.run(&upstream).await;
            tracing::info!(
                host = question.host(),
                models = asked.models_listed,
                outcome = asked.answer.label(),
                "queried the upstream for the model's window"
            );
            record_answer(&mut said.lock(), question.model, asked.answer, scope);
            // The next query may begin only now.
            drop(open);
        });
    }
}

/// Records the answer that `scope` received.
fn record_answer(
    all: &mut TwoGenerationCache<String, ReportedWindow>,
    model: String,
    answer: WindowAnswer,
    scope: Scope,
) {
    let before = all.get(&model);
    let known = before.and_then(|said| said.window);
    let says = |what| {
        Some(Timestamped::superseding(
            known,
            wall_clock::unix_millis(),
            what,
        ))
    };
    let (window, last) = match answer {
        WindowAnswer::Window(tokens) => (says(Some(tokens)), LastQuery::Answered),
        WindowAnswer::NoWindow => (says(None), LastQuery::Answered),
        // An earlier answer stays valid until another replaces it.
        WindowAnswer::Failed => (known, LastQuery::Failed),
        WindowAnswer::Unauthorized => (
            known,
            LastQuery::after_refusal(before.map(|said| said.last_query), scope),
        ),
    };
    let at = Instant::now();
    all.insert(
        model,
        ReportedWindow {
            window,
            last_query: last,
            queried_at: at,
        },
    );
}

/// A query in flight; dropping it ends the query.
struct QueryGuard {
    in_flight: Arc<Mutex<HashSet<String>>>,
    model: String,
}

impl QueryGuard {
    fn try_begin(all: &Arc<Mutex<HashSet<String>>>, model: &str) -> Option<Self> {
        let mut open = all.lock();
        let free = open.len() < MAX_IN_FLIGHT && !open.contains(model);
        free.then(|| {
            open.insert(model.to_owned());
            Self {
                in_flight: Arc::clone(all),
                model: model.to_owned(),
            }
        })
    }
}

impl Drop for QueryGuard {
    fn drop(&mut self) {
        self.in_flight.lock().remove(&self.model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(name: &str) -> Scope {
        Scope::new(&[0; 32], &[name.as_bytes()])
    }

    async fn check(last: LastQuery, same: Option<Duration>, other: Option<Duration>) {
        for (caller, due) in [(scope("one"), same), (scope("other"), other)] {
            let asked = ReportedWindows::default();
            assert!(asked.is_due("m", caller));
            let at = Instant::now();
            let window = None;
            asked.by_model.lock().insert(
                "m".into(),
                ReportedWindow {
                    window,
                    last_query: last,
                    queried_at: at,
                },
            );
            if let Some(due) = due {
                tokio::time::advance(due.checked_sub(Duration::from_secs(1)).unwrap()).await;
                assert!(!asked.is_due("m", caller), "{last:?}");
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            assert!(asked.is_due("m", caller), "{last:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_repeated_after_an_hour_and_after_a_failure_sooner() {
        check(
            LastQuery::Answered,
            Some(REFRESH_AFTER),
            Some(REFRESH_AFTER),
        )
        .await;
        check(LastQuery::Failed, Some(RETRY_AFTER), Some(RETRY_AFTER)).await;
        check(LastQuery::Refused(scope("one")), Some(RETRY_AFTER), None).await;
    }

    #[tokio::test(start_paused = true)]
    async fn callers_who_are_refused_in_turn_do_not_ask_without_end() {
        let asked = ReportedWindows::default();
        let callers = [scope("one"), scope("other")];
        for _ in 0..2 {
            for caller in callers {
                assert!(asked.is_due("m", caller));
                record_answer(
                    &mut asked.by_model.lock(),
                    "m".into(),
                    WindowAnswer::Unauthorized,
                    caller,
                );
            }
            assert_eq!(callers.map(|caller| asked.is_due("m", caller)), [false; 2]);
            tokio::time::advance(RETRY_AFTER).await;
        }
    }

    #[tokio::test]
    async fn of_what_two_were_told_the_later_counts_for_both() {
        let (one, other) = (ReportedWindows::default(), ReportedWindows::default());
        let said = |at, window| {
            Some(Timestamped::superseding(
                None,
                at,
                Some(Tokens::new(window)),
            ))
        };
        one.merge_remote("m", said(1, 8_000));
        other.merge_remote("m", said(2, 4_000));
        let (ones, others) = (one.timestamped_window("m"), other.timestamped_window("m"));
        one.merge_remote("m", others);
        other.merge_remote("m", ones);
        other.merge_remote("m", None);
        assert_eq!(one.window("m"), Some(Tokens::new(4_000)));
        assert_eq!(other.window("m"), Some(Tokens::new(4_000)));
    }

    #[test]
    fn only_so_many_questions_are_under_way_and_one_for_each_model() {
        let all = Arc::default();
        let first = QueryGuard::try_begin(&all, "0").unwrap();
        assert!(QueryGuard::try_begin(&all, "0").is_none());
        let rest: Vec<QueryGuard> = (1..MAX_IN_FLIGHT)
            .map(|at| QueryGuard::try_begin(&all, &at.to_string()).unwrap())
            .collect();
        assert!(QueryGuard::try_begin(&all, "more").is_none());
        drop(first);
        assert!(QueryGuard::try_begin(&all, "more").is_some());
        drop(rest);
    }
}
