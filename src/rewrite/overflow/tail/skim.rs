//! Finds the events at both ends of a stream, so that those between them need not be read: nearly all
//! are pieces of text.

use memchr::{memchr_iter, memrchr_iter};

use super::last::{ERROR, FAILED, REASON, TIMINGS, USAGE, WINDOW_FULL};

/// Events that are read where the beginning was kept: the role, and the first words.
const FIRST: usize = 3;
/// Events that are read at the end: the reason, the counts, `[DONE]`, and one that gateways add.
const LAST: usize = 4;

/// The length of the first [`FIRST`] events, or of all where there are no more.
pub(super) fn first(events: &[u8]) -> usize {
    let ends = memchr_iter(b'\n', events).filter(|&at| is_blank_line(events, at));
    ends.map(|at| at + 1).nth(FIRST - 1).unwrap_or(events.len())
}

/// Where the last [`LAST`] events begin.
pub(super) fn last(events: &[u8]) -> usize {
    let ends = memrchr_iter(b'\n', events).filter(|&at| is_blank_line(events, at));
    // The end of the last event is the end of all.
    let ends = ends.map(|at| at + 1).filter(|&end| end < events.len());
    ends.take(LAST).nth(LAST - 1).unwrap_or_default()
}

/// Whether the line that ends at `at` is empty, as it is behind an event.
fn is_blank_line(events: &[u8], at: usize) -> bool {
    let before = events.get(..at).unwrap_or_default();
    let line = before.strip_suffix(b"\r").unwrap_or(before);
    line.ends_with(b"\n")
}

/// Whether none of these events can be an error or say that a window is full: each is an unnamed
/// object without the words for that.
pub(super) fn is_plain(events: &[u8]) -> bool {
    let is_said = [&ERROR, &FAILED, &WINDOW_FULL]
        .iter()
        .any(|word| word.is_in(events));
    !is_said && events.split(|&byte| byte == b'\n').all(is_plain_line)
}

fn is_plain_line(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let object = || line.strip_prefix(b"data:").map(<[u8]>::trim_ascii_start);
    let is_object = |data: &[u8]| data.starts_with(b"{") && data.ends_with(b"}");
    line.is_empty() || line.starts_with(b":") || object().is_some_and(is_object)
}

/// Whether any of these events may say why the reply ended. Many say in each that there is no reason yet.
pub(super) fn may_end(events: &[u8]) -> bool {
    let states = |rest: &[u8]| {
        let value = rest.trim_ascii_start().strip_prefix(b":");
        value.is_some_and(|value| !value.trim_ascii_start().starts_with(b"null"))
    };
    REASON.behind(events).any(states)
}

/// Whether any of these events may count something.
pub(super) fn may_count(events: &[u8]) -> bool {
    USAGE.is_in(events) || TIMINGS.is_in(events)
}
