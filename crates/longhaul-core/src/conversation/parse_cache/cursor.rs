//! Cursor over the messages of one body that skips cached messages.
//!
//! A message that followed a prefix once most likely follows it again. The cache therefore stores a
//! parse under the prefix before the message and the message's first bytes, with its length and its
//! [`Fingerprint`]. If the bytes now at that position have the same fingerprint, they are the same
//! bytes. The parse is a function of those bytes alone. The prefix only selects the entry to
//! compare: a wrong prefix costs one comparison.
//!
//! [`Fingerprint`]: super::Fingerprint

use crate::conversation::parse_cache::ParseCache;
use crate::conversation::parse_cache::cache_entry::CacheEntry;
use crate::conversation::parse_cache::memo::MessageMemo;
use crate::conversation::parse_cache::pages::{CachePage, PAGE_MESSAGES};
use crate::conversation::parse_cache::parsed_messages::{MAX_MEMBERS, ParsedMessage};
use crate::conversation::{ContentPart, Message, Role, ToolCall};
use crate::dialect::Dialect;
use crate::json::span::Span;
use crate::units::scope::Scope;
use std::sync::Arc;

/// Bytes at the start of a message that distinguish it from others after the same prefix. Also the
/// bytes at the end of a page that distinguish it from pages with the same start.
const EDGE_BYTES: usize = 64;
/// An odd number without a pattern: 2⁶⁴ divided by the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Distinguishes blocks within a message from messages.
const BLOCK_SALT: u64 = 0xB10C;

/// Cursor over the messages of one body.
pub(crate) struct ParseCursor<'r> {
    cache: &'r ParseCache,
    scope: Scope,
    /// Hash of the messages passed so far, used to predict the next one.
    prefix_state: u64,
    /// Consecutive single-message hits since the last miss or page. Leading instructions do not
    /// count.
    consecutive_hits: usize,
    /// Key of the first of those messages.
    page_key: u64,
    /// Number of messages that this body has added.
    stored: usize,
}

/// A cache entry found at the cursor.
pub(crate) enum CacheHit {
    /// A single message.
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

    /// Appends the messages, now at `span`, with their parts and calls.
    pub(crate) fn append_at(
        self,
        span: Span,
        messages: &mut Vec<Message>,
        parts: &mut Vec<ContentPart>,
        calls: &mut Vec<ToolCall>,
    ) {
        match self {
            Self::Message(parsed) => {
                messages.push(parsed.append_at(span.start_u32(), parts, calls));
            }
            Self::Page(page) => page.append_at(span.start_u32(), messages, parts, calls),
        }
    }
}

impl ParseCache {
    /// Creates a cursor for a body of the caller `scope`, before the first message.
    pub(crate) fn cursor(&self, scope: Scope, dialect: Dialect) -> ParseCursor<'_> {
        let [key, ..] = self.key;
        let (words, _) = scope.bytes().as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        ParseCursor {
            cache: self,
            scope,
            prefix_state: words.fold(mix(key, dialect.form_version().into()), mix),
            consecutive_hits: 0,
            page_key: 0,
            stored: 0,
        }
    }
}

impl ParseCursor<'_> {
    /// Turns the cursor into one over blocks that are messages of their own, within objects that hold
    /// several. The same bytes may have another meaning as an object.
    #[must_use]
    pub(crate) fn for_blocks(self) -> Self {
        Self {
            prefix_state: mix(self.prefix_state, BLOCK_SALT),
            ..self
        }
    }

    /// Looks up the message or page at the start of `rest`. Advances past it if it is cached.
    pub(crate) fn lookup(&mut self, rest: &str) -> Option<CacheHit> {
        let place = self.key(rest);
        if let Some(page) = self.lookup_page(place, rest) {
            self.prefix_state = page.prefix_state();
            return Some(CacheHit::Page(page));
        }
        let parsed = self.cache.messages.get(&place)?;
        let bytes = rest.as_bytes().get(..parsed.len())?;
        let fingerprint = parsed.fingerprint();
        if self.cache.fingerprint(self.scope, bytes) != fingerprint {
            return None;
        }
        let role = parsed.message().role;
        self.advance(role, fingerprint.high_bits());
        if self.consecutive_hits == 0 {
            self.page_key = place;
        }
        // A page never begins with instructions.
        self.consecutive_hits += usize::from(self.consecutive_hits > 0 || !role.is_instruction());
        Some(CacheHit::Message(parsed))
    }

    /// Looks up the page at the start of `rest`.
    fn lookup_page(&self, place: u64, rest: &str) -> Option<Arc<CachePage>> {
        if self.consecutive_hits > 0 {
            return None;
        }
        let page = self.cache.pages.get(&place)?;
        let bytes = rest.as_bytes().get(..page.len())?;
        // If conversations diverge within a page, only one has the page cached. Comparing the tail
        // first saves the others the full hash.
        let is_it = tail_hash(bytes) == page.tail_hash()
            && self.cache.fingerprint(self.scope, bytes) == page.fingerprint();
        is_it.then_some(page)
    }

    /// Stores the last of `messages` as a page, once enough consecutive messages were hits.
    /// `messages` are those of `text` up to the cursor.
    pub(crate) fn store_page(&mut self, text: &str, messages: &[Message]) {
        if self.consecutive_hits < PAGE_MESSAGES {
            return;
        }
        self.consecutive_hits = 0;
        let before = messages.len().saturating_sub(PAGE_MESSAGES);
        let messages = messages.get(before..).unwrap_or_default();
        let ([first, ..], [.., last]) = (messages, messages) else {
            return;
        };
        let span = first.span.extended_to(last.span);
        let bytes = span.slice(text).as_bytes();
        let fingerprint = self.cache.fingerprint(self.scope, bytes);
        if let Some(page) = CachePage::from_messages(
            messages,
            span,
            fingerprint,
            tail_hash(bytes),
            self.prefix_state,
        ) {
            self.cache.pages.insert(self.page_key, Arc::new(page));
        }
    }

    /// Stores the parse of the message at the start of `rest` and advances past it.
    pub(crate) fn store(
        &mut self,
        rest: &str,
        message: &mut Message,
        parts: &[ContentPart],
        calls: &[ToolCall],
    ) {
        let bytes = rest.as_bytes().get(..message.span.len());
        let fingerprint = self
            .cache
            .fingerprint(self.scope, bytes.unwrap_or_default());
        if parts.len() + calls.len() <= MAX_MEMBERS && self.stored < self.cache.max_stored {
            self.stored += 1;
            let memo = MessageMemo::new(self.cache.free_index_bytes.clone());
            let parsed = ParsedMessage::new(fingerprint, message, parts, calls, memo);
            let parsed = Arc::new(parsed);
            message.cached = Some(CacheEntry::Parsed(Arc::clone(&parsed)));
            self.cache.messages.insert(self.key(rest), parsed);
        }
        self.advance(message.role, fingerprint.high_bits());
        self.consecutive_hits = 0;
    }

    /// Advances past a message. Head instructions change with the date, so the state after them
    /// must not depend on their text.
    fn advance(&mut self, role: Role, says: u64) {
        let says = if role.is_instruction() { 0 } else { says };
        self.prefix_state = mix(self.prefix_state, says);
    }

    /// Returns the cache key of the message at the start of `rest`.
    fn key(&self, rest: &str) -> u64 {
        let rest = rest.as_bytes();
        mix(
            self.prefix_state,
            short_hash(rest.get(..EDGE_BYTES).unwrap_or(rest)),
        )
    }
}

fn mix(one: u64, other: u64) -> u64 {
    (one.rotate_left(29) ^ other).wrapping_mul(MULTIPLIER)
}

/// Returns a short hash of the last bytes.
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
