//! Cursor over the messages of one body that skips cached messages.
//!
//! A message that followed a prefix once most likely follows it again. The cache therefore stores a
//! parse under the prefix before the message and the message's first bytes, with its length and its
//! [`Fingerprint`]. If the bytes now at that position have the same fingerprint, they are the same
//! bytes. The parse is a function of those bytes alone. The prefix only selects the entry to
//! compare: a wrong prefix costs one comparison.
//!
//! [`Fingerprint`]: super::Fingerprint

use crate::conversation::parse_cache::cache_entry::CacheEntry;
use crate::conversation::parse_cache::pages::{CachePage, PAGE_MESSAGES, PagePlace};
use crate::conversation::parse_cache::parsed_messages::{MAX_MEMBERS, ParsedMessage};
use crate::conversation::parse_cache::{Fingerprint, ParseCache};
use crate::conversation::{ContentPart, Message, Pieces, Role, ToolCall};
use crate::dialect::Dialect;
use crate::json::span::Span;
use crate::units::scope::Scope;
use std::sync::Arc;

/// Bytes at the start of a message that distinguish it from others after the same prefix. Also the
/// bytes at the end of a page that distinguish it from pages with the same start.
const EDGE_BYTES: usize = 64;
/// An odd number without a pattern: 2⁶⁴ divided by the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Distinguishes blocks within an object from objects: the same bytes may have another meaning.
const BLOCK_SALT: u64 = 0xB10C;
/// Distinguishes definitions of tools from both.
const TOOLS_SALT: u64 = 0x7001;

pub(crate) struct ParseCursor<'r> {
    pub(super) cache: &'r ParseCache,
    pub(super) scope: Scope,
    /// State before the first message.
    start_state: u64,
    /// Hash of the messages passed so far, used to predict the next one.
    prefix_state: u64,
    /// Hash of the blocks passed so far, each a message of its own within an object that holds several.
    block_state: u64,
    /// The hits that may become a page.
    run: Option<HitRun>,
    /// Number of messages that this body has added.
    stored: usize,
}

/// Consecutive objects that were hits, since the last miss or page. Leading instructions do not count.
#[derive(Clone, Copy)]
struct HitRun {
    start: ObjectStart,
    /// Number of messages in these objects.
    messages: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct ObjectStart {
    key: u64,
    /// Length of the body from the object on, in bytes.
    rest: usize,
}

/// A cache entry found at the cursor.
pub(crate) enum CacheHit {
    Message(Arc<ParsedMessage>),
    /// Several consecutive messages.
    Page(Arc<CachePage>),
}

impl CacheHit {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Message(parsed) => parsed.len(),
            Self::Page(page) => page.len(),
        }
    }

    /// Appends the messages, now at `span`, with what belongs to them.
    pub(crate) fn append_at(self, span: Span, to: &mut Pieces) {
        match self {
            Self::Message(parsed) => {
                let message = parsed.append_at(span.start_u32(), to);
                to.messages.push(message);
            }
            Self::Page(page) => page.append_at(span.start_u32(), to),
        }
    }
}

impl ParseCache {
    /// Creates a cursor for a body of the caller `scope`, before the first message.
    pub(crate) fn cursor(&self, scope: Scope, dialect: Dialect) -> ParseCursor<'_> {
        let [key, ..] = self.key;
        let (words, _) = scope.bytes().as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let prefix_state = words.fold(mix(key, dialect.form_version().into()), mix);
        ParseCursor {
            cache: self,
            scope,
            start_state: prefix_state,
            prefix_state,
            block_state: mix(prefix_state, BLOCK_SALT),
            run: None,
            stored: 0,
        }
    }
}

impl ParseCursor<'_> {
    /// Looks up the message or page at the start of `rest`. Advances past it if it is cached.
    pub(crate) fn lookup(&mut self, rest: &str) -> Option<CacheHit> {
        let start = self.object_start(rest);
        if let Some(page) = self.lookup_page(start.key, rest) {
            self.prefix_state = page.place.prefix_state;
            self.block_state = page.place.block_state;
            return Some(CacheHit::Page(page));
        }
        let parsed = self.lookup_message(start.key, rest)?;
        let role = parsed.message.role;
        self.prefix_state = advanced(self.prefix_state, role, parsed.fingerprint);
        self.extend_run(start, 1, role);
        Some(CacheHit::Message(parsed))
    }

    /// Looks up the block at the start of `rest`. Advances past it if it is cached.
    pub(crate) fn lookup_block(&mut self, rest: &str) -> Option<Arc<ParsedMessage>> {
        let parsed = self.lookup_message(key(self.block_state, rest), rest)?;
        let role = parsed.message.role;
        self.block_state = advanced(self.block_state, role, parsed.fingerprint);
        Some(parsed)
    }

    /// Returns the start of the object at the start of `rest`, the next one.
    pub(crate) fn object_start(&self, rest: &str) -> ObjectStart {
        ObjectStart { key: key(self.prefix_state, rest), rest: rest.len() }
    }

    /// Returns the cache key of the tool definitions at the start of `rest`.
    pub(super) fn tools_key(&self, rest: &str) -> u64 {
        key(mix(self.start_state, TOOLS_SALT), rest)
    }

    /// Adds the object at `start` to the hits that may become a page. The object holds so many `messages`,
    /// the first with this `role`.
    pub(crate) fn extend_run(&mut self, start: ObjectStart, messages: usize, role: Role) {
        let run = match &mut self.run {
            Some(run) => run,
            // A page never begins with instructions.
            None if role.is_instruction() => return,
            empty => empty.insert(HitRun { start, messages: 0 }),
        };
        run.messages += messages;
    }

    /// Ends the hits that may become a page, at an object that is not one.
    pub(crate) fn end_run(&mut self) {
        self.run = None;
    }

    fn lookup_message(&self, key: u64, rest: &str) -> Option<Arc<ParsedMessage>> {
        let parsed = self.cache.messages.get(key)?;
        let bytes = rest.as_bytes().get(..parsed.len())?;
        let is_it = self.cache.fingerprint(self.scope, bytes) == parsed.fingerprint;
        is_it.then_some(parsed)
    }

    fn lookup_page(&self, key: u64, rest: &str) -> Option<Arc<CachePage>> {
        if self.run.is_some() {
            return None;
        }
        let page = self.cache.pages.get(key)?;
        let bytes = rest.as_bytes().get(..page.len())?;
        // If conversations diverge within a page, only one has the page cached. Comparing the tail
        // first saves the others the full hash.
        let is_it = tail_hash(bytes) == page.place.tail_hash
            && self.cache.fingerprint(self.scope, bytes) == page.place.fingerprint;
        is_it.then_some(page)
    }

    /// Stores the newest of `pieces` as a page, once enough consecutive messages were hits. The cursor
    /// is at `end` of `text`.
    pub(crate) fn store_page(&mut self, text: &str, end: usize, pieces: &Pieces) {
        let Some(run) = self.run.filter(|run| run.messages >= PAGE_MESSAGES) else {
            return;
        };
        self.run = None;
        let first = pieces.messages.len().checked_sub(run.messages);
        let start = text.len().checked_sub(run.start.rest);
        let span = start.and_then(|start| Span::new(start, end));
        let Some((first, span)) = first.zip(span) else {
            return;
        };
        if !CachePage::may_hold(first, pieces) {
            return;
        }
        let bytes = span.slice(text).as_bytes();
        let place = PagePlace {
            span,
            fingerprint: self.cache.fingerprint(self.scope, bytes),
            tail_hash: tail_hash(bytes),
            prefix_state: self.prefix_state,
            block_state: self.block_state,
        };
        let page = CachePage::new(place, first, pieces);
        self.cache.pages.insert(run.start.key, Arc::new(page));
    }

    /// Stores the parse of the message at the start of `rest` and advances past it.
    pub(crate) fn store(
        &mut self,
        rest: &str,
        message: &mut Message,
        parts: &[ContentPart],
        calls: &[ToolCall],
    ) {
        let key = key(self.prefix_state, rest);
        let fingerprint = self.store_message(key, rest, message, parts, calls);
        self.prefix_state = advanced(self.prefix_state, message.role, fingerprint);
    }

    /// Stores the parse of the block at the start of `rest` and advances past it.
    pub(crate) fn store_block(&mut self, rest: &str, message: &mut Message, parts: &[ContentPart]) {
        let key = key(self.block_state, rest);
        let fingerprint = self.store_message(key, rest, message, parts, &[]);
        self.block_state = advanced(self.block_state, message.role, fingerprint);
    }

    fn store_message(
        &mut self,
        key: u64,
        rest: &str,
        message: &mut Message,
        parts: &[ContentPart],
        calls: &[ToolCall],
    ) -> Fingerprint {
        let bytes = rest.as_bytes().get(..message.span.len());
        let fingerprint = self.cache.fingerprint(self.scope, bytes.unwrap_or_default());
        if parts.len() + calls.len() <= MAX_MEMBERS && self.stored < self.cache.max_stored {
            self.stored += 1;
            let parsed = ParsedMessage::new(fingerprint, message, parts, calls);
            let parsed = Arc::new(parsed);
            message.cached = Some(CacheEntry::Parsed(Arc::clone(&parsed)));
            self.cache.messages.insert(key, parsed);
        }
        self.end_run();
        fingerprint
    }
}

/// Returns the state after a message. Head instructions change with the date, so the state after them
/// must not depend on their text.
fn advanced(state: u64, role: Role, fingerprint: Fingerprint) -> u64 {
    let says = if role.is_instruction() { 0 } else { (fingerprint >> 64) as u64 };
    mix(state, says)
}

/// Returns the cache key of the message at the start of `rest`, after the messages of `state`.
fn key(state: u64, rest: &str) -> u64 {
    let rest = rest.as_bytes();
    mix(state, short_hash(rest.get(..EDGE_BYTES).unwrap_or(rest)))
}

fn mix(one: u64, other: u64) -> u64 {
    (one.rotate_left(29) ^ other).wrapping_mul(MULTIPLIER)
}

fn tail_hash(bytes: &[u8]) -> u64 {
    let before = bytes.len().saturating_sub(EDGE_BYTES);
    short_hash(bytes.get(before..).unwrap_or_default())
}

/// Hashes a few bytes, eight at a time; ignores a shorter remainder.
fn short_hash(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(0, mix)
}

#[cfg(test)]
mod tests;
