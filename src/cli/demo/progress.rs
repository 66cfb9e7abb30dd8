//! A progress line on standard error, for a person who waits.

use std::io::{self, IsTerminal as _};

use super::super::print_error;

/// Returns to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[2K";

/// The progress line, cleared on drop.
pub(super) struct ProgressLine {
    name: &'static str,
    requests: usize,
    is_visible: bool,
}

impl ProgressLine {
    /// Creates the line for a session of `requests` requests. Writes nothing unless standard error
    /// is a terminal.
    pub(super) fn new(name: &'static str, requests: usize) -> Self {
        Self {
            name,
            requests,
            is_visible: io::stderr().is_terminal(),
        }
    }

    /// Shows that `request`, counted from 1, is in progress.
    pub(super) fn show_request(&self, request: usize) {
        if self.is_visible {
            let (name, all) = (self.name, self.requests);
            print_error(&format!("{CLEAR_LINE}{name}: request {request} of {all}"));
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_visible {
            print_error(CLEAR_LINE);
        }
    }
}
