//! One line on standard error that says how far the show is, for a person who waits.

use std::io::{self, IsTerminal as _};

use super::super::print_error;

/// Back to the start of the line, and the line emptied.
const CLEAR_LINE: &str = "\r\x1b[2K";

/// The line; gone when dropped.
pub(super) struct ProgressLine {
    name: &'static str,
    requests: usize,
    is_visible: bool,
}

impl ProgressLine {
    /// A line for a play of so many requests; none is written where no terminal would show it.
    pub(super) fn new(name: &'static str, requests: usize) -> Self {
        Self {
            name,
            requests,
            is_visible: io::stderr().is_terminal(),
        }
    }

    /// Says that this request, counted from 1, is under way.
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
