//! Consecutive cached messages that are looked up together.
//!
//! The older messages are, the more likely they recur beside the same neighbours. After enough
//! consecutive hits the cache therefore also stores those messages as a page. If their bytes,
//! including those between them, have the page's fingerprint, the messages parse as before.

use crate::collections::two_generation_cache::ShardedCache;
use crate::conversation::parse_cache::Fingerprint;
use crate::conversation::parse_cache::parsed_messages::{GENERATION_MESSAGES, ParsedMessage};
use crate::conversation::{ContentPart, Message, ToolCall};
use crate::json::span::Span;
use std::sync::Arc;

/// Messages per page: enough that the look-up costs next to nothing per message, and few enough
/// that messages after the last page soon fill another.
pub(super) const PAGE_MESSAGES: usize = 32;
/// Pages in one generation: together they cover as many messages as one generation of parsed
/// messages. A page keeps its parsed messages alive.
pub(super) const GENERATION_PAGES: usize = GENERATION_MESSAGES / PAGE_MESSAGES;

/// Cache of pages.
pub(super) type CachePages = ShardedCache<u64, Arc<CachePage>>;

/// Consecutive messages, each with its offset from the start of the first.
#[derive(Debug)]
pub(crate) struct CachePage {
    fingerprint: Fingerprint,
    tail_hash: u64,
    bytes: usize,
    messages: Box<[(u32, Arc<ParsedMessage>)]>,
    prefix_state: u64,
}

impl CachePage {
    /// Creates the page of these messages, which occupy `span`. `ending` is the hash of their last
    /// bytes, `passed` the cursor state after them. Returns `None` if a message has no cache entry.
    pub(super) fn from_messages(
        messages: &[Message],
        span: Span,
        fingerprint: Fingerprint,
        ending: u64,
        passed: u64,
    ) -> Option<Self> {
        let readings = messages.iter().map(|message| {
            let start = message.span.start_u32() - span.start_u32();
            Some((start, Arc::clone(message.cached.as_ref()?.parsed()?)))
        });
        Some(Self {
            fingerprint,
            tail_hash: ending,
            bytes: span.len(),
            messages: readings.collect::<Option<_>>()?,
            prefix_state: passed,
        })
    }

    /// Returns the hash of all bytes of the page.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the short hash of the last bytes.
    pub(super) fn tail_hash(&self) -> u64 {
        self.tail_hash
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the cursor state after the page.
    pub(super) fn prefix_state(&self) -> u64 {
        self.prefix_state
    }

    /// Appends the messages of the page at position `start`, with their parts and calls.
    pub(super) fn append_at(
        &self,
        start: u32,
        messages: &mut Vec<Message>,
        parts: &mut Vec<ContentPart>,
        calls: &mut Vec<ToolCall>,
    ) {
        messages.extend(self.messages.iter().map(|(further, reading)| {
            let start = start.wrapping_add(*further);
            reading.append_at(start, parts, calls)
        }));
    }
}
