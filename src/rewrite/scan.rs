//! One pass over JSON text that finds spans and builds nothing.
//!
//! The whole grammar of RFC 8259 is checked, so that a body we would misread is one we do not
//! read; nesting costs a byte a level and no stack. String literals are counted in Unicode
//! characters as they are passed: the plain estimate needs no second look at them.

use super::span::Span;
use std::borrow::Cow;

/// The text is not JSON (or is cut off, or too long to address).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NotJson;

/// A string literal: where it stands, quotes included, and what it decodes to in length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Literal {
    span: Span,
    chars: u32,
    escaped: bool,
}

impl Literal {
    /// Where it stands, quotes included.
    pub fn span(self) -> Span {
        self.span
    }

    /// Unicode characters of the decoded text; a lone surrogate counts as one.
    pub fn chars(self) -> u32 {
        self.chars
    }

    /// The text between the quotes, undecoded.
    pub fn raw(self, body: &str) -> &str {
        let quoted = self.span.slice(body);
        quoted
            .get(1..quoted.len().saturating_sub(1))
            .unwrap_or_default()
    }

    /// The text it stands for; lone surrogates become U+FFFD.
    pub fn decode(self, body: &str) -> Cow<'_, str> {
        let raw = self.raw(body);
        if self.escaped {
            Cow::Owned(decode(raw))
        } else {
            Cow::Borrowed(raw)
        }
    }
}

/// A cursor over JSON text. Each method leaves it behind what it read.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// A cursor at the beginning of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The whole text.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The next byte that is not white space, not yet taken.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = self.byte()?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Nothing but white space is left.
    pub(super) fn finish(&mut self) -> Result<(), NotJson> {
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(NotJson)
        }
    }

    /// Passes an object, calling `member` in front of each value, which it must read.
    pub(super) fn object<E: From<NotJson>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Literal) -> Result<(), E>,
    ) -> Result<Span, E> {
        let start = self.open(b'{')?;
        if !self.take(b'}') {
            loop {
                let key = self.string()?;
                self.expect(b':')?;
                member(self, key)?;
                if !self.take(b',') {
                    self.expect(b'}')?;
                    break;
                }
            }
        }
        Ok(self.span_from(start)?)
    }

    /// Passes an array, calling `element` in front of each value, which it must read.
    pub(super) fn array<E: From<NotJson>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<Span, E> {
        let start = self.open(b'[')?;
        if !self.take(b']') {
            loop {
                element(self)?;
                if !self.take(b',') {
                    self.expect(b']')?;
                    break;
                }
            }
        }
        Ok(self.span_from(start)?)
    }

    /// Passes a string literal.
    pub(super) fn string(&mut self) -> Result<Literal, NotJson> {
        let start = self.open(b'"')?;
        let mut chars = 0_u32;
        let mut escaped = false;
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let (bytes, starts) = plain_run(rest);
            self.at += bytes;
            chars = chars.saturating_add(starts);
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Literal {
                        span: self.span_from(start)?,
                        chars,
                        escaped,
                    });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.at += escape_length(self.text.as_bytes().get(self.at..))?;
                    chars = chars.saturating_add(1);
                }
                _ => return Err(NotJson),
            }
        }
    }

    /// Passes any one value.
    pub(super) fn value(&mut self) -> Result<Span, NotJson> {
        self.peek().ok_or(NotJson)?;
        let start = self.at;
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek().ok_or(NotJson)? {
                b'{' => {
                    self.at += 1;
                    if !self.take(b'}') {
                        open.push(b'}');
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    if !self.take(b']') {
                        open.push(b']');
                        continue;
                    }
                }
                b'"' => drop(self.string()?),
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word("true")?,
                b'f' => self.word("false")?,
                b'n' => self.word("null")?,
                _ => return Err(NotJson),
            }
            loop {
                let Some(&close) = open.last() else {
                    return self.span_from(start);
                };
                if self.take(b',') {
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

    /// Passes any one value that nobody needs.
    pub(super) fn skip(&mut self) -> Result<(), NotJson> {
        self.value().map(drop)
    }

    fn key(&mut self) -> Result<(), NotJson> {
        self.string()?;
        self.expect(b':')
    }

    fn number(&mut self) -> Result<(), NotJson> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let from = self.at;
        while matches!(self.byte(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { Err(NotJson) }
    }

    fn word(&mut self, word: &str) -> Result<(), NotJson> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(NotJson);
        }
        self.at += word.len();
        Ok(())
    }

    fn open(&mut self, byte: u8) -> Result<usize, NotJson> {
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(self.at - 1)
    }

    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(NotJson)
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn span_from(&self, start: usize) -> Result<Span, NotJson> {
        Span::new(start, self.at).ok_or(NotJson)
    }
}

/// Every byte of a word set to 1, or to 0x80.
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// How many bytes from the front are plain string content (no quote, backslash or control byte),
/// and how many characters begin among them. Eight bytes a step, in safe code.
fn plain_run(bytes: &[u8]) -> (usize, u32) {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut length = 0;
    let mut starts = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        // The lowest mark is exact; higher ones may be borrowed from it, and are not looked at.
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = word ^ (ONES * u64::from(b'"'));
        let slash = word ^ (ONES * u64::from(b'\\'));
        let stop =
            (control | (quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash))
                & HIGHS;
        // A byte 10xxxxxx continues a character.
        let continues = word & !(word << 1) & HIGHS;
        if stop != 0 {
            let plain = stop.trailing_zeros() / 8;
            let before = (1_u64 << (plain * 8)) - 1;
            return (
                length + plain as usize,
                starts + plain - (continues & before).count_ones(),
            );
        }
        length += 8;
        starts += 8 - continues.count_ones();
    }
    for &byte in tail {
        if byte < 0x20 || byte == b'"' || byte == b'\\' {
            break;
        }
        length += 1;
        starts += u32::from(byte & 0xC0 != 0x80);
    }
    (length, starts)
}

/// The length in bytes of the escape at the front: 2, 6, or 12 for a surrogate pair.
fn escape_length(rest: Option<&[u8]>) -> Result<usize, NotJson> {
    match rest {
        Some(
            [
                b'\\',
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                ..,
            ],
        ) => Ok(2),
        Some([b'\\', b'u', rest @ ..]) => {
            let unit = hex4(rest).ok_or(NotJson)?;
            let low = match rest.get(4..) {
                Some([b'\\', b'u', low @ ..]) => hex4(low),
                _ => None,
            };
            let pair = (0xD800..0xDC00).contains(&unit)
                && low.is_some_and(|low| (0xDC00..0xE000).contains(&low));
            Ok(if pair { 12 } else { 6 })
        }
        _ => Err(NotJson),
    }
}

fn hex4(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.get(..4)?;
    digits.iter().try_fold(0, |unit, &byte| {
        Some(unit * 16 + char::from(byte).to_digit(16)?)
    })
}

/// Decodes the inside of a checked literal.
fn decode(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        text.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at..).unwrap_or_default();
        let length = escape_length(Some(rest.as_bytes())).unwrap_or(rest.len());
        text.push(unescape(rest.as_bytes(), length));
        rest = rest.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

fn unescape(escape: &[u8], length: usize) -> char {
    let unit = |at: usize| escape.get(at..).and_then(hex4).unwrap_or(0xFFFD);
    match (length, escape.get(1)) {
        (12, _) => char::from_u32(0x1_0000 + ((unit(2) - 0xD800) << 10) + (unit(8) - 0xDC00))
            .unwrap_or(char::REPLACEMENT_CHARACTER),
        (6, _) => char::from_u32(unit(2)).unwrap_or(char::REPLACEMENT_CHARACTER),
        (_, Some(b'b')) => '\u{8}',
        (_, Some(b'f')) => '\u{c}',
        (_, Some(b'n')) => '\n',
        (_, Some(b'r')) => '\r',
        (_, Some(b't')) => '\t',
        (_, Some(&byte)) => char::from(byte),
        (_, None) => char::REPLACEMENT_CHARACTER,
    }
}
