//! A progress line on standard error, for a person who waits.

use std::cell::Cell;
use std::io::{self, IsTerminal as _};

use super::caller::Caller;
use crate::cli::print_error;
use crate::display::amounts::short_usd;

/// Returns to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[2K";

/// The progress line, cleared on drop.
pub(super) struct Progress {
    is_visible: bool,
    answers: Cell<usize>,
}

impl Progress {
    /// Creates the line. Writes nothing unless standard error is a terminal.
    pub(super) fn new() -> Self {
        Self {
            is_visible: io::stderr().is_terminal(),
            answers: Cell::new(0),
        }
    }

    /// Shows that a replay is under way.
    pub(super) fn show_replay(&self, session: usize, sessions: usize) {
        if self.is_visible {
            print_error(&format!(
                "{CLEAR_LINE}replaying session {session} of {sessions}"
            ));
        }
    }

    /// Shows one more answer, and the cost so far.
    pub(super) fn show(&self, caller: &Caller) {
        self.answers.set(self.answers.get() + 1);
        if self.is_visible && caller.is_spending() {
            let (answers, spent) = (self.answers.get(), caller.spending.lock().spent());
            print_error(&format!(
                "{CLEAR_LINE}{answers} answers, {}",
                short_usd(spent)
            ));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_visible {
            print_error(CLEAR_LINE);
        }
    }
}
