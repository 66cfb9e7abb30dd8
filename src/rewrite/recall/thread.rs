//! The way through the messages of one body, past those that were met before.
//!
//! What followed a prefix once is most likely what follows it now. So the reading of a message is
//! kept under the prefix before it and its first bytes, beside its length and its [`Print`]. Where
//! the bytes that stand there now have the same print, they are the same; and what a message is
//! read as is a function of its bytes alone. The prefix only says where to look: one that is
//! mistaken for another costs a look.
//!
//! [`Print`]: super::Print

use super::ParseCache;
use super::pages::{CachePage, PAGE_MESSAGES};
use super::readings::{MAX_MEMBERS, ParsedMessage};
use crate::rewrite::chain::Scope;
use crate::rewrite::conversation::{ContentPart, Message, Role, ToolCall};
use crate::rewrite::span::Span;
use std::sync::Arc;

/// Bytes at the beginning of a message that tell it from others behind its prefix, and at the end of
/// a page that tell it from another with the same beginning.
const EDGE_BYTES: usize = 64;
/// An odd number without a pattern: 2⁶⁴ over the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The way through the messages of one body.
pub(in crate::rewrite) struct ParseCursor<'r> {
    cache: &'r ParseCache,
    scope: Scope,
    /// What was passed, as far as it tells what comes next.
    prefix_state: u64,
    /// Messages that were met one by one since the last that was not, or since the last page; none as
    /// long as they instruct.
    consecutive_hits: usize,
    /// The place of the first of them.
    page_key: u64,
}

/// What was met.
pub(in crate::rewrite) enum CacheHit {
    /// One message.
    Message(Arc<ParsedMessage>),
    /// Several in a row.
    Page(Arc<CachePage>),
}

impl CacheHit {
    /// How many bytes it has.
    pub(in crate::rewrite) fn len(&self) -> usize {
        match self {
            Self::Message(reading) => reading.len(),
            Self::Page(page) => page.len(),
        }
    }

    /// What stands at `span` now, with its parts and calls, goes behind what there is.
    pub(in crate::rewrite) fn append_at(
        self,
        span: Span,
        messages: &mut Vec<Message>,
        parts: &mut Vec<ContentPart>,
        calls: &mut Vec<ToolCall>,
    ) {
        match self {
            Self::Message(reading) => {
                messages.push(reading.append_at(span.start_u32(), parts, calls))
            }
            Self::Page(page) => page.append_at(span.start_u32(), messages, parts, calls),
        }
    }
}

impl ParseCache {
    /// The way through a body of this caller's, before its first message.
    pub(in crate::rewrite) fn cursor(&self, scope: Scope) -> ParseCursor<'_> {
        let [key, ..] = self.key;
        let (words, _) = scope.bytes().as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        ParseCursor {
            cache: self,
            scope,
            prefix_state: words.fold(key, mix),
            consecutive_hits: 0,
            page_key: 0,
        }
    }
}

impl ParseCursor<'_> {
    /// What `rest` begins with, if it was met behind what was passed. It is passed then.
    pub(in crate::rewrite) fn lookup(&mut self, rest: &str) -> Option<CacheHit> {
        let place = self.key(rest);
        if let Some(page) = self.lookup_page(place, rest) {
            self.prefix_state = page.prefix_state();
            return Some(CacheHit::Page(page));
        }
        let reading = self.cache.messages.get(&place)?;
        let bytes = rest.as_bytes().get(..reading.len())?;
        let print = reading.fingerprint();
        if self.cache.fingerprint(self.scope, bytes) != print {
            return None;
        }
        let role = reading.message().role;
        self.advance(role, print.high_bits());
        if self.consecutive_hits == 0 {
            self.page_key = place;
        }
        // No page begins with instructions.
        self.consecutive_hits += usize::from(self.consecutive_hits > 0 || !role.is_instruction());
        Some(CacheHit::Message(reading))
    }

    /// The page that `rest` begins with.
    fn lookup_page(&self, place: u64, rest: &str) -> Option<Arc<CachePage>> {
        if self.consecutive_hits > 0 {
            return None;
        }
        let page = self.cache.pages.get(&place)?;
        let bytes = rest.as_bytes().get(..page.len())?;
        // Of conversations that part within a page only one has it: the other need not be hashed.
        let is_it = tail_hash(bytes) == page.tail_hash()
            && self.cache.fingerprint(self.scope, bytes) == page.fingerprint();
        is_it.then_some(page)
    }

    /// Keeps the last of `messages` as a page, once enough of them were met in a row. They are of
    /// `text`, and the last that was passed is the last of them.
    pub(in crate::rewrite) fn store_page(&mut self, text: &str, messages: &[Message]) {
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
        let print = self.cache.fingerprint(self.scope, bytes);
        if let Some(page) =
            CachePage::from_messages(messages, span, print, tail_hash(bytes), self.prefix_state)
        {
            self.cache.pages.insert(self.page_key, Arc::new(page));
        }
    }

    /// Keeps what the message that `rest` begins with was read as, and passes it.
    pub(in crate::rewrite) fn store(
        &mut self,
        rest: &str,
        message: &mut Message,
        parts: &[ContentPart],
        calls: &[ToolCall],
    ) {
        let bytes = rest.as_bytes().get(..message.span.len());
        let print = self
            .cache
            .fingerprint(self.scope, bytes.unwrap_or_default());
        if parts.len() + calls.len() <= MAX_MEMBERS {
            let reading = Arc::new(ParsedMessage::new(print, message, parts, calls));
            message.cached = Some(Arc::clone(&reading));
            self.cache.messages.insert(self.key(rest), reading);
        }
        self.advance(message.role, print.high_bits());
        self.consecutive_hits = 0;
    }

    /// Instructions at the head change with the date: what comes behind them does not hang on what
    /// they say.
    fn advance(&mut self, role: Role, says: u64) {
        let says = if role.is_instruction() { 0 } else { says };
        self.prefix_state = mix(self.prefix_state, says);
    }

    /// Under what is kept that stands at the front of `rest`.
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

/// What the last bytes are, in short.
fn tail_hash(bytes: &[u8]) -> u64 {
    let before = bytes.len().saturating_sub(EDGE_BYTES);
    short_hash(bytes.get(before..).unwrap_or_default())
}

/// What a few bytes are, in short, but for what is left over when they are taken eight at a time.
fn short_hash(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(0, mix)
}

#[cfg(test)]
mod tests;
