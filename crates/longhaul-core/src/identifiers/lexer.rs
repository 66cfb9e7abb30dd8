//! Splits text into runs and extracts the identifiers.

use crate::identifiers::cue;
use crate::identifiers::kind;
use crate::identifiers::kind::IdentifierKind;

/// Maximum bytes of a run. A longer run is data (base64, minified code), not a name to repeat.
const MAX_RUN_BYTES: usize = 160;
/// Maximum bytes of a quoted value after `KEY=` that is kept whole.
const MAX_VALUE_BYTES: usize = 80;
/// Number of words after a cue that count as introduced by it.
const CUE_REACH: u8 = 3;

/// An identifier found in a text.
pub(super) struct FoundIdentifier<'t> {
    pub(super) text: &'t str,
    pub(super) kind: IdentifierKind,
    /// Whether a cue word such as "id", "port" or "token" introduces the identifier.
    pub(super) cued: bool,
}

/// Calls `found` with each identifier of `text`, in order.
pub(super) fn for_each_identifier<'t>(text: &'t str, mut found: impl FnMut(FoundIdentifier<'t>)) {
    let mut cue = ActiveCue::default();
    let mut runs = Runs { text, at: 0 };
    while let Some(run) = runs.next() {
        // A cue applies to its own line only.
        if run.begins_line {
            cue = ActiveCue::default();
        }
        if run.text.len() > MAX_RUN_BYTES && !run.text.contains("://") {
            continue;
        }
        if run.classes & SEPARATOR != BREAK
            && let Some(assignment) = runs.quoted_value(&run)
        {
            found(FoundIdentifier {
                text: assignment,
                kind: IdentifierKind::Assignment,
                cued: false,
            });
            continue;
        }
        let mut take = |piece: &'t str, kind| {
            found(FoundIdentifier {
                // A bare number has no meaning without its cue, so the cue is kept with the number.
                text: match kind {
                    IdentifierKind::Number => {
                        cue.text_through(text, &run).map_or(piece, trim_punctuation)
                    }
                    IdentifierKind::Assignment
                    | IdentifierKind::Code
                    | IdentifierKind::Hash
                    | IdentifierKind::Location
                    | IdentifierKind::Name
                    | IdentifierKind::Path
                    | IdentifierKind::Version => piece,
                },
                kind,
                cued: cue.words_left > 0,
            });
        };
        // Fast path: most runs are ordinary words, and most others need no splitting.
        if run.classes & SEPARATOR != BREAK {
            split_run(run.text, &mut take);
        } else if run.classes != LOWER {
            classify_piece(trim_punctuation(run.text), &mut take);
        }
        cue.advance(&run);
    }
}

/// The latest cue word and its start.
#[derive(Clone, Copy, Default)]
struct ActiveCue {
    /// Number of further words that the cue introduces.
    words_left: u8,
    start: usize,
}

impl ActiveCue {
    /// Advances past a word, which may itself be a cue.
    fn advance(&mut self, run: &Run<'_>) {
        if run.classes & NON_LETTER == BREAK && cue::is_cue(run.text) {
            (self.words_left, self.start) = (CUE_REACH, run.start);
        } else {
            self.words_left = self.words_left.saturating_sub(1);
        }
    }

    /// Returns the text from the cue to the end of `run` if `run` directly follows the cue.
    fn text_through<'t>(self, text: &'t str, run: &Run<'t>) -> Option<&'t str> {
        let is_next = self.words_left == CUE_REACH;
        is_next.then(|| text.get(self.start..run.end())).flatten()
    }
}

/// A maximal sequence of bytes that do not end a run.
struct Run<'t> {
    text: &'t str,
    start: usize,
    /// Union of the classes of all bytes.
    classes: ByteClass,
    /// Whether the run is the first on its line.
    begins_line: bool,
}

impl Run<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// Iterator over the runs of a text, from `at` on.
struct Runs<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Iterator for Runs<'t> {
    type Item = Run<'t>;

    fn next(&mut self) -> Option<Run<'t>> {
        let bytes = self.text.as_bytes();
        let mut begins_line = false;
        while byte_class(*bytes.get(self.at)?) == BREAK {
            begins_line |= bytes.get(self.at) == Some(&b'\n');
            self.at += 1;
        }
        let start = self.at;
        let mut classes = BREAK;
        while let Some(&byte) = bytes.get(self.at) {
            let class = byte_class(byte);
            if class == BREAK {
                break;
            }
            classes |= class;
            self.at += 1;
        }
        Some(Run {
            text: self.text.get(start..self.at).unwrap_or_default(),
            start,
            classes,
            begins_line,
        })
    }
}

impl<'t> Runs<'t> {
    /// If `run` is `KEY=` followed by a quoted value, consumes the value and returns both.
    fn quoted_value(&mut self, run: &Run<'t>) -> Option<&'t str> {
        let end = quoted_value_end(self.text.as_bytes(), run.start, run.end())?;
        let assignment = self.text.get(run.start..end)?;
        self.at = end;
        Some(assignment)
    }
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

/// Splits a run at its punctuation into identifiers.
fn split_run<'t>(run: &'t str, found: &mut impl FnMut(&'t str, IdentifierKind)) {
    let run = trim_punctuation(run);
    // Searching for one byte is much faster than searching for three.
    if run.contains(':')
        && let Some(scheme) = run.find("://")
    {
        if run.len() > scheme + 6 {
            found(run, IdentifierKind::Location);
        }
        return;
    }
    // Without its surrounding punctuation an overlong run may no longer contain `://`, and is data
    // then.
    if run.len() > MAX_RUN_BYTES {
        return;
    }
    if let Some((key, value)) = run.split_once('=') {
        let key = key.trim_start_matches('-');
        let value = value.trim_start_matches(['=', '>']);
        if kind::is_assignment(key, value) {
            let from = run.len() - key.len() - value.len() - 1;
            found(run.get(from..).unwrap_or(run), IdentifierKind::Assignment);
            return;
        }
        split_run(key, found);
        return split_run(value, found);
    }
    if run.contains(':') {
        return split_colons(run, found);
    }
    for piece in run.split(['?', '&', '%', '*', '$']).map(trim_punctuation) {
        classify_piece(piece, found);
    }
}

/// Classifies a piece. If a piece with folders is not an identifier, classifies each folder
/// instead.
fn classify_piece<'t>(piece: &'t str, found: &mut impl FnMut(&'t str, IdentifierKind)) {
    if let Some(kind) = kind::classify(piece) {
        found(piece, kind);
    } else if piece.contains('\\') || (piece.contains('/') && !piece.starts_with('/')) {
        for part in piece.split(['\\', '/']).map(trim_punctuation) {
            if let Some(kind) = kind::classify(part) {
                found(part, kind);
            }
        }
    }
}

/// Splits a run with colons: a drive path, a qualified name, a host with a port, or otherwise a
/// list.
fn split_colons<'t>(run: &'t str, found: &mut impl FnMut(&'t str, IdentifierKind)) {
    let bytes = run.as_bytes();
    let drive = matches!(bytes, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    if drive {
        let rest = run.get(2..).unwrap_or_default();
        let end = rest.find(':').map_or(run.len(), |at| at + 2);
        return found(
            trim_punctuation(run.get(..end).unwrap_or(run)),
            IdentifierKind::Path,
        );
    }
    if run.contains("::") {
        return found(run, IdentifierKind::Name);
    }
    if let Some((host, port)) = run.split_once(':')
        && kind::is_endpoint(host, port)
    {
        return found(run, IdentifierKind::Location);
    }
    if kind::is_joined_by_colons(run) {
        return found(run, IdentifierKind::Code);
    }
    for piece in run.split(':') {
        split_run(piece, found);
    }
}

/// Removes surrounding sentence punctuation.
fn trim_punctuation(word: &str) -> &str {
    let word = word.trim_end_matches([
        '.', ':', '-', '=', '?', '&', '+', '#', '\\', '*', '%', '~', '$', '@',
    ]);
    word.trim_start_matches([':', '=', '-', '+', '?', '&', '*', '%'])
}

/// Class of a byte as bit flags, so that the classes of a run can be combined.
type ByteClass = u8;
/// Ends a run.
const BREAK: ByteClass = 0;
const LOWER: ByteClass = 1;
const UPPER: ByteClass = 2;
/// Not a letter, and does not split a run.
const NON_LETTER: ByteClass = 4;
/// May split a run.
const SEPARATOR: ByteClass = 8;

fn byte_class(byte: u8) -> ByteClass {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(BREAK)
}

/// Class of every byte; a table look-up is cheaper than the comparisons.
static CLASSES: [ByteClass; 256] = {
    let mut classes = [BREAK; 256];
    let (mut left, mut byte) = (classes.as_mut_slice(), 0_u8);
    while let Some((class, rest)) = left.split_first_mut() {
        *class = classify_byte(byte);
        byte = byte.wrapping_add(1);
        left = rest;
    }
    classes
};

const fn classify_byte(byte: u8) -> ByteClass {
    match byte {
        b'a'..=b'z' => LOWER,
        b'A'..=b'Z' => UPPER,
        b'0'..=b'9' | b'_' | b'-' | b'.' | b'/' | b'@' | b'#' | b'+' | b'~' | b'\\' => NON_LETTER,
        b':' | b'=' | b'%' | b'&' | b'?' | b'*' | b'$' => SEPARATOR,
        _ => BREAK,
    }
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
