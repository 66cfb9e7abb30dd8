//! The outcome of both plays, and whether it is the expected one.

use serde::Serialize;

use crate::play::outcome::{InjectedMessage, PlayOutcome, error_text};
use longhaul_console::json::pretty_json;

/// Both plays.
#[derive(Debug, Serialize)]
pub(super) struct DemoReport {
    /// The session's name.
    pub(super) session: String,
    /// Requests in the session.
    pub(super) requests: usize,
    /// The window of the model, in tokens.
    pub(super) window: u64,
    /// The play without longhaul.
    pub(super) direct: PlayOutcome,
    /// The play through longhaul.
    pub(super) longhaul: PlayOutcome,
    /// The message that replaced history, if any.
    pub(super) injected: Option<InjectedMessage>,
}

impl DemoReport {
    /// Returns the deviations from the expected outcome: without longhaul the session fails because
    /// of its length, and with longhaul it finishes.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let (window, requests) = (self.window, self.requests);
        match self.direct.failed_request() {
            None => failures.push(format!(
                "the session fits a window of {window} tokens, so there is nothing to show; \
                 try a smaller --window"
            )),
            Some(row) if row.refused == 0 => failures.push(format!(
                "without longhaul the session ended at request {}, but not for its length: {}",
                row.request,
                error_text(row)
            )),
            Some(_) => {}
        }
        if let Some(row) = self.longhaul.failed_request() {
            failures.push(format!(
                "through longhaul the session ended at request {} of {requests}: {}",
                row.request,
                error_text(row)
            ));
        }
        failures
    }

    /// Renders the report as one JSON object.
    pub(super) fn json(&self) -> String {
        pretty_json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::row::PlayRow;

    fn played(last: PlayRow) -> PlayOutcome {
        PlayOutcome::from_rows(vec![PlayRow::default(), last])
    }

    fn died(refused: usize) -> PlayOutcome {
        played(PlayRow {
            request: 2,
            refused,
            status: 400,
            error: Some("the words".to_owned()),
            ..PlayRow::default()
        })
    }

    fn check(direct: PlayOutcome, longhaul: PlayOutcome, expect: &[&str]) {
        let report = DemoReport {
            session: "s".to_owned(),
            requests: 2,
            window: 7,
            direct,
            longhaul,
            injected: None,
        };
        let failures = report.failures();
        assert_eq!(failures.len(), expect.len(), "{failures:?}");
        for (failure, words) in failures.iter().zip(expect) {
            assert!(failure.contains(words), "{failure}");
        }
    }

    #[test]
    fn passes_only_if_the_session_fails_alone_and_succeeds_through_longhaul() {
        let lived = || played(PlayRow::default());
        check(died(1), lived(), &[]);
        check(lived(), lived(), &["--window"]);
        check(died(0), lived(), &["not for its length: 400 the words"]);
        check(died(1), died(1), &["through longhaul"]);
        check(lived(), died(1), &["--window", "through longhaul"]);
    }
}
