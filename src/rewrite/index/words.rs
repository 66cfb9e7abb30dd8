//! Splits text into the pieces that may be identifiers.

use super::cue;
use super::kind::{self, Kind};

/// A longer run without a break is data (base64, minified code), not a name that anyone repeats.
const LONGEST: usize = 160;
/// How far a quoted value behind `KEY=` may reach and still be kept whole.
const LONGEST_VALUE: usize = 80;
/// A word that introduces an identifier does so for so many words.
const CUE_REACH: u8 = 3;

/// One identifier as it stands in a text.
pub(super) struct Word<'t> {
    /// The identifier.
    pub(super) text: &'t str,
    /// What it is.
    pub(super) kind: Kind,
    /// Whether a word such as "id", "port" or "token" introduces it.
    pub(super) cued: bool,
}

/// Calls `found` with each identifier of `text`, in order.
pub(super) fn each<'t>(text: &'t str, mut found: impl FnMut(Word<'t>)) {
    let mut cue = Cue::default();
    let mut runs = Runs { text, at: 0 };
    while let Some(run) = runs.next() {
        // A line says what its own words are, not those of the next.
        if run.begins_line {
            cue = Cue::default();
        }
        if run.text.len() > LONGEST && !run.text.contains("://") {
            continue;
        }
        if run.classes & PARTING != NONE
            && let Some(whole) = runs.quoted_value(&run)
        {
            found(Word {
                text: whole,
                kind: Kind::Assignment,
                cued: false,
            });
            continue;
        }
        let mut take = |piece: &'t str, kind| {
            found(Word {
                // A bare number is nothing without the word that says what it numbers.
                text: match kind {
                    Kind::Number => cue.with_next(text, &run).map_or(piece, trim),
                    Kind::Assignment
                    | Kind::Code
                    | Kind::Hash
                    | Kind::Location
                    | Kind::Name
                    | Kind::Path
                    | Kind::Version => piece,
                },
                kind,
                cued: cue.reach > 0,
            });
        };
        // Most runs are ordinary words, which are nothing, and most others are in one piece.
        if run.classes & PARTING != NONE {
            pieces(run.text, &mut take);
        } else if run.classes != LOWER {
            single(trim(run.text), &mut take);
        }
        cue.pass(&run);
    }
}

/// The word that introduces those behind it, and where it began.
#[derive(Clone, Copy, Default)]
struct Cue {
    /// So many more words.
    reach: u8,
    at: usize,
}

impl Cue {
    /// Goes past a word, which may be a cue itself.
    fn pass(&mut self, run: &Run<'_>) {
        if run.classes & PLAIN == NONE && cue::introduces(run.text) {
            (self.reach, self.at) = (CUE_REACH, run.start);
        } else {
            self.reach = self.reach.saturating_sub(1);
        }
    }

    /// The cue and the word behind it, if `run` is that one.
    fn with_next<'t>(self, text: &'t str, run: &Run<'t>) -> Option<&'t str> {
        let is_next = self.reach == CUE_REACH;
        is_next.then(|| text.get(self.at..run.end())).flatten()
    }
}

/// Bytes in a row none of which ends a run.
struct Run<'t> {
    text: &'t str,
    start: usize,
    /// What its bytes are.
    classes: Class,
    /// Whether a line ended before it.
    begins_line: bool,
}

impl Run<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The runs of a text from `at` on.
struct Runs<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Iterator for Runs<'t> {
    type Item = Run<'t>;

    fn next(&mut self) -> Option<Run<'t>> {
        let bytes = self.text.as_bytes();
        let mut begins_line = false;
        while class(*bytes.get(self.at)?) == NONE {
            begins_line |= bytes.get(self.at) == Some(&b'\n');
            self.at += 1;
        }
        let start = self.at;
        let mut classes = NONE;
        while let Some(&byte) = bytes.get(self.at) {
            let class = class(byte);
            if class == NONE {
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
    /// `run` with the quoted value that follows it, if it is `KEY=`; the next run is behind that.
    fn quoted_value(&mut self, run: &Run<'t>) -> Option<&'t str> {
        let end = quoted_value_end(self.text.as_bytes(), run.start, run.end())?;
        let whole = self.text.get(run.start..end)?;
        self.at = end;
        Some(whole)
    }
}

/// Where the quoted value ends that follows the run `start..end`, if that run is `KEY=`.
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
        .take(LONGEST_VALUE)
        .position(|&byte| byte == quote || byte == b'\n')?;
    (length > 0 && value.get(length) == Some(&quote)).then_some(end + length + 2)
}

/// Takes a run without breaks apart, as far as its punctuation says to.
fn pieces<'t>(run: &'t str, found: &mut impl FnMut(&'t str, Kind)) {
    let run = trim(run);
    // One byte is found far faster than three.
    if run.contains(':')
        && let Some(scheme) = run.find("://")
    {
        if run.len() > scheme + 6 {
            found(run, Kind::Location);
        }
        return;
    }
    // An address by the colon of its first or last letters alone is data too.
    if run.len() > LONGEST {
        return;
    }
    if let Some((key, value)) = run.split_once('=') {
        let key = key.trim_start_matches('-');
        let value = value.trim_start_matches(['=', '>']);
        if kind::is_assignment(key, value) {
            let from = run.len() - key.len() - value.len() - 1;
            found(run.get(from..).unwrap_or(run), Kind::Assignment);
            return;
        }
        pieces(key, found);
        return pieces(value, found);
    }
    if run.contains(':') {
        return colons(run, found);
    }
    for piece in run.split(['?', '&', '%', '*', '$']).map(trim) {
        single(piece, found);
    }
}

/// Takes a piece for what it is, or else for what its folders are.
fn single<'t>(piece: &'t str, found: &mut impl FnMut(&'t str, Kind)) {
    if let Some(kind) = kind::of(piece) {
        found(piece, kind);
    } else if piece.contains('\\') || (piece.contains('/') && !piece.starts_with('/')) {
        for part in piece.split(['\\', '/']).map(trim) {
            if let Some(kind) = kind::of(part) {
                found(part, kind);
            }
        }
    }
}

/// A run with colons: a drive, a host and its port, a qualified name; else a list.
fn colons<'t>(run: &'t str, found: &mut impl FnMut(&'t str, Kind)) {
    let bytes = run.as_bytes();
    let drive = matches!(bytes, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    if drive {
        let rest = run.get(2..).unwrap_or_default();
        let end = rest.find(':').map_or(run.len(), |at| at + 2);
        return found(trim(run.get(..end).unwrap_or(run)), Kind::Path);
    }
    if run.contains("::") {
        return found(run, Kind::Name);
    }
    if let Some((host, port)) = run.split_once(':')
        && kind::is_endpoint(host, port)
    {
        return found(run, Kind::Location);
    }
    for piece in run.split(':') {
        pieces(piece, found);
    }
}

/// Without the punctuation of the sentence around it.
fn trim(word: &str) -> &str {
    let word = word.trim_end_matches([
        '.', ':', '-', '=', '?', '&', '+', '#', '\\', '*', '%', '~', '$', '@',
    ]);
    word.trim_start_matches([':', '=', '-', '+', '?', '&', '*', '%'])
}

/// What a byte is to a run: as bits, so that a run's are those of all its bytes.
type Class = u8;
/// It ends the run.
const NONE: Class = 0;
const LOWER: Class = 1;
const UPPER: Class = 2;
/// No letter, and parts no run.
const PLAIN: Class = 4;
/// It may part the run.
const PARTING: Class = 8;

fn class(byte: u8) -> Class {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(NONE)
}

/// Every byte's, since a look costs less than the comparisons.
static CLASSES: [Class; 256] = {
    let mut classes = [NONE; 256];
    let (mut left, mut byte) = (classes.as_mut_slice(), 0_u8);
    while let Some((class, rest)) = left.split_first_mut() {
        *class = classified(byte);
        byte = byte.wrapping_add(1);
        left = rest;
    }
    classes
};

const fn classified(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => LOWER,
        b'A'..=b'Z' => UPPER,
        b'0'..=b'9' | b'_' | b'-' | b'.' | b'/' | b'@' | b'#' | b'+' | b'~' | b'\\' => PLAIN,
        b':' | b'=' | b'%' | b'&' | b'?' | b'*' | b'$' => PARTING,
        _ => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The identifiers of `text`, those that a word introduces with a star behind them.
    fn found(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        each(text, |word| {
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
        // Only a cue is one.
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
    fn a_run_past_the_longest_is_data_unless_it_is_an_address() {
        let run = |length: usize| format!("{}-77", "x".repeat(length - 3));
        check(&run(LONGEST), &[&run(LONGEST)]);
        check(&run(LONGEST + 1), &[]);
        let address = format!("https://a.example/{}", run(LONGEST));
        check(&address, &[&address]);
        // What stands behind it is read as ever.
        check(&format!("{} QX-1", run(LONGEST + 1)), &["QX-1"]);
    }

    #[test]
    fn a_long_run_that_is_an_address_by_its_ends_alone_is_not_taken_apart() {
        // At each of these many parts all the rest would be searched.
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
            &value(LONGEST_VALUE - 4),
            &[value(LONGEST_VALUE - 4).as_str()],
        );
        check(&value(LONGEST_VALUE), &[]);
    }

    #[test]
    fn a_run_is_parted_where_its_punctuation_parts_it() {
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
    fn what_is_no_identifier_is_read_by_its_folders() {
        check("QX1/and", &["QX1"]);
        check("QX-1\\QX-2", &["QX-1", "QX-2"]);
        check("/QX", &[]);
    }

    #[test]
    fn a_drive_s_path_ends_at_the_next_colon() {
        check(r"C:\src\main.rs:12", &[r"C:\src\main.rs"]);
        check("c:/src/main.rs", &["c:/src/main.rs"]);
        check(r"9:\QX-1", &["QX-1"]);
    }
}
