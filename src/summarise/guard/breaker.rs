//! The breaker: where summaries have failed again and again, nobody is asked for a while.
//!
//! It hangs on the prefixes of history that a summary failed for, and so on what has grown out of
//! them: another conversation of the same caller is not held to account.

use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;

use crate::rewrite::chain::{PrefixKeys, RecordKey};
use crate::rewrite::tokens::Tokens;

/// Failures in a row after which nobody is asked. Without it, sessions have asked fifty times in a row
/// for nothing.
const MAX_FAILURES: u32 = 3;
/// After so long one more is asked; one more failure opens it again.
const PAUSE: Duration = Duration::from_mins(5);
/// A conversation that has grown by so much is another task, and one more is asked for it.
const GROWTH_PERCENT: u32 = 20;
/// Prefixes remembered at once.
const MAX_PREFIXES: u64 = 4_096;

/// The prefixes that summaries failed for.
pub(super) struct SummaryBackoff {
    streaks: Cache<RecordKey, FailureStreak>,
}

/// How it went for a prefix and what it grew out of.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailureStreak {
    /// In a row.
    count: u32,
    updated_at: Instant,
    /// What the conversation measured then.
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
    /// What was last met by the conversation of `chains`.
    pub(super) fn streak(&self, chains: &PrefixKeys) -> Option<FailureStreak> {
        chains
            .newest_first()
            .find_map(|(_, key)| self.streaks.get(&key))
    }

    /// How many prefixes nobody is asked for at the moment, unless their conversation has grown.
    pub(super) fn open_count(&self) -> usize {
        let failed = self.streaks.iter().map(|(_, failed)| failed);
        failed
            .filter(|failed| failed.is_open(failed.tokens))
            .count()
    }

    /// A summary up to `cut` failed, for a conversation of `tokens` that had met `before`.
    pub(super) fn record_failure(
        &self,
        cut: RecordKey,
        before: Option<FailureStreak>,
        tokens: Tokens,
    ) {
        let failed = FailureStreak {
            count: before.map_or(0, |before| before.count) + 1,
            updated_at: Instant::now(),
            tokens,
        };
        self.streaks.insert(cut, failed);
    }

    /// A summary up to `cut` was made: what failed before it is forgiven.
    pub(super) fn record_success(&self, cut: RecordKey, tokens: Tokens) {
        let failed = FailureStreak {
            count: 0,
            updated_at: Instant::now(),
            tokens,
        };
        self.streaks.insert(cut, failed);
    }
}

impl FailureStreak {
    /// Whether nobody is asked for a conversation that measures `tokens` now.
    pub(super) fn is_open(&self, tokens: Tokens) -> bool {
        self.count >= MAX_FAILURES
            && self.updated_at.elapsed() < PAUSE
            && tokens < self.tokens.percent(100 + GROWTH_PERCENT)
    }
}
