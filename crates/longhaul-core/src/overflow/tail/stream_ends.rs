//! Finds the events at both ends of a stream, so that those in between can be skipped: nearly all
//! of them are pieces of text.

use memchr::memmem::Finder;
use memchr::{memchr_iter, memrchr_iter};

use crate::json::last_values::SearchTerm;

/// Part of the key or the type of most errors.
static ERROR: SearchTerm = SearchTerm::new(|| Finder::new("error"));
/// Part of the type of all other errors.
static FAILED: SearchTerm = SearchTerm::new(|| Finder::new("failed"));

/// Number of events read from the beginning, if it is kept: the role, and the first words.
const FIRST_EVENTS: usize = 3;
/// Number of events read from the end: finish reason, usage, `[DONE]`, and one that gateways add.
const LAST_EVENTS: usize = 4;

/// Returns the length in bytes of the first [`FIRST_EVENTS`] events, or of all if there are fewer.
pub(super) fn first_events_len(events: &[u8]) -> usize {
    let ends = memchr_iter(b'\n', events).filter(|&at| is_blank_line(events, at));
    ends.map(|at| at + 1).nth(FIRST_EVENTS - 1).unwrap_or(events.len())
}

pub(super) fn last_events_start(events: &[u8]) -> usize {
    let ends = memrchr_iter(b'\n', events).filter(|&at| is_blank_line(events, at));
    // Skip the end of the last event, since nothing follows it.
    let ends = ends.map(|at| at + 1).filter(|&end| end < events.len());
    ends.take(LAST_EVENTS).nth(LAST_EVENTS - 1).unwrap_or_default()
}

/// Whether the line that ends at `at` is empty, and so ends an event.
fn is_blank_line(events: &[u8], at: usize) -> bool {
    let before = events.get(..at).unwrap_or_default();
    let line = before.strip_suffix(b"\r").unwrap_or(before);
    line.ends_with(b"\n")
}

pub(super) fn mentions_error(text: &[u8]) -> bool {
    ERROR.occurs_in(text) || FAILED.occurs_in(text)
}

/// Whether all events are unnamed objects without a word for an error.
pub(super) fn is_plain(events: &[u8]) -> bool {
    let mut start = 0;
    let mut lines = memchr_iter(b'\n', events)
        .chain([events.len()])
        .map(|end| events.get(std::mem::replace(&mut start, end + 1)..end));
    !mentions_error(events) && lines.all(|line| line.is_some_and(is_plain_line))
}

fn is_plain_line(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let object = || line.strip_prefix(b"data:").map(<[u8]>::trim_ascii_start);
    let is_object = |data: &[u8]| data.starts_with(b"{") && data.ends_with(b"}");
    line.is_empty() || line.starts_with(b":") || object().is_some_and(is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates `count` events of equal length.
    fn events(count: usize, feed: &str) -> String {
        format!("data: {{}}{feed}{feed}").repeat(count)
    }

    #[test]
    fn stream_ends_span_a_fixed_number_of_events() {
        for feed in ["\n", "\r\n"] {
            let one = events(1, feed).len();
            let many = events(10, feed);
            assert_eq!(first_events_len(many.as_bytes()), FIRST_EVENTS * one, "{feed:?}");
            assert_eq!(last_events_start(many.as_bytes()), (10 - LAST_EVENTS) * one, "{feed:?}");
            // A cut-off event counts as the last one.
            let cut = format!("{many}data: {{");
            assert_eq!(last_events_start(cut.as_bytes()), (11 - LAST_EVENTS) * one, "{feed:?}");
        }
    }

    #[test]
    fn a_short_stream_is_covered_by_both_ends() {
        for count in 0..FIRST_EVENTS {
            let few = events(count, "\n");
            assert_eq!(first_events_len(few.as_bytes()), few.len());
            assert_eq!(last_events_start(few.as_bytes()), 0);
        }
        // A single line end does not end an event.
        let lines = "data: {}\n".repeat(20);
        assert_eq!(first_events_len(lines.as_bytes()), lines.len());
        assert_eq!(last_events_start(lines.as_bytes()), 0);
    }

    #[test]
    fn only_unnamed_objects_without_error_words_are_plain() {
        for plain in ["", "\n\n", ": a comment\n\n", "data: {}\n\n", "data:{\"a\":1} \r\n\r\n"] {
            assert!(is_plain(plain.as_bytes()), "{plain:?}");
        }
        let wrong = [
            "data: {\"error\":1}\n\n",
            "data: {\"type\":\"response.failed\"}\n\n",
            "data: {\n\n",
            "data: }\n\n",
            "data: [DONE]\n\n",
            "event: x\ndata: {}\n\n",
            "id: 1\n",
        ];
        for wrong in wrong {
            let among = format!("data: {{}}\n\n{wrong}data: {{}}\n\n");
            assert!(!is_plain(among.as_bytes()), "{wrong:?}");
        }
    }
}
