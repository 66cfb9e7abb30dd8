//! Splits a byte stream of server-sent events into events, however it is chunked.

#[cfg(test)]
mod tests;

use memchr::{memchr, memchr2};

/// Maximum number of data bytes kept per event; the rest is only counted.
///
/// The bound is eight times the longest line that the strictest known client reads (aiohttp,
/// 131,072 bytes). So no real delta is cut, and a stream without line ends cannot use more memory.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// Maximum number of bytes kept of an event's name; the names in use are shorter than 64 bytes.
const MAX_NAME_BYTES: usize = 256;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An event, borrowed from the [`Splitter`] that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Value of the last `event` line; empty if there is none.
    pub name: &'a [u8],
    /// Values of the `data` lines, joined with a line feed.
    pub data: &'a [u8],
    /// Number of data bytes beyond [`MAX_EVENT_BYTES`] that were dropped: zero for a complete
    /// event.
    pub dropped: usize,
}

impl<'a> Event<'a> {
    /// Creates an event without a name.
    pub fn unnamed(data: &'a [u8]) -> Self {
        Self { name: b"", data, dropped: 0 }
    }
}

/// Incremental splitter of an event stream. The events do not depend on how the bytes are split
/// into chunks.
///
/// The parser follows the WHATWG living standard:
///
/// - Lines end in LF, CR or CRLF.
/// - One byte order mark at the start is skipped.
/// - A line that begins with a colon is a comment.
/// - One space after the colon of a field is not part of its value.
///
/// There is one deviation: an event cut off by the end of the stream is still an event
/// ([`Splitter::finish`]). Several servers close without the last empty line.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The beginning of an unfinished line, from earlier chunks.
    partial_line: Vec<u8>,
    /// Number of bytes dropped from the unfinished line.
    line_dropped: usize,
    name: Vec<u8>,
    data: Vec<u8>,
    /// Number of `data` lines in the current event. A `data` line may be empty, so the length of
    /// `data` is not enough.
    data_lines: usize,
    dropped: usize,
    /// Whether the last byte was a carriage return, so that a line feed belongs to the same line
    /// end.
    after_carriage_return: bool,
    /// Whether the first line, which may begin with a byte order mark, is complete.
    past_first_line: bool,
}

impl Splitter {
    /// Reads the next bytes and calls `each` for every event that they complete.
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

    /// Calls `each` for an event that the end of the stream cut off, if there is one.
    pub fn finish(mut self, mut each: impl FnMut(Event<'_>)) {
        if !self.partial_line.is_empty() {
            self.end_line(b"", &mut each);
        }
        self.dispatch(&mut each);
    }

    /// Completes the current line with `part`. A line contained in one chunk is parsed without a
    /// copy.
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
            b"data" | b"error" => {
                // Some versions of llama.cpp state an error in a field of its own.
                if field == b"error" {
                    field.clone_into(&mut self.name);
                }
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
            each(Event { name: &self.name, data: &self.data, dropped: self.dropped });
        }
        self.name.clear();
        self.data.clear();
        self.data_lines = 0;
        self.dropped = 0;
    }
}

/// Calls `each` for every event of a stream; the last event may be cut off.
pub fn for_each_event(events: &[u8], mut each: impl FnMut(Event<'_>)) {
    let mut splitter = Splitter::default();
    splitter.push(events, &mut each);
    splitter.finish(each);
}

/// Appends `part` to `buffer` up to `bound` bytes in total; returns the number of bytes dropped.
fn append_bounded(buffer: &mut Vec<u8>, part: &[u8], bound: usize) -> usize {
    let free = bound.saturating_sub(buffer.len()).min(part.len());
    let (head, rest) = part.split_at(free);
    buffer.extend_from_slice(head);
    rest.len()
}
