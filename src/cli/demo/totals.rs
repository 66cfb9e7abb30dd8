//! What a whole play comes to.

use serde::Serialize;

use super::row::Row;

/// The sums over the rows of a play.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    /// Requests that the agent sent.
    pub(super) requests: usize,
    /// Those that it got an answer to.
    pub(super) answered: usize,
    /// How often the model refused one for its size.
    pub(super) refused: usize,
    /// Tokens that the agent sent.
    pub(super) tokens_sent: u64,
    /// Tokens that the model accepted.
    pub(super) tokens_forwarded: u64,
    /// Those of them that its prompt cache knew.
    pub(super) tokens_cached: u64,
    /// Tokens that it read to write summaries.
    pub(super) tokens_for_summaries: u64,
    /// Tokens sent that were neither forwarded nor read for summaries. Where the agent got no
    /// answer nothing was saved; below zero longhaul cost more than it spared.
    pub(super) tokens_saved: i64,
    /// How often a request did not begin with all of the one before it.
    pub(super) prefix_changes: usize,
    /// Summaries that the model was asked for.
    pub(super) summaries: usize,
}

impl Totals {
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut totals = Self::default();
        for row in rows {
            totals.add(row);
        }
        totals
    }

    fn add(&mut self, row: &Row) {
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
            self.tokens_saved += row.tokens_sent.cast_signed() - row.tokens_forwarded.cast_signed();
        }
    }

    /// The share of the accepted tokens that the cache knew, in hundredths.
    pub(super) fn cached_percent(&self) -> u64 {
        percent(self.tokens_cached, self.tokens_forwarded)
    }
}

/// A share in whole hundredths; of nothing it is 0.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_every_column_and_saves_only_on_answered_requests() {
        let answered = Row {
            tokens_sent: 100,
            tokens_forwarded: 40,
            tokens_cached: 30,
            refused: 1,
            prefix_changed: true,
            summaries: 2,
            tokens_for_summaries: 7,
            ..Row::default()
        };
        let lost = Row {
            tokens_sent: 100,
            error: Some("gone".to_owned()),
            ..Row::default()
        };
        let expect = Totals {
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
        let totals = Totals::of(&[answered, lost]);
        assert_eq!(totals, expect);
        assert_eq!(totals.cached_percent(), 75);
        assert_eq!(Totals::default().cached_percent(), 0);
    }
}
