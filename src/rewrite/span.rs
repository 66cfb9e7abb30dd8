//! Byte ranges of one request body.

/// A byte range of one request body.
///
/// Invariant: `start <= end`, and both lie on token boundaries of the JSON text it was taken from,
/// so a slice of the body is always a whole JSON value (or a whole run of them).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// A span from `start` to `end`, in bytes. `None` past 4 GiB or if the ends are crossed.
    pub(super) fn new(start: usize, end: usize) -> Option<Self> {
        let start = u32::try_from(start).ok()?;
        let end = u32::try_from(end).ok()?;
        (start <= end).then_some(Self { start, end })
    }

    /// The bytes of `body` that this span covers; empty if `body` is not the text it came from.
    pub fn slice(self, body: &str) -> &str {
        body.get(self.start()..self.end()).unwrap_or_default()
    }

    /// Where it begins, in bytes.
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Where it ends, in bytes.
    pub fn end(self) -> usize {
        self.end as usize
    }

    /// Where it begins, as it is kept.
    pub(super) fn start_u32(self) -> u32 {
        self.start
    }

    /// It so many bytes further on, modulo 2³²: never more than the text of its new place has.
    pub(super) fn shifted(self, by: u32) -> Self {
        Self {
            start: self.start.wrapping_add(by),
            end: self.end.wrapping_add(by),
        }
    }

    /// How many bytes it covers.
    pub(super) fn len(self) -> usize {
        self.end() - self.start()
    }

    /// The span from the beginning of this one to the end of `last`.
    pub(super) fn extended_to(self, last: Self) -> Self {
        Self {
            start: self.start,
            end: last.end.max(self.start),
        }
    }
}
