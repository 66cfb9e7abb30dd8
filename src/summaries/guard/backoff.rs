//! Circuit breaker for summaries: after repeated failures, no calls are made for a while.
//!
//! State is keyed by the prefix of history that a summary failed for. It therefore applies to all
//! conversations that extend the prefix, but not to other conversations of the caller.

use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;

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
pub(super) struct SummaryBackoff {
    streaks: Cache<RecordKey, FailureStreak>,
}

/// Consecutive failures of a prefix and the prefixes it extends.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailureStreak {
    /// Consecutive failures.
    count: u32,
    updated_at: Instant,
    /// Size of the conversation at that time.
    tokens: Tokens,
}

impl Default for SummaryBackoff {
    fn default() -> Self {
        Self {
            streaks: Cache::new(MAX_PREFIXES),
        }
    }
}

impl SummaryBackoff {
    /// Returns the state of the newest recorded prefix of `prefix_keys`, if any.
    pub(super) fn streak(&self, prefix_keys: &PrefixKeys) -> Option<FailureStreak> {
        prefix_keys
            .newest_first()
            .find_map(|(_, key)| self.streaks.get(&key))
    }

    /// Returns the number of prefixes that are blocked at the moment, ignoring growth.
    pub(super) fn open_count(&self) -> usize {
        let failed = self.streaks.iter().map(|(_, failed)| failed);
        failed
            .filter(|failed| failed.is_open(failed.tokens))
            .count()
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
        let streak = FailureStreak {
            count,
            updated_at,
            tokens,
        };
        self.streaks.insert(cut, streak);
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
