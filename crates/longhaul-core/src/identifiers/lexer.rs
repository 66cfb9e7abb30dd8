//! Splits text into runs and extracts the identifiers.

mod byte_classes;
mod runs;
mod split;

use crate::identifiers::cue;
use crate::identifiers::kind;
use crate::identifiers::kind::{IdentifierKind, forms};
use byte_classes::ByteClasses;
use memchr::memmem;
use runs::{Run, Runs};
use split::{PieceSink, classify_piece, is_separator, split_run, trim_punctuation};
use std::ops::Range;

/// Maximum bytes of a run. A longer run is data (base64, minified code), not a name to repeat.
const MAX_RUN_BYTES: usize = 160;
/// Maximum bytes of a quoted value after `KEY=` that is kept whole.
const MAX_VALUE_BYTES: usize = 80;
/// Number of words after a cue that count as introduced by it.
const CUE_REACH: usize = 3;

/// An identifier found in a text.
pub(super) struct FoundIdentifier<'t> {
    pub(super) text: &'t str,
    pub(super) kind: IdentifierKind,
    /// Whether a cue word such as "id", "port" or "token" introduces the identifier.
    pub(super) cued: bool,
}

/// Receives the identifiers of a text, in order.
pub(super) trait IdentifierSink {
    /// Receives a word if the sink has it as an identifier already, which saves its classification. Returns whether
    /// the sink received the word.
    fn receive_known(&mut self, word: &str, cued: bool) -> bool;

    /// Receives an identifier.
    fn receive(&mut self, identifier: &FoundIdentifier<'_>);
}

/// Passes each identifier of `text` to `sink`, in order.
pub(super) fn scan(text: &str, sink: &mut impl IdentifierSink) {
    let mut lexer = Lexer {
        text,
        words: CUE_REACH,
        cue: CueWord::default(),
    };
    let mut runs = Runs::new(text);
    while let Some(run) = runs.next() {
        let classes = || runs.classes(run);
        if runs.is_of_letters(run) {
            let is_name = !runs.is_lower(run)
                && classes().is_some_and(|classes| is_name_of_letters(classes, run.len()));
            if is_name && let Some(end) = lexer.read_setting(run, sink) {
                runs.continue_from(end);
            }
            lexer.count(run, run.len());
        } else if let Some(end) = lexer.read_run(run, classes(), sink) {
            runs.continue_from(end);
        }
    }
}

/// Position in a text, with the words that affect the next identifier.
struct Lexer<'t> {
    text: &'t str,
    /// Number of words so far, plus the reach of a cue.
    words: usize,
    cue: CueWord,
}

/// The latest cue word.
#[derive(Clone, Copy, Default)]
struct CueWord {
    start: usize,
    end: usize,
    /// Number of words up to this one.
    words: usize,
}

impl<'t> Lexer<'t> {
    /// Reads any run. Returns the end of a quoted value that belongs to it.
    fn read_run(
        &mut self,
        run: Run,
        classes: Option<ByteClasses>,
        sink: &mut impl IdentifierSink,
    ) -> Option<usize> {
        let bytes = self.bytes(run);
        if bytes.len() > MAX_RUN_BYTES && memmem::find(bytes, b"://").is_none() {
            return None;
        }
        if bytes.last() == Some(&b'=')
            && let Some(end) = quoted_value_end(self.text.as_bytes(), run.start, run.end)
        {
            sink.receive(&FoundIdentifier {
                text: self.text.get(run.start..end)?,
                kind: IdentifierKind::Assignment,
                cued: false,
            });
            return Some(end);
        }
        if let Some(end) = self.read_setting(run, sink) {
            return Some(end);
        }
        let letters = if let Some(classes) = classes {
            self.read_short(run, classes, sink);
            classes.letters().trailing_ones() as usize
        } else {
            self.split(run, run, None, sink);
            let letters = bytes.iter().take_while(|byte| byte.is_ascii_alphabetic());
            letters.count()
        };
        self.count(run, letters);
        None
    }

    /// Reads a name with the number after its colon, or an amount of money. Returns the end.
    fn read_setting(&self, run: Run, sink: &mut impl IdentifierSink) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let (found, kind) = match number_end(bytes, run) {
            Some(end) => (run.start..end, IdentifierKind::Assignment),
            None => (amount(bytes, run)?, IdentifierKind::Code),
        };
        let end = found.end;
        sink.receive(&FoundIdentifier {
            text: self.text.get(found)?,
            kind,
            cued: self.is_cued(run),
        });
        Some(end)
    }

    /// Finds the identifiers of a run shorter than a block. Most runs are ordinary words, and most others need no
    /// splitting.
    fn read_short(&self, run: Run, classes: ByteClasses, sink: &mut impl IdentifierSink) {
        let (piece, classes) = if has_punctuation_at_ends(classes, run.len()) {
            self.trim(run, classes)
        } else {
            (run, classes)
        };
        let letters = classes.letters();
        if classes.word == classes.digits {
            if piece.len() >= kind::MIN_LEN {
                let number = self.text.get(piece.start..piece.end).unwrap_or_default();
                self.pieces(run, sink)
                    .receive(number, IdentifierKind::Number);
            }
            return;
        }
        if letters == 0 {
            // Numbers depend on the word before them.
            return self.split(run, piece, Some(classes), sink);
        }
        if is_name_or_prose(self.bytes(piece), classes) {
            return;
        }
        let word = self.text.get(piece.start..piece.end).unwrap_or_default();
        if !sink.receive_known(word, self.is_cued(run)) {
            self.split(run, piece, Some(classes), sink);
        }
    }

    /// Removes surrounding sentence punctuation.
    fn trim(&self, run: Run, classes: ByteClasses) -> (Run, ByteClasses) {
        let text = self.text.get(run.start..run.end).unwrap_or_default();
        let piece = trim_punctuation(text);
        let start = text.find(piece).unwrap_or_default();
        let classes = classes.slice(start, piece.len());
        (run.slice(start, piece.len()), classes)
    }

    /// Splits a piece of `run` at its punctuation, and passes the identifiers on.
    fn split(
        &self,
        run: Run,
        piece: Run,
        classes: Option<ByteClasses>,
        sink: &mut impl IdentifierSink,
    ) {
        let text = self.text.get(piece.start..piece.end).unwrap_or_default();
        let mut pieces = self.pieces(run, sink);
        let has_separator =
            classes.is_none_or(|it| any_of(text.as_bytes(), it.punctuation(), is_separator));
        if has_separator {
            split_run(text, &mut pieces);
        } else {
            classify_piece(text, &mut pieces);
        }
    }

    fn pieces<'l, S: IdentifierSink>(&'l self, run: Run, sink: &'l mut S) -> RunForwarder<'l, S> {
        RunForwarder {
            lexer: self,
            run,
            cued: self.is_cued(run),
            sink,
        }
    }

    /// Counts a word, which may be a cue. `letters` is the number of letters at its start.
    fn count(&mut self, run: Run, letters: usize) {
        self.words += 1;
        if cue::is_cue(self.bytes(run), letters) {
            self.cue = CueWord {
                start: run.start,
                end: run.end,
                words: self.words,
            };
        }
    }

    /// Whether a cue on the same line introduces `run`.
    fn is_cued(&self, run: Run) -> bool {
        self.words - self.cue.words < CUE_REACH && self.is_in_line_of_cue(run)
    }

    /// Returns the text from the cue to the end of `run` if `run` directly follows the cue.
    fn text_from_cue(&self, run: Run) -> Option<&'t str> {
        let is_next = self.words == self.cue.words && self.is_in_line_of_cue(run);
        is_next.then(|| self.text.get(self.cue.start..run.end))?
    }

    /// Returns a piece of `run` with its context: a number with its cue, a setting with the dashes
    /// of a flag.
    fn in_context<'p>(&self, run: Run, piece: &'p str, kind: IdentifierKind) -> &'p str
    where
        't: 'p,
    {
        match kind {
            IdentifierKind::Number => self.text_from_cue(run).map_or(piece, trim_punctuation),
            IdentifierKind::Assignment => {
                let text = self.text.get(run.start..run.end).unwrap_or_default();
                let dashes = text.len() - text.trim_start_matches('-').len();
                let is_flag = text.get(dashes..).is_some_and(|it| it.starts_with(piece));
                let flag = text.get(..dashes + piece.len()).filter(|_| is_flag);
                flag.unwrap_or(piece)
            }
            IdentifierKind::Code | IdentifierKind::Hash | IdentifierKind::Location => piece,
        }
    }

    fn is_in_line_of_cue(&self, run: Run) -> bool {
        let between = self.text.as_bytes().get(self.cue.end..run.start);
        between.is_some_and(|between| !between.contains(&b'\n'))
    }

    fn bytes(&self, run: Run) -> &'t [u8] {
        let bytes = self.text.as_bytes();
        bytes.get(run.start..run.end).unwrap_or_default()
    }
}

/// Passes the pieces of a run on.
struct RunForwarder<'l, S> {
    lexer: &'l Lexer<'l>,
    run: Run,
    cued: bool,
    sink: &'l mut S,
}

impl<S: IdentifierSink> PieceSink for RunForwarder<'_, S> {
    fn receive_known(&mut self, piece: &str) -> bool {
        self.sink.receive_known(piece, self.cued)
    }

    fn receive(&mut self, piece: &str, kind: IdentifierKind) {
        self.sink.receive(&FoundIdentifier {
            text: self.lexer.in_context(self.run, piece, kind),
            kind,
            cued: self.cued,
        });
    }
}

/// Whether a run begins or ends with punctuation.
fn has_punctuation_at_ends(classes: ByteClasses, length: usize) -> bool {
    let punctuation = classes.punctuation();
    (punctuation | punctuation >> length.saturating_sub(1)) & 1 == 1
}

/// Whether one of the bytes that are `punctuation` is as `is` says.
fn any_of(bytes: &[u8], mut punctuation: u64, is: impl Fn(u8) -> bool) -> bool {
    while punctuation != 0 {
        let at = punctuation.trailing_zeros() as usize;
        if bytes.get(at).is_some_and(|&byte| is(byte)) {
            return true;
        }
        punctuation &= punctuation - 1;
    }
    false
}

/// Whether letters alone are a name: capitals, or words joined by a capital.
fn is_name_of_letters(classes: ByteClasses, length: usize) -> bool {
    let is_joined = classes.upper & classes.lower << 1 != 0;
    (is_joined && length >= kind::MIN_LEN) || (classes.lower == 0 && length >= kind::MIN_CAPITALS)
}

/// Whether a word without digits is a name, a path or ordinary words, whatever its letters.
fn is_name_or_prose(word: &[u8], classes: ByteClasses) -> bool {
    let is_path = classes.upper == 0;
    let is_joiner = |byte: u8| matches!(byte, b'-' | b'_' | b'.') || byte == b'/' && is_path;
    classes.digits == 0
        && (classes.lower != 0 || classes.punctuation() == 0)
        && !any_of(word, classes.punctuation(), |byte| !is_joiner(byte))
}

/// Returns the end of the quoted value after the run `start..end`, or `None` if the run is not
/// `KEY=` or no such value follows.
fn quoted_value_end(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    let quote = *bytes.get(end)?;
    if !matches!(quote, b'"' | b'\'') {
        return None;
    }
    let (&equals, key) = bytes.get(start..end)?.split_last()?;
    if equals != b'=' || !forms::is_constant(key) {
        return None;
    }
    let value = bytes.get(end + 1..)?;
    let length = value
        .iter()
        .take(MAX_VALUE_BYTES)
        .position(|&byte| byte == quote || byte == b'\n')?;
    (length > 0 && value.get(length) == Some(&quote)).then_some(end + length + 2)
}

/// Maximum bytes of a number with its unit after `name:`.
const MAX_NUMBER_BYTES: usize = 24;

/// Returns the end of the number that follows the run as `name: 5`, `"name": 5` or `"name":5`. Returns `None` for anything
/// else.
fn number_end(bytes: &[u8], run: Run) -> Option<usize> {
    let (mut name, rest) = (bytes.get(run.start..run.end)?, bytes.get(run.end..)?);
    let rest = match (name.split_last()?, rest) {
        ((b':', key), [b' ', rest @ ..]) => {
            name = key;
            rest
        }
        (_, [b'"' | b'\'', b':', b' ', rest @ ..] | [b'"' | b'\'', b':', rest @ ..]) => rest,
        _ => return None,
    };
    let is_in_number =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%');
    let mut length = rest.iter().take_while(|byte| is_in_number(byte)).count();
    let behind = rest.get(length);
    if rest.get(length.checked_sub(1)?) == Some(&b'.') {
        length -= 1;
    }
    let is_number = rest.first()?.is_ascii_digit()
        && length <= MAX_NUMBER_BYTES
        && !behind.is_some_and(|byte| matches!(byte, b':' | b'/' | b'-' | b'@' | b'\\' | b'='));
    let end = bytes.len() - rest.len() + length;
    (is_number && forms::is_compound(name)).then_some(end)
}

/// Currencies that follow an amount.
const CURRENCIES: [&[u8; 3]; 12] = [
    b"AUD", b"CAD", b"CHF", b"CNY", b"DKK", b"EUR", b"GBP", b"INR", b"JPY", b"NOK", b"SEK", b"USD",
];

/// Returns the amount of money at the start of a run (`$1,250`, `79,756.52 EUR`), if any. A digit after
/// a dollar is a variable.
fn amount(bytes: &[u8], run: Run) -> Option<Range<usize>> {
    let (before, rest) = bytes.split_at_checked(run.start)?;
    rest.first()
        .filter(|first| matches!(first, b'$' | b'.' | b'0'..=b'9'))?;
    let signs: [&[u8]; 2] = ["€".as_bytes(), "£".as_bytes()];
    let sign = signs.iter().find(|sign| before.ends_with(sign));
    let start = run.start - sign.map_or(0, |sign| sign.len());
    let digits = rest.strip_prefix(b"$").unwrap_or(rest);
    let has_sign = sign.is_some() || digits.len() < rest.len();
    let is_in_number = |(at, byte): (usize, &u8)| {
        let is_joiner = matches!(byte, b',' | b'.');
        byte.is_ascii_digit() || (is_joiner && digits.get(at + 1).is_some_and(u8::is_ascii_digit))
    };
    let length = (0..).zip(digits).take_while(|&it| is_in_number(it)).count();
    let (_, behind) = digits.split_at_checked(length)?;
    let end = bytes.len() - behind.len();
    match behind {
        [b' ', first, second, third, rest @ ..]
            if !rest.first().is_some_and(u8::is_ascii_alphanumeric)
                && CURRENCIES.contains(&&[*first, *second, *third]) =>
        {
            (length > 0).then_some(start..end + 4)
        }
        [next, ..] if next.is_ascii_alphanumeric() => None,
        _ => (has_sign && length > 1).then_some(start..end),
    }
}

#[cfg(test)]
mod tests;
