//! The outcome of a play, and a message that longhaul wrote.

use serde::Serialize;

use super::row::PlayRow;
use super::totals::PlayTotals;

/// A play, up to the first error that the agent saw.
#[derive(Debug, Serialize)]
pub(crate) struct PlayOutcome {
    pub(crate) rows: Vec<PlayRow>,
    pub(crate) totals: PlayTotals,
}

/// A message that the agent did not write.
#[derive(Debug, Serialize)]
pub(crate) struct InjectedMessage {
    /// The first request that contains the message, from 1.
    pub(crate) request: usize,
    /// The actions that longhaul reported for that request.
    pub(crate) action: Vec<String>,
    /// The message's text.
    pub(crate) text: String,
}

impl PlayOutcome {
    pub(crate) fn from_rows(rows: Vec<PlayRow>) -> Self {
        let mut totals = PlayTotals::default();
        totals.add(&rows);
        Self { rows, totals }
    }

    /// Returns the request that ended the play early, if any.
    pub(crate) fn failed_request(&self) -> Option<&PlayRow> {
        self.rows.last().filter(|row| row.error.is_some())
    }
}

/// Returns the status and the error text of a failed request.
pub(crate) fn error_text(row: &PlayRow) -> String {
    let error = row.error.as_deref().unwrap_or_default();
    match row.status {
        0 => error.to_owned(),
        status => format!("{status} {error}"),
    }
}
