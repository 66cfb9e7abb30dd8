//! Consecutive cached messages that are looked up together.
//!
//! The older messages are, the more likely they recur between the same neighbours. After enough
//! consecutive hits the cache therefore also stores those messages as a page. If their bytes,
//! including those between them, have the page's fingerprint, the messages parse as before.

use crate::collections::two_generation_cache::ShardedCache;
use crate::conversation::containers::Container;
use crate::conversation::parse_cache::Fingerprint;
use crate::conversation::parse_cache::parsed_messages::{GENERATION_MESSAGES, Shift};
use crate::conversation::{ContentPart, Message, Pieces, ToolCall};
use crate::json::span::Span;
use std::sync::Arc;

/// Messages per page: enough that the look-up costs next to nothing per message, and few enough
/// that messages after the last page soon fill another. An object that holds several messages may
/// take a page beyond them.
pub(super) const PAGE_MESSAGES: usize = 32;
/// Maximum messages, parts and calls of one page together. Others are looked up one by one.
const MAX_PAGE_PIECES: usize = 8 * PAGE_MESSAGES;
/// Pages in one generation: together they cover as many messages as one generation of parsed
/// messages. A page keeps its parsed messages alive.
pub(super) const GENERATION_PAGES: usize = GENERATION_MESSAGES / PAGE_MESSAGES;

pub(super) type CachePages = ShardedCache<Arc<CachePage>>;

/// Consecutive messages. Spans are relative to the start of the page; ranges of parts, calls and
/// messages begin at zero.
#[derive(Debug)]
pub(crate) struct CachePage {
    pub(super) place: PagePlace,
    messages: Box<[Message]>,
    parts: Box<[ContentPart]>,
    calls: Box<[ToolCall]>,
    containers: Box<[Container]>,
}

/// The bytes of a page, and the states of the cursor after the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PagePlace {
    /// The bytes from the first message to the end of the last object.
    pub(super) span: Span,
    /// Hash of all bytes.
    pub(super) fingerprint: Fingerprint,
    /// Short hash of the last bytes.
    pub(super) tail_hash: u64,
    /// Cursor state before the next object.
    pub(super) prefix_state: u64,
    /// Cursor state before the next block.
    pub(super) block_state: u64,
}

impl CachePage {
    /// Whether a page may hold the messages from index `first` on: all have cache entries, and there are
    /// few pieces.
    pub(super) fn may_hold(first: usize, pieces: &Pieces) -> bool {
        let messages = pieces.messages.get(first..).unwrap_or_default();
        let count = |it: &Message| 1 + it.parts.len() + it.calls.len();
        messages.iter().map(count).sum::<usize>() <= MAX_PAGE_PIECES
            && messages.iter().all(|message| message.cached.is_some())
    }

    pub(super) fn new(place: PagePlace, first: usize, pieces: &Pieces) -> Self {
        let back = Shift::to_origin(place.span);
        let source = pieces.messages.get(first..).unwrap_or_default();
        let (mut parts, mut calls) = (Vec::new(), Vec::new());
        let messages = source.iter().map(|message| {
            let (part, call) = (parts.len(), calls.len());
            parts.extend(pieces.parts_of(message).iter().map(|part| back.part(part)));
            calls.extend(pieces.calls_of(message).iter().map(|call| back.call(call)));
            back.message(message, part..parts.len(), call..calls.len())
        });
        let messages = messages.collect();
        let containers = &pieces.containers;
        let behind = containers.partition_point(|it| it.messages.start < first);
        let containers = containers.get(behind..).unwrap_or_default().iter();
        let containers = containers.map(|it| Container {
            span: back.span(it.span),
            messages: it.messages.start - first..it.messages.end - first,
        });
        Self {
            place,
            messages,
            parts: parts.into(),
            calls: calls.into(),
            containers: containers.collect(),
        }
    }

    /// Returns the length of the page, in bytes.
    pub(super) fn len(&self) -> usize {
        self.place.span.len()
    }

    /// Appends the messages of the page at position `start`, with what belongs to them.
    pub(super) fn append_at(&self, start: u32, to: &mut Pieces) {
        let there = Shift::by(start);
        let (first, part, call) = (to.messages.len(), to.parts.len(), to.calls.len());
        to.parts.extend(self.parts.iter().map(|part| there.part(part)));
        to.calls.extend(self.calls.iter().map(|call| there.call(call)));
        to.containers.extend(self.containers.iter().map(|it| Container {
            span: there.span(it.span),
            messages: it.messages.start + first..it.messages.end + first,
        }));
        to.messages.extend(self.messages.iter().map(|message| {
            let parts = message.parts.start + part..message.parts.end + part;
            let calls = message.calls.start + call..message.calls.end + call;
            there.message(message, parts, calls)
        }));
    }
}
