//! Upgrades to a WebSocket that were refused, until the client speaks HTTP.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::FairCache;
use longhaul_core::units::scope::{RecordKey, Scope};

/// Maximum sessions whose refusal is remembered.
const MAX_REFUSED: u64 = 4_096;
/// Time in which a second upgrade counts as a repetition. Codex repeats a failed one within seconds.
const REPEATED_WITHIN: Duration = Duration::from_mins(1);
/// Fields by which Codex names its session, newest first.
const SESSION_FIELDS: [&str; 3] = ["session-id", "session_id", "x-client-request-id"];

/// Sessions whose last request was an upgrade that longhaul refused, and the time of the refusal.
pub(crate) struct RefusedUpgrades(FairCache<RecordKey, Instant>);

impl RefusedUpgrades {
    pub(crate) fn new(accepted: &Arc<AcceptedCallers>) -> Self {
        Self(FairCache::of_entries(MAX_REFUSED, REPEATED_WITHIN, accepted))
    }

    /// Whether to refuse an upgrade of this session. A repetition is not refused: a client that does not
    /// fall back to HTTP could not connect at all.
    pub(crate) fn refuse(&self, scope: Scope, headers: &HeaderMap) -> bool {
        let now = Instant::now();
        let mut is_first = true;
        self.0.update(session_key(scope, headers), |refused_at| {
            let age = refused_at.map(|at| now.duration_since(at));
            is_first = age.is_none_or(|age| age >= REPEATED_WITHIN);
            is_first.then_some(now)
        });
        is_first
    }

    /// Records that this session speaks HTTP. Clients without a named session share one, so that the
    /// requests of one client prove nothing about another.
    pub(crate) fn record_http(&self, scope: Scope, headers: &HeaderMap) {
        if session_name(headers).is_some() {
            self.0.remove(&session_key(scope, headers));
        }
    }
}

/// Returns the key of a caller's session. Callers that name no session have a single key.
fn session_key(scope: Scope, headers: &HeaderMap) -> RecordKey {
    scope.named_key(session_name(headers).unwrap_or_default())
}

/// Returns the name of a session; `None` if no field names it.
fn session_name(headers: &HeaderMap) -> Option<&str> {
    let mut fields = SESSION_FIELDS.iter();
    fields.find_map(|field| headers.get(*field)?.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn allows_only_a_repeated_upgrade_without_http_in_between() {
        let refused = RefusedUpgrades::new(&Arc::default());
        let scope = Scope::new(&[0; 32], &[b"a"]);
        let mut one = HeaderMap::new();
        one.insert("session-id", "one".parse().unwrap());
        let other = HeaderMap::new();
        assert!(refused.refuse(scope, &one));
        assert!(refused.refuse(scope, &other));
        assert!(refused.refuse(Scope::new(&[0; 32], &[b"b"]), &one));
        assert!(!refused.refuse(scope, &one));
        refused.record_http(scope, &one);
        assert!(refused.refuse(scope, &one));
        assert!(!refused.refuse(scope, &other));
        refused.record_http(scope, &other);
        assert!(!refused.refuse(scope, &other));
        tokio::time::advance(REPEATED_WITHIN).await;
        assert!(refused.refuse(scope, &other), "a minute after the first");
    }
}
