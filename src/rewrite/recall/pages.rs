//! Messages that were met one behind the other, found again all at once.
//!
//! The older messages are, the surer they come again beside the same neighbours. So once so many
//! of them were met in a row, they are kept as a page too: where the bytes of all of them, and what
//! stands between them, have the print of the page, its messages read as they did.

use super::Print;
use super::readings::{GENERATION, Reading};
use crate::rewrite::conversation::{Call, Message, Part};
use crate::rewrite::generations::Shards;
use crate::rewrite::span::Span;
use std::sync::Arc;

/// Messages of one page: so many that finding it costs next to nothing for each, and so few that
/// those behind the last page are soon one too.
pub(super) const PAGE: usize = 32;
/// Pages in one generation: as many messages as have readings in one. What a page is made of lives
/// as long as the page.
pub(super) const PAGES: usize = GENERATION / PAGE;

/// The pages that were met.
pub(super) type Pages = Shards<u64, Arc<Page>>;

/// Messages in a row, and where each begins from the first of them on.
#[derive(Debug)]
pub(in crate::rewrite) struct Page {
    print: Print,
    ending: u64,
    bytes: usize,
    readings: Box<[(u32, Arc<Reading>)]>,
    passed: u64,
}

impl Page {
    /// The page of these messages, which stand at `span` and end with what `ending` tells; `passed`
    /// tells what comes behind them. `None` if one of them has no reading.
    pub(super) fn of(
        messages: &[Message],
        span: Span,
        print: Print,
        ending: u64,
        passed: u64,
    ) -> Option<Self> {
        let readings = messages.iter().map(|message| {
            let start = message.span.offset() - span.offset();
            Some((start, Arc::clone(message.reading.as_ref()?)))
        });
        Some(Self {
            print,
            ending,
            bytes: span.len(),
            readings: readings.collect::<Option<_>>()?,
            passed,
        })
    }

    /// The hash of all its bytes.
    pub(super) fn print(&self) -> Print {
        self.print
    }

    /// What its last bytes are, in short.
    pub(super) fn ending(&self) -> u64 {
        self.ending
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// What tells what comes behind it.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// Its messages as they read from `start` on; they, their parts and calls go behind those there
    /// are.
    pub(super) fn put_at(
        &self,
        start: u32,
        messages: &mut Vec<Message>,
        parts: &mut Vec<Part>,
        calls: &mut Vec<Call>,
    ) {
        messages.extend(self.readings.iter().map(|(further, reading)| {
            let start = start.wrapping_add(*further);
            Arc::clone(reading).put_at(start, parts, calls)
        }));
    }
}
