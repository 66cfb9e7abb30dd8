//! Splits text into runs and extracts the identifiers.

mod byte_classes;
mod runs;
mod split;

use crate::identifiers::cue;
use crate::identifiers::kind;
use crate::identifiers::kind::IdentifierKind;
use byte_classes::ByteClasses;
use memchr::memmem;
use runs::{Run, Runs};
use split::{
    PieceSink, classify_piece, is_separator, is_trimmed_from_end, is_trimmed_from_start, split_run,
    trim_punctuation,
};

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
    /// Receives a word if the sink knows it as an identifier, which spares the lexer to classify it. A sink that
    /// returns `true` has received the word.
    fn receive_known(&mut self, word: &str, cued: bool) -> bool;

    /// Receives an identifier.
    fn receive(&mut self, identifier: &FoundIdentifier<'_>);
}

/// Calls `found` with each identifier of `text`, in order.
pub(super) fn for_each_identifier(text: &str, found: impl FnMut(&FoundIdentifier<'_>)) {
    struct NothingKnown<F>(F);

    impl<F: FnMut(&FoundIdentifier<'_>)> IdentifierSink for NothingKnown<F> {
        fn receive_known(&mut self, _: &str, _: bool) -> bool {
            false
        }

        fn receive(&mut self, identifier: &FoundIdentifier<'_>) {
            self.0(identifier);
        }
    }

    scan(text, &mut NothingKnown(found));
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
            if !runs.is_lower(run)
                && classes().is_some_and(|classes| is_name_of_letters(classes, run.len()))
            {
                lexer.pass(run, run, IdentifierKind::Name, sink);
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

    /// Finds the identifiers of a run shorter than a block. Most runs are ordinary words, and most others need no
    /// splitting.
    fn read_short(&self, run: Run, classes: ByteClasses, sink: &mut impl IdentifierSink) {
        let (piece, classes) = if has_punctuation_at_ends(classes, run.len()) {
            self.trim(run, classes)
        } else {
            (run, classes)
        };
        let letters = classes.letters();
        if classes.word == letters {
            if is_name_of_letters(classes, piece.len()) {
                self.pass(run, piece, IdentifierKind::Name, sink);
            }
            return;
        }
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
        if is_prose(self.bytes(piece), classes) {
            return;
        }
        let word = self.text.get(piece.start..piece.end).unwrap_or_default();
        if !sink.receive_known(word, self.is_cued(run)) {
            self.split(run, piece, Some(classes), sink);
        }
    }

    /// Removes surrounding sentence punctuation, like [`trim_punctuation`].
    fn trim(&self, run: Run, classes: ByteClasses) -> (Run, ByteClasses) {
        let (bytes, punctuation) = (self.bytes(run), classes.punctuation());
        let (mut start, mut end) = (0, bytes.len());
        while end > 0
            && punctuation >> (end - 1) & 1 == 1
            && bytes
                .get(end - 1)
                .is_some_and(|&byte| is_trimmed_from_end(byte))
        {
            end -= 1;
        }
        while start < end
            && punctuation >> start & 1 == 1
            && bytes
                .get(start)
                .is_some_and(|&byte| is_trimmed_from_start(byte))
        {
            start += 1;
        }
        let classes = classes.slice(start, end - start);
        let piece = run.slice(start, end - start);
        (piece, classes)
    }

    /// Passes a piece of `run` on, which is an identifier.
    fn pass(&self, run: Run, piece: Run, kind: IdentifierKind, sink: &mut impl IdentifierSink) {
        let text = self.text.get(piece.start..piece.end).unwrap_or_default();
        let cued = self.is_cued(run);
        if !sink.receive_known(text, cued) {
            sink.receive(&FoundIdentifier { text, kind, cued });
        }
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
            classes.is_none_or(|classes| has_separator(text.as_bytes(), classes.punctuation()));
        if has_separator {
            split_run(text, &mut pieces);
        } else {
            classify_piece(text, &mut pieces);
        }
    }

    fn pieces<'l, S: IdentifierSink>(&'l self, run: Run, sink: &'l mut S) -> PiecesOfRun<'l, S> {
        PiecesOfRun {
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
struct PiecesOfRun<'l, S> {
    lexer: &'l Lexer<'l>,
    run: Run,
    cued: bool,
    sink: &'l mut S,
}

impl<S: IdentifierSink> PieceSink for PiecesOfRun<'_, S> {
    fn receive_known(&mut self, piece: &str) -> bool {
        self.sink.receive_known(piece, self.cued)
    }

    fn receive(&mut self, piece: &str, kind: IdentifierKind) {
        // A bare number has no meaning without its cue, so the cue is kept with the number.
        let with_cue = (kind == IdentifierKind::Number)
            .then(|| self.lexer.text_from_cue(self.run))
            .flatten();
        self.sink.receive(&FoundIdentifier {
            text: with_cue.map_or(piece, trim_punctuation),
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

/// Whether one of the bytes that are `punctuation` is a separator.
fn has_separator(bytes: &[u8], mut punctuation: u64) -> bool {
    while punctuation != 0 {
        let at = punctuation.trailing_zeros() as usize;
        if bytes.get(at).is_some_and(|&byte| is_separator(byte)) {
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

/// Whether a word with punctuation is two ordinary words, joined by a hyphen.
fn is_prose(word: &[u8], classes: ByteClasses) -> bool {
    let hyphen = classes.punctuation();
    let is_single = |mask: u64| mask & mask.wrapping_sub(1) == 0;
    let is_hyphen = || word.get(hyphen.trailing_zeros() as usize) == Some(&b'-');
    classes.digits == 0
        && is_single(hyphen)
        && is_single(classes.upper)
        && classes.lower != 0
        && is_hyphen()
}

/// Returns the end of the quoted value after the run `start..end`, or `None` if the run is not
/// `KEY=` or no such value follows.
fn quoted_value_end(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    let quote = *bytes.get(end)?;
    if !matches!(quote, b'"' | b'\'') {
        return None;
    }
    let (&equals, key) = bytes.get(start..end)?.split_last()?;
    if equals != b'=' || !kind::is_constant(key) {
        return None;
    }
    let value = bytes.get(end + 1..)?;
    let length = value
        .iter()
        .take(MAX_VALUE_BYTES)
        .position(|&byte| byte == quote || byte == b'\n')?;
    (length > 0 && value.get(length) == Some(&quote)).then_some(end + length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the identifiers of `text`; a cued identifier gets a trailing star.
    fn found(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each_identifier(text, |word| {
            let cued = if word.cued { "*" } else { "" };
            found.push(format!("{}{cued}", word.text));
        });
        found
    }

    fn check(text: &str, expect: &[&str]) {
        assert_eq!(found(text), expect, "{text}");
    }

    #[test]
    fn a_cue_reaches_three_words_of_its_line() {
        check("code QX-1", &["QX-1*"]);
        check("the code for it is QX-1", &["QX-1"]);
        check("code for it QX-1", &["QX-1*"]);
        check("code for it now QX-1", &["QX-1"]);
        check("code\nQX-1", &["QX-1"]);
        check("code for a token QX-1 and so on QX-2", &["QX-1*", "QX-2"]);
        // An ordinary word does not introduce anything.
        check("the QX-1", &["QX-1"]);
    }

    #[test]
    fn a_number_is_kept_with_the_cue_directly_before_it() {
        check("port 8443", &["port 8443*"]);
        check("port: 8443.", &["port: 8443*"]);
        check("port is 8443", &["8443*"]);
        check("8443", &["8443"]);
    }

    #[test]
    fn an_overlong_run_is_skipped_unless_it_is_a_url() {
        let run = |length: usize| format!("{}-77", "x".repeat(length - 3));
        check(&run(MAX_RUN_BYTES), &[&run(MAX_RUN_BYTES)]);
        check(&run(MAX_RUN_BYTES + 1), &[]);
        let address = format!("https://a.example/{}", run(MAX_RUN_BYTES));
        check(&address, &[&address]);
        // Text after the run is scanned as usual.
        check(&format!("{} QX-1", run(MAX_RUN_BYTES + 1)), &["QX-1"]);
    }

    #[test]
    fn an_overlong_run_with_a_misplaced_scheme_is_skipped() {
        // Without the limit, each of these parts would trigger a search of the whole rest.
        let parts = "a=".repeat(2_000_000);
        check(&format!("://{parts}:x"), &[]);
        check(&format!("{parts}x://"), &[]);
    }

    #[test]
    fn a_quoted_value_is_kept_whole_behind_a_constant() {
        check("NAME=\"two words\" QX-1", &["NAME=\"two words\"", "QX-1"]);
        check("NAME='two words'", &["NAME='two words'"]);
        check("name=\"two words\"", &[]);
        check("NAME=\"\"", &[]);
        check("NAME=\"two\nwords\"", &[]);
        let value = |length: usize| format!("NAME=\"{}\"", "x y ".repeat(length / 4));
        check(
            &value(MAX_VALUE_BYTES - 4),
            &[value(MAX_VALUE_BYTES - 4).as_str()],
        );
        check(&value(MAX_VALUE_BYTES), &[]);
    }

    #[test]
    fn a_run_is_split_at_its_punctuation() {
        check("https://a.example/x?y=1,", &["https://a.example/x?y=1"]);
        check("://b a://bcd", &[]);
        check("a://bcde", &["a://bcde"]);
        check("--retries=5 a==QX-1", &["retries=5", "QX-1"]);
        check("left=>QX-1", &["QX-1"]);
        check(
            "QX-1?QX-2&QX-3%QX-4*QX-5$QX-6",
            &["QX-1", "QX-2", "QX-3", "QX-4", "QX-5", "QX-6"],
        );
        check("db.internal:5432", &["db.internal:5432"]);
        check("a.rs:1204 QX-1:QX-2", &["a.rs", "1204", "QX-1", "QX-2"]);
        check("std::fmt::Display", &["std::fmt::Display"]);
    }

    #[test]
    fn a_path_that_is_no_identifier_is_split_at_its_slashes() {
        check("QX1/and", &["QX1"]);
        check("QX-1\\QX-2", &["QX-1", "QX-2"]);
        check("/QX", &[]);
    }

    #[test]
    fn a_windows_path_ends_at_the_next_colon() {
        check(r"C:\src\main.rs:12", &[r"C:\src\main.rs"]);
        check("c:/src/main.rs", &["c:/src/main.rs"]);
        check(r"9:\QX-1", &["QX-1"]);
    }
}
