//! The way through the messages of one body, past those that were met before.
//!
//! What followed a prefix once is most likely what follows it now. So the reading of a message is
//! kept under the prefix before it and its first bytes, beside its length and its [`Print`]. Where
//! the bytes that stand there now have the same print, they are the same; and what a message is
//! read as is a function of its bytes alone. The prefix only says where to look: one that is
//! mistaken for another costs a look.
//!
//! [`Print`]: super::Print

use super::Recall;
use super::pages::{PAGE, Page};
use super::readings::{MEMBERS, Reading};
use crate::rewrite::chain::Scope;
use crate::rewrite::conversation::{Call, Message, Part, Role};
use crate::rewrite::span::Span;
use std::sync::Arc;

/// Bytes at the beginning of a message that tell it from others behind its prefix, and at the end of
/// a page that tell it from another with the same beginning.
const TELLING: usize = 64;
/// An odd number without a pattern: 2⁶⁴ over the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The way through the messages of one body.
pub(in crate::rewrite) struct Thread<'r> {
    recall: &'r Recall,
    scope: Scope,
    /// What was passed, as far as it tells what comes next.
    passed: u64,
    /// Messages that were met one by one since the last that was not, or since the last page; none as
    /// long as they instruct.
    met: usize,
    /// The place of the first of them.
    begun: u64,
}

/// What was met.
pub(in crate::rewrite) enum Met {
    /// One message.
    Message(Arc<Reading>),
    /// Several in a row.
    Page(Arc<Page>),
}

impl Met {
    /// How many bytes it has.
    pub(in crate::rewrite) fn len(&self) -> usize {
        match self {
            Self::Message(reading) => reading.len(),
            Self::Page(page) => page.len(),
        }
    }

    /// What stands at `span` now, with its parts and calls, goes behind what there is.
    pub(in crate::rewrite) fn put_at(
        self,
        span: Span,
        messages: &mut Vec<Message>,
        parts: &mut Vec<Part>,
        calls: &mut Vec<Call>,
    ) {
        match self {
            Self::Message(reading) => messages.push(reading.put_at(span.offset(), parts, calls)),
            Self::Page(page) => page.put_at(span.offset(), messages, parts, calls),
        }
    }
}

impl Recall {
    /// The way through a body of this caller's, before its first message.
    pub(in crate::rewrite) fn thread(&self, scope: Scope) -> Thread<'_> {
        let [key, ..] = self.key;
        let (words, _) = scope.bytes().as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        Thread {
            recall: self,
            scope,
            passed: words.fold(key, mix),
            met: 0,
            begun: 0,
        }
    }
}

impl Thread<'_> {
    /// What `rest` begins with, if it was met behind what was passed. It is passed then.
    pub(in crate::rewrite) fn meet(&mut self, rest: &str) -> Option<Met> {
        let place = self.place(rest);
        if let Some(page) = self.page_at(place, rest) {
            self.passed = page.passed();
            return Some(Met::Page(page));
        }
        let reading = self.recall.readings.get(&place)?;
        let bytes = rest.as_bytes().get(..reading.len())?;
        let print = reading.print();
        if self.recall.print(self.scope, bytes) != print {
            return None;
        }
        let role = reading.message().role;
        self.pass(role, print.half());
        if self.met == 0 {
            self.begun = place;
        }
        // No page begins with instructions.
        self.met += usize::from(self.met > 0 || !role.instructs());
        Some(Met::Message(reading))
    }

    /// The page that `rest` begins with.
    fn page_at(&self, place: u64, rest: &str) -> Option<Arc<Page>> {
        if self.met > 0 {
            return None;
        }
        let page = self.recall.pages.get(&place)?;
        let bytes = rest.as_bytes().get(..page.len())?;
        // Of conversations that part within a page only one has it: the other need not be hashed.
        let is_it =
            ending(bytes) == page.ending() && self.recall.print(self.scope, bytes) == page.print();
        is_it.then_some(page)
    }

    /// Keeps the last of `messages` as a page, once enough of them were met in a row. They are of
    /// `text`, and the last that was passed is the last of them.
    pub(in crate::rewrite) fn keep_page(&mut self, text: &str, messages: &[Message]) {
        if self.met < PAGE {
            return;
        }
        self.met = 0;
        let before = messages.len().saturating_sub(PAGE);
        let messages = messages.get(before..).unwrap_or_default();
        let ([first, ..], [.., last]) = (messages, messages) else {
            return;
        };
        let span = first.span.through(last.span);
        let bytes = span.slice(text).as_bytes();
        let print = self.recall.print(self.scope, bytes);
        if let Some(page) = Page::of(messages, span, print, ending(bytes), self.passed) {
            self.recall.pages.insert(self.begun, Arc::new(page));
        }
    }

    /// Keeps what the message that `rest` begins with was read as, and passes it.
    pub(in crate::rewrite) fn keep(
        &mut self,
        rest: &str,
        message: &mut Message,
        parts: &[Part],
        calls: &[Call],
    ) {
        let bytes = rest.as_bytes().get(..message.span.len());
        let print = self.recall.print(self.scope, bytes.unwrap_or_default());
        if parts.len() + calls.len() <= MEMBERS {
            let reading = Arc::new(Reading::new(print, message, parts, calls));
            message.reading = Some(Arc::clone(&reading));
            self.recall.readings.insert(self.place(rest), reading);
        }
        self.pass(message.role, print.half());
        self.met = 0;
    }

    /// Instructions at the head change with the date: what comes behind them does not hang on what
    /// they say.
    fn pass(&mut self, role: Role, says: u64) {
        let says = if role.instructs() { 0 } else { says };
        self.passed = mix(self.passed, says);
    }

    /// Under what is kept that stands at the front of `rest`.
    fn place(&self, rest: &str) -> u64 {
        let rest = rest.as_bytes();
        mix(self.passed, short_hash(rest.get(..TELLING).unwrap_or(rest)))
    }
}

fn mix(one: u64, other: u64) -> u64 {
    (one.rotate_left(29) ^ other).wrapping_mul(SPREAD)
}

/// What the last bytes are, in short.
fn ending(bytes: &[u8]) -> u64 {
    let before = bytes.len().saturating_sub(TELLING);
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
