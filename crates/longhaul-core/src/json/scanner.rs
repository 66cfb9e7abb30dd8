//! Single-pass JSON scanner that finds spans and builds no tree.
//!
//! The scanner checks the whole grammar of RFC 8259, so longhaul never acts on a body that it would
//! misread. Nesting costs one byte per level and no stack. The scanner counts the Unicode
//! characters of string literals as it passes them, so the plain estimate needs no second pass.

pub(crate) mod block_mask;
mod escapes;

use crate::json::span::Span;
use block_mask::{BLOCK_BYTES, BlockMask};
use memchr::memmem::{self, Finder};
use std::borrow::Cow;
use std::sync::LazyLock;

/// The text is not JSON, is truncated, or exceeds the addressable length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NotJson;

/// A string literal: its span, including quotes, and its decoded length. Also the JSON of another
/// value where a text is expected, such as the arguments of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Literal {
    span: Span,
    chars: u32,
    escaped: bool,
    /// Bytes of the span before the text, and after it: one for a string, zero for other values.
    quotes: u8,
}

impl Literal {
    /// Takes the value at `span` of `body` as the text of its JSON.
    pub(crate) fn from_json(body: &str, span: Span) -> Self {
        let chars = span.slice(body).chars().count();
        Self { span, chars: u32::try_from(chars).unwrap_or(u32::MAX), escaped: false, quotes: 0 }
    }

    /// Returns the span, including quotes.
    pub fn span(self) -> Span {
        self.span
    }

    /// Returns the number of Unicode characters of the decoded text; a lone surrogate counts as
    /// one.
    pub fn chars(self) -> u32 {
        self.chars
    }

    /// Returns the literal shifted by `by` bytes, modulo 2³².
    pub(crate) fn shifted(self, by: u32) -> Self {
        Self { span: self.span.shifted(by), ..self }
    }

    pub(crate) fn is_string(self) -> bool {
        self.quotes > 0
    }

    pub(crate) fn is_escaped(self) -> bool {
        self.escaped
    }

    /// Returns the text between the quotes, undecoded.
    #[inline]
    pub fn raw(self, body: &str) -> &str {
        let quotes = usize::from(self.quotes);
        let end = self.span.end().saturating_sub(quotes);
        body.get(self.span.start() + quotes..end).unwrap_or_default()
    }

    /// Returns the decoded text; lone surrogates become U+FFFD.
    #[inline]
    pub fn decode(self, body: &str) -> Cow<'_, str> {
        let raw = self.raw(body);
        if self.escaped { Cow::Owned(escapes::decode(raw, usize::MAX)) } else { Cow::Borrowed(raw) }
    }

    /// Returns what at least the first `limit` bytes decode to.
    pub(crate) fn decode_start(self, body: &str, limit: usize) -> Cow<'_, str> {
        let raw = self.raw(body);
        if self.escaped {
            Cow::Owned(escapes::decode(raw, limit))
        } else {
            Cow::Borrowed(raw.get(..raw.ceil_char_boundary(limit)).unwrap_or(raw))
        }
    }
}

/// Whether a literal's raw text contains a `\u` escape.
pub(crate) fn has_unicode_escape(raw: &str) -> bool {
    static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u"));
    ESCAPE.find(raw.as_bytes()).is_some()
}

/// A cursor over JSON text. Each method leaves the cursor after the value it read.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Skips white space and returns the next byte without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = self.byte()?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.position += 1;
        }
    }

    pub(crate) fn remaining(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    /// Skips a value of `bytes` bytes that is known to be valid.
    pub(crate) fn advance(&mut self, bytes: usize) -> Result<Span, NotJson> {
        let start = self.position;
        self.position += bytes;
        self.span_from(start)
    }

    /// Checks that only white space remains.
    pub(crate) fn finish(&mut self) -> Result<(), NotJson> {
        if self.peek().is_none() { Ok(()) } else { Err(NotJson) }
    }

    /// Reads an object. Calls `member` before each value, which `member` must read.
    pub(crate) fn object<E: From<NotJson>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Literal) -> Result<(), E>,
    ) -> Result<Span, E> {
        let start = self.consume_open(b'{')?;
        if !self.consume(b'}') {
            loop {
                let key = self.string()?;
                self.expect(b':')?;
                member(self, key)?;
                if !self.consume(b',') {
                    self.expect(b'}')?;
                    break;
                }
            }
        }
        Ok(self.span_from(start)?)
    }

    /// Reads an array. Calls `element` before each value, which `element` must read.
    pub(crate) fn array<E: From<NotJson>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<Span, E> {
        let start = self.consume_open(b'[')?;
        if !self.consume(b']') {
            loop {
                element(self)?;
                if !self.consume(b',') {
                    self.expect(b']')?;
                    break;
                }
            }
        }
        Ok(self.span_from(start)?)
    }

    /// Reads a string literal and counts its decoded characters.
    pub(crate) fn string(&mut self) -> Result<Literal, NotJson> {
        let start = self.consume_open(b'"')?;
        let mut surplus = ExtraBytes::default();
        let block = self.remaining_bytes();
        if let Some(mask) = BlockMask::from_first_lanes(block)
            && mask.special != 0
            && let at = mask.first_special()
            && block.get(at) == Some(&b'"')
        {
            surplus.add_continuation(mask.continuation_before(at));
            self.position += at + 1;
            return self.literal(start, &surplus);
        }
        self.long_string(start)
    }

    /// Reads the rest of a string literal that begins at `start`. A separate function, so that most
    /// keys and names need no registers of the loop.
    #[inline(never)]
    fn long_string(&mut self, start: usize) -> Result<Literal, NotJson> {
        let mut surplus = ExtraBytes::default();
        let mut mask = BlockMask::from_bytes(self.remaining_bytes());
        loop {
            let block = self.remaining_bytes();
            // End of the last escape. The next block begins there if the escape extends past this
            // block.
            let mut passed = 0;
            while mask.special != 0 {
                let at = mask.first_special();
                match block.get(at..) {
                    Some([b'"', ..]) => {
                        surplus.add_continuation(mask.continuation_before(at));
                        self.position += at + 1;
                        return self.literal(start, &surplus);
                    }
                    Some([b'\\', escape, ..]) if escapes::simple(*escape).is_some() => {
                        surplus.escapes += 1;
                        passed = at + 2;
                        mask.clear_pair(at);
                    }
                    Some([b'\\', b'u', units @ ..]) => {
                        let length = escapes::unit_escape_length(units)?;
                        surplus.escapes += length - 1;
                        passed = at + length;
                        mask.clear_before(passed);
                    }
                    _ => return Err(NotJson),
                }
            }
            surplus.add_continuation(mask.continuation);
            self.position += passed.max(BLOCK_BYTES);
            mask = BlockMask::from_bytes(self.remaining_bytes());
        }
    }

    fn literal(&self, start: usize, surplus: &ExtraBytes) -> Result<Literal, NotJson> {
        let span = self.span_from(start)?;
        let quotes = 2;
        let chars = span.len() - surplus.escapes - surplus.continuation - quotes;
        Ok(Literal {
            span,
            chars: u32::try_from(chars).unwrap_or(u32::MAX),
            escaped: surplus.escapes > 0,
            quotes: 1,
        })
    }

    pub(crate) fn value(&mut self) -> Result<Span, NotJson> {
        self.peek().ok_or(NotJson)?;
        let start = self.position;
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek().ok_or(NotJson)? {
                b'{' => {
                    self.position += 1;
                    if !self.consume(b'}') {
                        open.push(b'}');
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.position += 1;
                    if !self.consume(b']') {
                        open.push(b']');
                        continue;
                    }
                }
                b'"' => {
                    self.string()?;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.keyword("true")?,
                b'f' => self.keyword("false")?,
                b'n' => self.keyword("null")?,
                _ => return Err(NotJson),
            }
            loop {
                let Some(&close) = open.last() else {
                    return self.span_from(start);
                };
                if self.consume(b',') {
                    if close == b'}' {
                        self.key()?;
                    }
                    break;
                }
                self.expect(close)?;
                open.pop();
            }
        }
    }

    /// Reads a value. Returns its JSON.
    pub(crate) fn json(&mut self) -> Result<&'a str, NotJson> {
        Ok(self.value()?.slice(self.text))
    }

    pub(crate) fn skip(&mut self) -> Result<(), NotJson> {
        self.value().map(drop)
    }

    fn key(&mut self) -> Result<(), NotJson> {
        self.string()?;
        self.expect(b':')
    }

    fn number(&mut self) -> Result<(), NotJson> {
        if self.byte() == Some(b'-') {
            self.position += 1;
        }
        if self.byte() == Some(b'0') {
            self.position += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.position += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let from = self.position;
        while matches!(self.byte(), Some(b'0'..=b'9')) {
            self.position += 1;
        }
        if self.position > from { Ok(()) } else { Err(NotJson) }
    }

    fn keyword(&mut self, word: &str) -> Result<(), NotJson> {
        if !self.remaining_bytes().starts_with(word.as_bytes()) {
            return Err(NotJson);
        }
        self.position += word.len();
        Ok(())
    }

    fn consume_open(&mut self, byte: u8) -> Result<usize, NotJson> {
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.position += 1;
        Ok(self.position - 1)
    }

    fn consume(&mut self, byte: u8) -> bool {
        let matches = self.peek() == Some(byte);
        self.position += usize::from(matches);
        matches
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.consume(byte) { Ok(()) } else { Err(NotJson) }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn remaining_bytes(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.position..).unwrap_or_default()
    }

    fn span_from(&self, start: usize) -> Result<Span, NotJson> {
        Span::new(start, self.position).ok_or(NotJson)
    }
}

/// Returns the members of an object: each key, decoded, with the JSON of its value. Yields nothing unless `json` is an object.
pub(crate) fn members(json: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let (mut scanner, mut before) = (Scanner::new(json), b'{');
    std::iter::from_fn(move || {
        let follows = scanner.consume(std::mem::replace(&mut before, b','));
        let key = scanner.string().ok().filter(|_| follows)?;
        scanner.expect(b':').ok()?;
        let value = scanner.value().ok()?;
        let is_whole = matches!(scanner.peek(), Some(b',' | b'}'));
        is_whole.then(|| (key.decode(json), value.slice(json)))
    })
}

/// Returns `json` from the value of each member with this key on, at any depth. `key` has its quotes: a match within
/// a text is impossible, because the quotation marks would be escaped.
pub(crate) fn values_after<'a>(json: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    memmem::find_iter(json.as_bytes(), key).filter_map(move |at| {
        let value = json.get(at + key.len()..)?.trim_start();
        Some(value.strip_prefix(':')?.trim_start())
    })
}

/// Returns the JSON of each element of an array. Yields nothing unless `json` is an array.
pub(crate) fn elements(json: &str) -> impl Iterator<Item = &str> {
    let (mut scanner, mut before) = (Scanner::new(json), b'[');
    std::iter::from_fn(move || {
        let follows = scanner.consume(std::mem::replace(&mut before, b','));
        let value = scanner.value().ok().filter(|_| follows)?;
        Some(value.slice(json))
    })
}

/// Bytes of a literal beyond one per character.
#[derive(Default)]
struct ExtraBytes {
    escapes: usize,
    continuation: usize,
}

impl ExtraBytes {
    fn add_continuation(&mut self, mask: u64) {
        if mask != 0 {
            self.continuation += mask.count_ones() as usize;
        }
    }
}

#[cfg(test)]
mod tests;
