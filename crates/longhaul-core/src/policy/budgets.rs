//! Token budgets for the parts of a summary.

use super::Thresholds;
use crate::units::tokens::Tokens;

/// Token budgets for the parts of a summary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SummaryBudgets {
    /// Text of the model, or steps of a digest: 4% of the capacity, 250 to 1,500.
    pub prose: Tokens,
    /// Files and commands: 3% of the capacity, at most 2,000.
    pub file_activity: Tokens,
    /// Identifiers: 16% of the capacity, 5% in wide windows. `bench/COMPACTION.md` has the curve of
    /// cost against survival.
    pub identifiers: Tokens,
    /// User messages: 2.75% of the capacity, at most 5,000.
    pub user_messages: Tokens,
    /// First and newest user request, in addition to the user messages. Zero until the history is
    /// known; see [`digest::summary_budgets`](crate::summary::digest::summary_budgets).
    pub requests: Tokens,
}

impl SummaryBudgets {
    pub(super) fn new(thresholds: &Thresholds) -> Self {
        let capacity = thresholds.capacity;
        Self {
            prose: capacity
                .percent(4)
                .clamp(Tokens::new(250), Tokens::new(1_500)),
            file_activity: capacity.percent(3).min(Tokens::new(2_000)),
            identifiers: capacity.percent(if thresholds.is_wide() { 5 } else { 16 }),
            user_messages: capacity.percent(11).divided_by(4).min(Tokens::new(5_000)),
            requests: Tokens::ZERO,
        }
    }

    /// Size that the replay assumes for a summary.
    pub fn nominal(&self) -> Tokens {
        self.prose + self.file_activity + self.identifiers + self.user_messages + self.requests
    }
}

/// Largest share of the space below the hard mark that the index may take, in percent.
pub(super) const MAX_INDEX_PERCENT: u32 = 20;
