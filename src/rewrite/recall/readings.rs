//! What messages were read as, found again by what stood before them: a turn reads what is new in it.
//!
//! What followed a prefix once is most likely what follows it now. So the reading of a message is
//! kept under the prefix before it and its first bytes, beside its length and its [`Print`]. Where
//! the bytes that stand there now have the same print, they are the same; and what a message is
//! read as is a function of its bytes alone. The prefix only says where to look: one that is
//! mistaken for another costs a look.

use super::{Notes, Print, Recall};
use crate::rewrite::chain::Scope;
use crate::rewrite::conversation::{Call, Content, Message, Part};
use crate::rewrite::generations::Shards;
use crate::rewrite::scan::Literal;
use crate::rewrite::span::Span;
use std::sync::Arc;

/// Readings in one generation. The one before is kept beside it, and what of that is used moves on:
/// with some 400 bytes each, 26 MB are taken by both. Messages have 3 KB on average, so that one
/// holds a session of a hundred windows.
pub(super) const GENERATION: usize = 32_768;
/// Parts and calls of one message at the most: what has more is read each time.
const MEMBERS: usize = 16;
/// Words of eight bytes at the beginning of a message that tell it from others behind its prefix.
const TELLING: usize = 8;
/// An odd number without a pattern: 2⁶⁴ over the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The readings of messages that were met.
pub(super) type Readings = Shards<u64, Arc<Reading>>;

/// What a message was read as; its spans count from its own beginning, its parts and calls from its
/// own first.
#[derive(Debug)]
pub(in crate::rewrite) struct Reading {
    print: Print,
    message: Message,
    parts: Box<[Part]>,
    calls: Box<[Call]>,
    notes: Notes,
}

/// The way through the messages of one body.
pub(in crate::rewrite) struct Thread<'r> {
    recall: &'r Recall,
    scope: Scope,
    /// What was passed, as far as it tells what comes next.
    passed: u64,
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
        }
    }
}

impl Thread<'_> {
    /// The reading of the message that `rest` begins with, if it was met behind what was passed.
    pub(in crate::rewrite) fn meet(&mut self, rest: &str) -> Option<Arc<Reading>> {
        let place = self.place(rest);
        let reading = self.recall.readings.get(&place)?;
        let bytes = rest.as_bytes().get(..reading.message.span.len())?;
        if self.recall.print(self.scope, bytes) != reading.print {
            return None;
        }
        self.pass(&reading.message, reading.print.half());
        Some(reading)
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
        self.pass(message, print.half());
    }

    /// Instructions at the head change with the date: what comes behind them does not hang on what
    /// they say.
    fn pass(&mut self, message: &Message, says: u64) {
        let says = if message.role.instructs() { 0 } else { says };
        self.passed = mix(self.passed, says);
    }

    /// Under what the reading of the message at the front of `rest` is kept.
    fn place(&self, rest: &str) -> u64 {
        mix(self.passed, beginning(rest.as_bytes(), 8 * TELLING))
    }
}

fn mix(one: u64, other: u64) -> u64 {
    (one.rotate_left(29) ^ other).wrapping_mul(SPREAD)
}

/// What the first `most` bytes are, in short.
fn beginning(bytes: &[u8], most: usize) -> u64 {
    let (words, _) = bytes.get(..most).unwrap_or(bytes).as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(0, mix)
}

impl Reading {
    fn new(print: Print, message: &Message, parts: &[Part], calls: &[Call]) -> Self {
        let back = Shift::to_the_front(message.span);
        Self {
            print,
            message: Message {
                parts: 0..parts.len(),
                calls: 0..calls.len(),
                ..back.message(message)
            },
            parts: parts.iter().map(|part| back.part(part)).collect(),
            calls: calls.iter().map(|call| back.call(call)).collect(),
            notes: Notes::default(),
        }
    }

    /// What was worked out of its message.
    pub(in crate::rewrite) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// How many bytes its message has.
    pub(in crate::rewrite) fn len(&self) -> usize {
        self.message.span.len()
    }

    /// The message as it reads where it stands now; its parts and calls go behind those there are.
    pub(in crate::rewrite) fn put_at(
        self: Arc<Self>,
        span: Span,
        parts: &mut Vec<Part>,
        calls: &mut Vec<Call>,
    ) -> Message {
        let there = Shift::from_the_front(span);
        let (part, call) = (parts.len(), calls.len());
        parts.extend(self.parts.iter().map(|part| there.part(part)));
        calls.extend(self.calls.iter().map(|call| there.call(call)));
        let message = there.message(&self.message);
        Message {
            parts: part..parts.len(),
            calls: call..calls.len(),
            reading: Some(self),
            ..message
        }
    }
}

/// How far spans move: bytes, modulo 2³².
#[derive(Clone, Copy)]
struct Shift(u32);

impl Shift {
    fn to_the_front(span: Span) -> Self {
        Self(span.offset().wrapping_neg())
    }

    fn from_the_front(span: Span) -> Self {
        Self(span.offset())
    }

    fn span(self, span: Span) -> Span {
        span.moved(self.0)
    }

    fn literal(self, literal: Option<Literal>) -> Option<Literal> {
        literal.map(|literal| literal.moved(self.0))
    }

    fn part(self, part: &Part) -> Part {
        Part {
            kind: part.kind,
            span: self.span(part.span),
            text: self.literal(part.text),
            cache_control: part.cache_control.map(|mark| self.span(mark)),
        }
    }

    fn call(self, call: &Call) -> Call {
        Call {
            id: self.literal(call.id),
            name: self.literal(call.name),
            arguments: self.literal(call.arguments),
        }
    }

    fn message(self, message: &Message) -> Message {
        Message {
            span: self.span(message.span),
            content: match message.content {
                Content::Absent => Content::Absent,
                Content::Null => Content::Null,
                Content::Parts(span) => Content::Parts(self.span(span)),
                Content::Text(literal) => Content::Text(literal.moved(self.0)),
            },
            answers: self.literal(message.answers),
            name: self.literal(message.name),
            ..message.clone()
        }
    }
}

#[cfg(test)]
mod tests;
