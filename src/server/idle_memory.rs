//! Returns memory to the system while no request comes.
//!
//! After a load, most memory is parsed messages and what the C library keeps for the next load. Both stay as
//! long as requests come: memory that was returned must be cleared by the kernel, page by page, to be used again.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::metrics::Metrics;
use crate::server::ReloadableProxy;

/// Time between two readings of the metrics. Memory is released once two readings show no request, which takes
/// this time at least, and twice this time at most. An agent pauses so long only for a person, who does not
/// notice that a history is parsed again.
const IDLE: Duration = Duration::from_mins(2);

/// Releases memory once in each idle time. Never ends.
pub(super) async fn release_when_idle(current: ReloadableProxy) {
    let mut watch = IdleWatch::default();
    loop {
        sleep(IDLE).await;
        let state = current.state();
        if watch.is_newly_idle(Activity::of(&state.metrics)) {
            state.parse_caches.clear();
            _ = spawn_blocking(return_free_memory).await;
            state.metrics.idle_releases.add(1_u64);
        }
    }
}

/// Requests of a proxy at one time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Activity {
    in_flight: u64,
    ended: u64,
}

impl Activity {
    fn of(metrics: &Metrics) -> Self {
        Self {
            in_flight: metrics.in_flight.get(),
            ended: metrics.requests.iter().map(|(_, count)| count).sum(),
        }
    }
}

/// Finds the first of several equal readings of an idle proxy.
#[derive(Debug, Default)]
struct IdleWatch {
    last: Activity,
    /// Number of requests that had ended when memory was last released.
    released_at: u64,
}

impl IdleWatch {
    /// Records the activity `now`. Returns whether no request was in progress since the last record, and some
    /// have ended since this method last returned `true`.
    fn is_newly_idle(&mut self, now: Activity) -> bool {
        let is_idle = now.in_flight == 0 && now == self.last && now.ended != self.released_at;
        self.last = now;
        if is_idle {
            self.released_at = now.ended;
        }
        is_idle
    }
}

/// Returns freed pages of all arenas to the kernel.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no safe interface")]
fn return_free_memory() {
    // SAFETY: `malloc_trim` takes a number, has no preconditions, and locks each arena that it walks.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: other C libraries have no such call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn return_free_memory() {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::metrics::Ending;
    use crate::proxy_state::ProxyState;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn memory_is_released_once_in_each_idle_time() {
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        let current = ReloadableProxy::new(ProxyState::new(config).unwrap(), None);
        let metrics = Arc::clone(&current.state().metrics);
        let _releasing = tokio::spawn(release_when_idle(current));
        for (requests, releases) in [(0, 0), (1, 1), (0, 1), (3, 2)] {
            for _ in 0..requests {
                metrics.requests.add(Ending::Complete);
            }
            sleep(3 * IDLE).await;
            assert_eq!(metrics.idle_releases.get(), releases);
        }
    }

    #[test]
    fn memory_is_released_once_after_two_equal_readings_without_a_request() {
        let reading = |in_flight, ended| Activity { in_flight, ended };
        let mut watch = IdleWatch::default();
        for (now, is_released) in [
            (reading(0, 0), false),
            (reading(0, 0), false),
            (reading(1, 7), false),
            (reading(1, 7), false),
            (reading(0, 8), false),
            (reading(0, 8), true),
            (reading(0, 8), false),
            (reading(0, 9), false),
            (reading(0, 9), true),
        ] {
            assert_eq!(watch.is_newly_idle(now), is_released, "{now:?}");
        }
    }
}
