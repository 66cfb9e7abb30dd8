//! Runs: maximal sequences of bytes that may belong to identifiers.

use crate::identifiers::lexer::byte_classes::{BLOCK_BYTES, ByteClasses};

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Place in the block. The size of a block for a run that fills one.
    at: usize,
}

impl Run {
    pub(super) fn len(self) -> usize {
        self.end - self.start
    }

    /// Returns `length` bytes from `start` on.
    pub(super) fn slice(self, start: usize, length: usize) -> Self {
        Self {
            start: self.start + start,
            end: self.start + start + length,
            at: self.at,
        }
    }
}

/// Iterator over the runs of a text.
pub(super) struct Runs<'t> {
    bytes: &'t [u8],
    /// Start of the block.
    base: usize,
    block: ByteClasses,
    letters: u64,
    /// Bytes of runs in the block that are still ahead.
    ahead: u64,
}

impl<'t> Runs<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut runs = Self {
            bytes: text.as_bytes(),
            base: 0,
            block: ByteClasses::default(),
            letters: 0,
            ahead: 0,
        };
        runs.read_block(0);
        runs
    }

    /// Continues from byte `end`, which lies in the last run or after it.
    pub(super) fn continue_from(&mut self, end: usize) {
        match end.checked_sub(self.base) {
            Some(at) if at < BLOCK_BYTES => self.ahead &= u64::MAX << at,
            Some(_) | None => self.read_block(end),
        }
    }

    /// Returns the classes of the latest run. `None` if it fills a block.
    #[inline]
    pub(super) fn classes(&self, run: Run) -> Option<ByteClasses> {
        (run.at < BLOCK_BYTES).then(|| self.block.slice(run.at, run.len()))
    }

    /// Whether the latest run consists of letters alone, and fills no block.
    #[inline]
    pub(super) fn is_of_letters(&self, run: Run) -> bool {
        run.at < BLOCK_BYTES && (self.letters >> run.at).trailing_ones() as usize >= run.len()
    }

    /// Whether the latest run, of letters alone, consists of small ones.
    #[inline]
    pub(super) fn is_lower(&self, run: Run) -> bool {
        (self.block.lower >> run.at).trailing_ones() as usize >= run.len()
    }

    fn read_block(&mut self, base: usize) {
        self.base = base;
        self.block = ByteClasses::from_bytes(self.bytes.get(base..).unwrap_or_default());
        self.letters = self.block.letters();
        self.ahead = self.block.word;
    }

    /// Returns the run that fills the block, and reads the next block.
    #[cold]
    fn long_run(&mut self) -> Run {
        let start = self.base;
        loop {
            let length = self.block.word.trailing_ones() as usize;
            let end = self.base + length;
            if length < BLOCK_BYTES {
                self.ahead &= u64::MAX << length;
                return Run {
                    start,
                    end,
                    at: BLOCK_BYTES,
                };
            }
            self.read_block(end);
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        loop {
            if self.ahead == 0 {
                let next = self.base + BLOCK_BYTES;
                if next >= self.bytes.len() {
                    return None;
                }
                self.read_block(next);
                continue;
            }
            let at = self.ahead.trailing_zeros() as usize;
            let length = (self.ahead >> at).trailing_ones() as usize;
            if at + length < BLOCK_BYTES {
                self.ahead &= u64::MAX << (at + length);
            } else if at == 0 {
                return Some(self.long_run());
            } else if self.base + BLOCK_BYTES < self.bytes.len() {
                // The run may go on in the next block.
                self.read_block(self.base + at);
                continue;
            } else {
                self.ahead = 0;
            }
            return Some(Run {
                start: self.base + at,
                end: self.base + at + length,
                at,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str) -> Vec<&str> {
        let runs = Runs::new(text);
        runs.map(|run| &text[run.start..run.end]).collect()
    }

    #[test]
    fn a_run_is_whole_wherever_a_block_ends() {
        for before in 0..140 {
            for length in [1, 2, 63, 64, 65, 127, 128, 129, 200] {
                let text = format!("{}{} b", " ".repeat(before), "a".repeat(length));
                assert_eq!(runs(&text), ["a".repeat(length).as_str(), "b"]);
                let text = text.trim_end_matches(" b");
                assert_eq!(runs(text), ["a".repeat(length).as_str()]);
            }
        }
        assert!(runs("").is_empty() && runs("é ( )").is_empty());
    }

    #[test]
    fn classes_are_those_of_the_run() {
        let text = format!("{} aB-7.", "x".repeat(60));
        let mut runs = Runs::new(&text);
        let run = runs.nth(1).unwrap();
        let classes = runs.classes(run).unwrap();
        assert!(!runs.is_of_letters(run));
        assert_eq!((run.start, run.len()), (61, 5));
        assert_eq!((classes.lower, classes.upper), (0b00001, 0b00010));
        assert_eq!((classes.digits, classes.punctuation()), (0b01000, 0b10100));
    }

    #[test]
    fn iteration_continues_from_any_byte_ahead() {
        let text = format!("{} one two three", "x".repeat(50));
        for (from, expect) in [(54, "two"), (58, "three"), (60, "hree"), (64, "")] {
            let mut runs = Runs::new(&text);
            runs.next();
            runs.continue_from(from);
            let rest = runs.next().map_or("", |run| &text[run.start..run.end]);
            assert_eq!(rest, expect, "{from}");
        }
    }
}
