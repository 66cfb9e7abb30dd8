//! Standard error, for a person who waits: notices, and a progress line.

use std::io::{self, IsTerminal as _, Write as _};

/// Writes to standard error. Ignores failures: there is nowhere left to report them.
pub(crate) fn print_error(text: &str) {
    _ = io::stderr().write_all(text.as_bytes());
}

/// Returns to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[2K";

/// The progress line, cleared on drop.
pub(crate) struct ProgressLine {
    is_visible: bool,
}

impl ProgressLine {
    /// Creates the line. Writes nothing unless standard error is a terminal.
    pub(crate) fn new() -> Self {
        Self { is_visible: io::stderr().is_terminal() }
    }

    /// Shows that the step `number` of `all`, counted from 1, is in progress.
    pub(crate) fn show_step(&self, what: &str, number: usize, all: usize) {
        self.show(&format!("{what} {number} of {all}"));
    }

    /// Shows `text` in place of the line before.
    pub(crate) fn show(&self, text: &str) {
        if self.is_visible {
            print_error(&format!("{CLEAR_LINE}{text}"));
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.show("");
    }
}
