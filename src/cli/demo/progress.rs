//! One line on standard error that says how far the show is, for a person who waits.

use std::io::{self, IsTerminal as _};

use super::super::tell;

/// Back to the start of the line, and the line emptied.
const AFRESH: &str = "\r\x1b[2K";

/// The line; gone when dropped.
pub(super) struct Progress {
    name: &'static str,
    requests: usize,
    seen: bool,
}

impl Progress {
    /// A line for a play of so many requests; none is written where no terminal would show it.
    pub(super) fn of(name: &'static str, requests: usize) -> Self {
        Self {
            name,
            requests,
            seen: io::stderr().is_terminal(),
        }
    }

    /// Says that this request, counted from 1, is under way.
    pub(super) fn at(&self, request: usize) {
        if self.seen {
            let (name, all) = (self.name, self.requests);
            tell(&format!("{AFRESH}{name}: request {request} of {all}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.seen {
            tell(AFRESH);
        }
    }
}
