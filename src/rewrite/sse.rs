//! Splits a byte stream of server-sent events into events, whatever its chunks.

mod finish;
mod glance;
#[cfg(test)]
mod tests;

use memchr::{memchr, memchr2};

pub use finish::FinishReason;
pub use glance::{EventInfo, EventKind, classify_event};

/// What one event may hold before the rest of it is counted and no longer kept: eight times the
/// longest line that the strictest known client reads (aiohttp, 131,072 bytes), so that no real
/// delta is cut, and a stream without line ends costs no more than this.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// What is kept of an event's name; the names in use are below 64 bytes.
const MAX_NAME_BYTES: usize = 256;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event, borrowed from the [`Splitter`] that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The value of its last `event` line; empty where there is none.
    pub name: &'a [u8],
    /// Its `data` lines, joined with a line feed.
    pub data: &'a [u8],
    /// Bytes of data past [`EVENT_BYTES`] that were not kept: zero for a whole event.
    pub dropped: usize,
}

impl<'a> Event<'a> {
    /// An event without a name.
    pub fn unnamed(data: &'a [u8]) -> Self {
        Self {
            name: b"",
            data,
            dropped: 0,
        }
    }
}

/// Finds the events of a stream chunk by chunk. Any chunking of the same bytes gives the same
/// events.
///
/// It reads as the WHATWG living standard says: lines end in LF, CR or CRLF, one byte order mark
/// at the start is skipped, a line that begins with a colon is a comment, one space after the
/// colon of a field is not part of its value. It differs in one thing: an event that the end of
/// the stream cut off is an event all the same ([`Splitter::finish`]), since several servers close
/// without the last empty line.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The part of an unfinished line that earlier chunks brought.
    partial_line: Vec<u8>,
    /// Bytes of that line which were not kept.
    line_dropped: usize,
    name: Vec<u8>,
    data: Vec<u8>,
    /// `data` lines of the event so far: one of them may be empty, so the bytes do not tell.
    data_lines: usize,
    dropped: usize,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_carriage_return: bool,
    /// The first line is behind us, and with it the place where a byte order mark may stand.
    past_first_line: bool,
}

impl Splitter {
    /// Reads the next bytes and hands over each event that they complete.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(Event<'_>)) {
        let mut rest = chunk;
        if self.after_carriage_return && !rest.is_empty() {
            self.after_carriage_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (part, tail) = rest.split_at(end);
            rest = if let Some(after) = tail.strip_prefix(b"\r\n") {
                after
            } else {
                self.after_carriage_return = tail == b"\r";
                tail.get(1..).unwrap_or_default()
            };
            self.end_line(part, &mut each);
        }
        self.append_to_line(rest);
    }

    /// Hands over the event that the end of the stream cut off, if there is one.
    pub fn finish(mut self, mut each: impl FnMut(Event<'_>)) {
        if !self.partial_line.is_empty() {
            self.end_line(b"", &mut each);
        }
        self.dispatch(&mut each);
    }

    /// Completes the current line with `part`. A line that came in one chunk is read where it is.
    fn end_line(&mut self, part: &[u8], each: &mut impl FnMut(Event<'_>)) {
        if self.partial_line.is_empty() && part.len() <= MAX_EVENT_BYTES {
            self.read_line(part, 0, each);
            return;
        }
        self.append_to_line(part);
        let mut line = std::mem::take(&mut self.partial_line);
        let cut = std::mem::take(&mut self.line_dropped);
        self.read_line(&line, cut, each);
        line.clear();
        self.partial_line = line;
    }

    fn append_to_line(&mut self, part: &[u8]) {
        self.line_dropped += append_bounded(&mut self.partial_line, part, MAX_EVENT_BYTES);
    }

    fn read_line(&mut self, line: &[u8], cut: usize, each: &mut impl FnMut(Event<'_>)) {
        let line = if std::mem::replace(&mut self.past_first_line, true) {
            line
        } else {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        };
        if line.is_empty() {
            self.dispatch(each);
            return;
        }
        let colon = memchr(b':', line).unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data_lines > 0 {
                    self.dropped += append_bounded(&mut self.data, b"\n", MAX_EVENT_BYTES);
                }
                self.data_lines += 1;
                self.dropped += append_bounded(&mut self.data, value, MAX_EVENT_BYTES) + cut;
            }
            b"event" => {
                self.name.clear();
                append_bounded(&mut self.name, value, MAX_NAME_BYTES);
            }
            _ => {}
        }
    }

    fn dispatch(&mut self, each: &mut impl FnMut(Event<'_>)) {
        if self.data_lines > 0 {
            each(Event {
                name: &self.name,
                data: &self.data,
                dropped: self.dropped,
            });
        }
        self.name.clear();
        self.data.clear();
        self.data_lines = 0;
        self.dropped = 0;
    }
}

/// Appends what keeps `kept` within `bound`; returns how many bytes did not fit.
fn append_bounded(kept: &mut Vec<u8>, part: &[u8], bound: usize) -> usize {
    let room = bound.saturating_sub(kept.len()).min(part.len());
    let (fits, rest) = part.split_at(room);
    kept.extend_from_slice(fits);
    rest.len()
}
