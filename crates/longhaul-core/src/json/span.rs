//! Byte ranges of one request body.

/// A byte range of one request body.
///
/// Invariant: `start <= end`, and both are token boundaries of the JSON text. A slice of the body
/// is therefore always a whole JSON value, or a run of whole values.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Creates a span from `start` to `end`, in bytes. Returns `None` past 4 GiB or if `start >
    /// end`.
    pub(crate) fn new(start: usize, end: usize) -> Option<Self> {
        let start = u32::try_from(start).ok()?;
        let end = u32::try_from(end).ok()?;
        (start <= end).then_some(Self { start, end })
    }

    /// Returns the bytes of `body` in this span; empty if `body` is too short for the span.
    pub fn slice(self, body: &str) -> &str {
        body.get(self.start()..self.end()).unwrap_or_default()
    }

    /// Returns the start, in bytes.
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Returns the end, in bytes.
    pub fn end(self) -> usize {
        self.end as usize
    }

    pub(crate) fn start_u32(self) -> u32 {
        self.start
    }

    /// Shifts the span by `by` bytes, modulo 2³². Spans shifted into another text always fit that
    /// text.
    pub(crate) fn shifted(self, by: u32) -> Self {
        Self { start: self.start.wrapping_add(by), end: self.end.wrapping_add(by) }
    }

    pub(crate) fn len(self) -> usize {
        self.end() - self.start()
    }

    /// Returns the span from the start of this one to the end of `last`.
    pub(crate) fn extended_to(self, last: Self) -> Self {
        Self { start: self.start, end: last.end.max(self.start) }
    }
}
