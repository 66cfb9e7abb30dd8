//! Start of the last event of a stream, for dialects whose last event repeats the request and is longer
//! than the kept end.

use memchr::memchr;

/// The first bytes of the last lines of a stream. Keeps nothing if its bound is zero.
#[derive(Debug)]
pub(super) struct EventStart {
    bound: usize,
    /// Start of the current line.
    line: Vec<u8>,
    /// Start of the last complete line with data.
    data: Vec<u8>,
}

impl EventStart {
    /// Creates a buffer that keeps `bound` bytes of a line.
    pub(super) fn new(bound: usize) -> Self {
        Self { bound, line: Vec::new(), data: Vec::new() }
    }

    /// Adds the next bytes.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        if self.bound == 0 {
            return;
        }
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let (part, behind) = rest.split_at(end);
            self.append(part);
            if is_data(&self.line) {
                std::mem::swap(&mut self.data, &mut self.line);
            }
            self.line.clear();
            rest = behind.get(1..).unwrap_or_default();
        }
        self.append(rest);
    }

    fn append(&mut self, part: &[u8]) {
        let free = self.bound.saturating_sub(self.line.len()).min(part.len());
        self.line.extend_from_slice(part.get(..free).unwrap_or_default());
    }

    /// Returns the start of the last line with data, or an empty slice. The mark that ends a stream is
    /// not data.
    pub(super) fn last(&self) -> &[u8] {
        if is_data(&self.line) { &self.line } else { &self.data }
    }
}

fn is_data(line: &[u8]) -> bool {
    let value = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii_start);
    value.is_some_and(|value| value.starts_with(b"{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_the_last_event_is_kept_in_any_chunking() {
        let stream = b"event: a\ndata: {\"type\":\"a\"}\n\nevent: b\ndata: {\"type\":\"bbbb\"}\n\ndata: [DONE]\n\n";
        for size in 1..stream.len() {
            let mut start = EventStart::new(16);
            stream.chunks(size).for_each(|chunk| start.push(chunk));
            assert_eq!(start.last(), b"data: {\"type\":\"b", "{size}");
        }
        let mut none = EventStart::new(0);
        none.push(stream);
        assert_eq!(none.last(), b"");
    }

    #[test]
    fn an_unterminated_event_counts_as_the_last() {
        let mut start = EventStart::new(64);
        start.push(b"data: {\"a\":1}\n\ndata: {\"b\"");
        assert_eq!(start.last(), b"data: {\"b\"");
    }
}
