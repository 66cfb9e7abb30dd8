//! Totals of a whole play.

use serde::Serialize;

use super::row::PlayRow;

/// The sums over the rows of a play.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PlayTotals {
    /// Requests that the agent sent.
    pub(crate) requests: usize,
    /// Requests that the agent got an answer to.
    pub(crate) answered: usize,
    /// Refusals by the model for a request's size.
    pub(crate) refused: usize,
    /// Tokens that the agent sent.
    pub(crate) tokens_sent: u64,
    /// Tokens that the model accepted.
    pub(crate) tokens_forwarded: u64,
    /// Accepted tokens that were in the model's prompt cache.
    pub(crate) tokens_cached: u64,
    /// Tokens that the model read to write summaries.
    pub(crate) tokens_for_summaries: u64,
    /// Tokens sent that were neither forwarded nor read for summaries. Requests without an answer
    /// save nothing. A negative value means that longhaul cost more than it saved.
    pub(crate) tokens_saved: i64,
    /// Requests that did not begin with all of the previous one.
    pub(crate) prefix_changes: usize,
    /// Summaries requested from the model.
    pub(crate) summaries: usize,
}

impl PlayTotals {
    /// Adds the rows of a play.
    pub(crate) fn add(&mut self, rows: &[PlayRow]) {
        for row in rows {
            self.requests += 1;
            self.refused += row.refused;
            self.tokens_sent += row.tokens_sent;
            self.tokens_forwarded += row.tokens_forwarded;
            self.tokens_cached += row.tokens_cached;
            self.tokens_for_summaries += row.tokens_for_summaries;
            self.prefix_changes += usize::from(row.prefix_changed);
            self.summaries += row.summaries;
            self.tokens_saved -= row.tokens_for_summaries.cast_signed();
            if row.error.is_none() {
                self.answered += 1;
                self.tokens_saved +=
                    row.tokens_sent.cast_signed() - row.tokens_forwarded.cast_signed();
            }
        }
    }

    /// Returns the percentage of accepted tokens that were in the cache.
    pub(crate) fn cached_percent(&self) -> u64 {
        percent(self.tokens_cached, self.tokens_forwarded)
    }
}

/// Returns a share in whole percent; 0 if `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_every_column_and_the_savings_of_answered_requests_only() {
        let answered = PlayRow {
            tokens_sent: 100,
            tokens_forwarded: 40,
            tokens_cached: 30,
            refused: 1,
            prefix_changed: true,
            summaries: 2,
            tokens_for_summaries: 7,
            ..PlayRow::default()
        };
        let lost =
            PlayRow { tokens_sent: 100, error: Some("gone".to_owned()), ..PlayRow::default() };
        let expect = PlayTotals {
            requests: 2,
            answered: 1,
            refused: 1,
            tokens_sent: 200,
            tokens_forwarded: 40,
            tokens_cached: 30,
            tokens_for_summaries: 7,
            tokens_saved: 100 - 40 - 7,
            prefix_changes: 1,
            summaries: 2,
        };
        let mut totals = PlayTotals::default();
        totals.add(&[answered]);
        totals.add(&[lost]);
        assert_eq!(totals, expect);
        assert_eq!(totals.cached_percent(), 75);
        assert_eq!(PlayTotals::default().cached_percent(), 0);
    }
}
