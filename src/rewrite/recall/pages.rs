//! Messages that were met one behind the other, found again all at once.
//!
//! The older messages are, the surer they come again beside the same neighbours. So once so many
//! of them were met in a row, they are kept as a page too: where the bytes of all of them, and what
//! stands between them, have the print of the page, its messages read as they did.

use super::Fingerprint;
use super::readings::{GENERATION_MESSAGES, ParsedMessage};
use crate::rewrite::conversation::{ContentPart, Message, ToolCall};
use crate::rewrite::generations::ShardedCache;
use crate::rewrite::span::Span;
use std::sync::Arc;

/// Messages of one page: so many that finding it costs next to nothing for each, and so few that
/// those behind the last page are soon one too.
pub(super) const PAGE_MESSAGES: usize = 32;
/// Pages in one generation: as many messages as have readings in one. What a page is made of lives
/// as long as the page.
pub(super) const GENERATION_PAGES: usize = GENERATION_MESSAGES / PAGE_MESSAGES;

/// The pages that were met.
pub(super) type CachePages = ShardedCache<u64, Arc<CachePage>>;

/// Messages in a row, and where each begins from the first of them on.
#[derive(Debug)]
pub(in crate::rewrite) struct CachePage {
    fingerprint: Fingerprint,
    tail_hash: u64,
    bytes: usize,
    messages: Box<[(u32, Arc<ParsedMessage>)]>,
    prefix_state: u64,
}

impl CachePage {
    /// The page of these messages, which stand at `span` and end with what `ending` tells; `passed`
    /// tells what comes behind them. `None` if one of them has no reading.
    pub(super) fn from_messages(
        messages: &[Message],
        span: Span,
        print: Fingerprint,
        ending: u64,
        passed: u64,
    ) -> Option<Self> {
        let readings = messages.iter().map(|message| {
            let start = message.span.start_u32() - span.start_u32();
            Some((start, Arc::clone(message.cached.as_ref()?)))
        });
        Some(Self {
            fingerprint: print,
            tail_hash: ending,
            bytes: span.len(),
            messages: readings.collect::<Option<_>>()?,
            prefix_state: passed,
        })
    }

    /// The hash of all its bytes.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What its last bytes are, in short.
    pub(super) fn tail_hash(&self) -> u64 {
        self.tail_hash
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// What tells what comes behind it.
    pub(super) fn prefix_state(&self) -> u64 {
        self.prefix_state
    }

    /// Its messages as they read from `start` on; they, their parts and calls go behind those there
    /// are.
    pub(super) fn append_at(
        &self,
        start: u32,
        messages: &mut Vec<Message>,
        parts: &mut Vec<ContentPart>,
        calls: &mut Vec<ToolCall>,
    ) {
        messages.extend(self.messages.iter().map(|(further, reading)| {
            let start = start.wrapping_add(*further);
            Arc::clone(reading).append_at(start, parts, calls)
        }));
    }
}
