//! Circuit breaker for summaries: after repeated failures, no calls are made for a while.
//!
//! State is keyed by the prefix of history that a summary failed for. It therefore applies to all
//! conversations that extend the prefix, but not to other conversations of the caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::callers::fair_cache::FairCache;
use crate::callers::{AcceptedCallers, FORGET_AFTER};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;

/// Consecutive failures that open the breaker. Without it, sessions made fifty futile calls in a
/// row.
const MAX_FAILURES: u32 = 3;
/// Time until an open breaker lets one call through. One more failure opens it again.
const PAUSE: Duration = Duration::from_mins(5);
/// Growth of a conversation after which an open breaker lets one call through: the larger
/// conversation is a different task.
const GROWTH_PERCENT: u32 = 20;
/// Maximum number of remembered prefixes.
const MAX_PREFIXES: u64 = 4_096;

/// Failures by prefix of history.
pub(super) struct SummaryBackoff(FairCache<RecordKey, FailureStreak>);

/// Consecutive failures of a prefix and the prefixes it extends.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailureStreak {
    /// Consecutive failures.
    count: u32,
    updated_at: Instant,
    /// Size of the conversation at that time.
    tokens: Tokens,
}

impl SummaryBackoff {
    pub(super) fn new(accepted: &Arc<AcceptedCallers>) -> Self {
        Self(FairCache::of_entries(MAX_PREFIXES, FORGET_AFTER, accepted))
    }

    /// Returns the state of the newest recorded prefix of `prefix_keys`, if any.
    pub(super) fn streak(&self, prefix_keys: &PrefixKeys) -> Option<FailureStreak> {
        prefix_keys.newest_first().find_map(|(_, key)| self.0.get(&key))
    }

    /// Returns the number of prefixes that are blocked at the moment, ignoring growth.
    pub(super) fn open_count(&self) -> usize {
        self.0.count(|failed| failed.is_open(failed.tokens))
    }

    /// Records a failed summary up to `cut`, for a conversation of `tokens` with the earlier state
    /// `before`.
    pub(super) fn record_failure(
        &self,
        cut: RecordKey,
        before: Option<FailureStreak>,
        tokens: Tokens,
    ) {
        let count = before.map_or(0, |before| before.count) + 1;
        self.insert(cut, count, tokens);
    }

    /// Records a successful summary up to `cut`, which resets the failure count.
    pub(super) fn record_success(&self, cut: RecordKey, tokens: Tokens) {
        self.insert(cut, 0, tokens);
    }

    fn insert(&self, cut: RecordKey, count: u32, tokens: Tokens) {
        let updated_at = Instant::now();
        let streak = FailureStreak { count, updated_at, tokens };
        self.0.insert(cut, streak);
    }
}

impl FailureStreak {
    /// Whether calls are blocked for a conversation that now has `tokens`.
    pub(super) fn is_open(&self, tokens: Tokens) -> bool {
        self.count >= MAX_FAILURES
            && self.updated_at.elapsed() < PAUSE
            && tokens < self.tokens.percent(100 + GROWTH_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::dialect::chat_completions::read;
    use longhaul_core::units::scope::Scope;

    use super::*;

    /// Anyone can make up credentials and histories whose summary fails.
    #[tokio::test]
    async fn failures_of_made_up_callers_end_no_pause_of_an_accepted_one() {
        let accepted = Arc::<AcceptedCallers>::default();
        let scope = |name: u32| Scope::new(&[0; 32], &[&name.to_le_bytes()]);
        accepted.insert_alone(scope(0).tag());
        let backoff = SummaryBackoff::new(&accepted);
        let body =
            br#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
        let prefix_keys = PrefixKeys::new(&read(body).unwrap(), scope(0));
        let (_, cut) = prefix_keys.newest().unwrap();
        let tokens = Tokens::new(10_000);
        for _ in 0..MAX_FAILURES {
            backoff.record_failure(cut, backoff.streak(&prefix_keys), tokens);
        }
        for caller in 1..=2 * u32::try_from(MAX_PREFIXES).unwrap() {
            // A second use makes the newer entry the one that is worth keeping.
            for _ in 0..2 {
                backoff.record_failure(scope(caller).named_key(""), None, tokens);
            }
        }
        let streak = backoff.streak(&prefix_keys).unwrap();
        assert!(streak.is_open(tokens));
    }
}
