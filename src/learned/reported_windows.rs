//! Windows reported by the upstream, queried in the background for the chats that need them.
//!
//! A query starts after a chat was answered. The credentials are then valid, and a server that
//! loads models on demand has loaded this one. An answer counts for the caller whose credentials
//! were sent. If longhaul's own key was sent, the answer counts for all callers.

pub(crate) mod formats;
pub(crate) mod query;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::learned::MODELS_PER_CALLER;
use crate::learned::reported_windows::query::{WindowAnswer, WindowQuery};
use crate::upstream::Upstream;
use crate::wall_clock;
use longhaul_core::collections::two_generation_cache::TwoGenerationCache;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::Timestamped;
use parking_lot::Mutex;

/// Maximum queries in flight to one upstream, each for another caller.
const MAX_IN_FLIGHT: usize = 16;
/// Capacity per generation for windows learned with longhaul's own key: twice the longest known list.
const LISTED_MODELS: usize = 8_192;
/// Delay after an answer: an operator may restart a local server with another window.
const REFRESH_AFTER: Duration = Duration::from_hours(1);
const RETRY_AFTER: Duration = Duration::from_mins(10);

pub(crate) type QueriesInFlight = Arc<Mutex<HashSet<Scope>>>;

pub(crate) struct ReportedWindows {
    /// The reported window of each model; the inner `None` if the upstream reported none.
    windows: Mutex<TwoGenerationCache<String, Timestamped<Option<Tokens>>>>,
    /// When the next query for each model is due.
    due_at: Mutex<TwoGenerationCache<String, Instant>>,
    /// Whether the answers count for all callers.
    is_shared: bool,
}

impl Default for ReportedWindows {
    /// Windows for one caller.
    fn default() -> Self {
        Self::new(MODELS_PER_CALLER, false)
    }
}

impl ReportedWindows {
    fn new(models: usize, is_shared: bool) -> Self {
        Self {
            windows: Mutex::new(TwoGenerationCache::new(models)),
            due_at: Mutex::new(TwoGenerationCache::new(models)),
            is_shared,
        }
    }

    /// Creates windows for all callers, from answers to longhaul's own key. A caller that names models
    /// which the upstream does not list evicts no window.
    pub(crate) fn shared() -> Self {
        Self::new(LISTED_MODELS, true)
    }

    pub(crate) fn window(&self, model: &str) -> Option<Tokens> {
        self.timestamped_window(model)?.value
    }

    /// Returns the reported window of `model` with its time, for other processes.
    pub(crate) fn timestamped_window(&self, model: &str) -> Option<Timestamped<Option<Tokens>>> {
        self.windows.lock().get(model)
    }

    /// Merges the window of `model` that another process received, if any. This process still
    /// queries at its own time.
    pub(crate) fn merge_remote(&self, model: &str, window: Option<Timestamped<Option<Tokens>>>) {
        let mut windows = self.windows.lock();
        if let Some(window) = window.filter(|window| Some(*window) > windows.get(model)) {
            windows.insert(model.to_owned(), window);
        }
    }

    pub(crate) fn is_due(&self, model: &str) -> bool {
        let due_at = self.due_at.lock().get(model);
        due_at.is_none_or(|at| Instant::now() >= at)
    }

    /// Starts a query in the background, unless the caller with this scope has one in flight, or
    /// too many are.
    pub(crate) fn query_in_background(
        self: &Arc<Self>,
        query: WindowQuery,
        scope: Scope,
        in_flight: &QueriesInFlight,
        upstream: &Arc<Upstream>,
    ) {
        let Some(guard) = QueryGuard::try_begin(in_flight, scope) else {
            return;
        };
        let (windows, upstream) = (Arc::clone(self), Arc::clone(upstream));
        tokio::spawn(async move {
            let outcome = query.run(&upstream).await;
            tracing::info!(
                host = query.host(),
                models = outcome.models_listed,
                outcome = outcome.answer.label(),
                "queried the upstream for the model's window"
            );
            windows.record_answer(query.model, outcome.answer);
            // The next query may begin only now.
            drop(guard);
        });
    }

    fn record_answer(&self, model: String, answer: WindowAnswer) {
        let (window, pause) = match answer {
            WindowAnswer::Window(tokens) => (Some(Some(tokens)), REFRESH_AFTER),
            WindowAnswer::NoWindow => (Some(None), REFRESH_AFTER),
            // An earlier answer stays valid until another replaces it.
            WindowAnswer::Failed | WindowAnswer::Unauthorized => (None, RETRY_AFTER),
        };
        self.due_at.lock().insert(model.clone(), Instant::now() + pause);
        let Some(window) = window else { return };
        let mut windows = self.windows.lock();
        let before = windows.get(&model);
        if window.is_some() || before.is_some() || !self.is_shared {
            let now = wall_clock::unix_millis();
            let reported = Timestamped::superseding(before, now, window);
            windows.insert(model, reported);
        }
    }
}

/// A query in flight; dropping it ends the query.
struct QueryGuard {
    in_flight: QueriesInFlight,
    scope: Scope,
}

impl QueryGuard {
    fn try_begin(in_flight: &QueriesInFlight, scope: Scope) -> Option<Self> {
        let mut open = in_flight.lock();
        (open.len() < MAX_IN_FLIGHT && open.insert(scope))
            .then(|| Self { in_flight: Arc::clone(in_flight), scope })
    }
}

impl Drop for QueryGuard {
    fn drop(&mut self) {
        self.in_flight.lock().remove(&self.scope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(name: &str) -> Scope {
        Scope::new(&[0; 32], &[name.as_bytes()])
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_a_query_after_an_hour_and_sooner_after_a_failure() {
        for (answer, interval) in [
            (WindowAnswer::NoWindow, REFRESH_AFTER),
            (WindowAnswer::Failed, RETRY_AFTER),
            (WindowAnswer::Unauthorized, RETRY_AFTER),
        ] {
            let reported = ReportedWindows::default();
            assert!(reported.is_due("m"));
            reported.record_answer("m".into(), answer);
            let almost = interval.checked_sub(Duration::from_secs(1)).unwrap();
            tokio::time::advance(almost).await;
            assert!(!reported.is_due("m"), "{answer:?}");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(reported.is_due("m"), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn unlisted_models_evict_no_shared_window() {
        let reported = ReportedWindows::shared();
        let window = Tokens::new(8_000);
        reported.record_answer("m".into(), WindowAnswer::Window(window));
        for unlisted in 0..3 * LISTED_MODELS {
            reported.record_answer(unlisted.to_string(), WindowAnswer::NoWindow);
        }
        assert_eq!(reported.window("m"), Some(window));
        assert_eq!(reported.timestamped_window("0"), None);
        reported.record_answer("m".into(), WindowAnswer::NoWindow);
        assert_eq!(reported.window("m"), None);
    }

    #[tokio::test]
    async fn merging_keeps_the_later_reported_window_on_both_sides() {
        let (one, other) = (ReportedWindows::default(), ReportedWindows::default());
        let report =
            |at, window| Some(Timestamped::superseding(None, at, Some(Tokens::new(window))));
        one.merge_remote("m", report(1, 8_000));
        other.merge_remote("m", report(2, 4_000));
        let (ones, others) = (one.timestamped_window("m"), other.timestamped_window("m"));
        one.merge_remote("m", others);
        other.merge_remote("m", ones);
        other.merge_remote("m", None);
        assert_eq!(one.window("m"), Some(Tokens::new(4_000)));
        assert_eq!(other.window("m"), Some(Tokens::new(4_000)));
    }

    #[test]
    fn bounds_the_queries_in_flight_to_one_for_each_caller() {
        let all = QueriesInFlight::default();
        let begin = |name: &str| QueryGuard::try_begin(&all, scope(name));
        let first = begin("0").unwrap();
        assert!(begin("0").is_none());
        let others: Vec<QueryGuard> =
            (1..MAX_IN_FLIGHT).map(|at| begin(&at.to_string()).unwrap()).collect();
        assert!(begin("more").is_none());
        drop(first);
        assert!(begin("more").is_some());
        drop(others);
    }
}
