//! Phrases of the text files, found in a sentence in linear time.
//!
//! A line of a file is a phrase, and a line that begins with `#` is a comment. In a phrase:
//!
//! - `^` in front stands for the start of a clause, `^` at the end for the end of a clause;
//! - `$` at the end stands for the end of the sentence;
//! - `*` in front or at the end stands for the rest of a word;
//! - `…` stands for a few words between.
//!
//! Phrases of scripts without spaces, and of Korean, match within words.

use crate::collections::StaticMap;
use std::ops::Range;

/// Maximum bytes that a gap stands for: about ten words.
const MAX_GAP_BYTES: usize = 80;
/// Bytes by which phrases are found. No phrase begins with a shorter piece.
const KEY_BYTES: usize = 3;

/// Phrases of one or several files.
pub(super) struct Phrases {
    by_key: StaticMap<[u8; KEY_BYTES], Vec<Phrase>>,
    /// Bytes with which a phrase begins: mostly the space, since most phrases begin with a word.
    first_bytes: [bool; 256],
}

/// Pieces of a phrase as they stand in a folded text, without the gaps between.
type Phrase = Vec<String>;

impl Phrases {
    /// Reads the phrases of `files`.
    pub(super) fn new(files: &[&str]) -> Self {
        let mut by_key: StaticMap<_, Vec<Phrase>> = StaticMap::default();
        let mut first_bytes = [false; 256];
        for line in files.iter().copied().flat_map(lines) {
            let phrase: Phrase = line.split('…').map(literal).collect();
            let key = phrase.first().and_then(|piece| key(piece, 0));
            debug_assert!(key.is_some(), "too short: {line}");
            if let Some(key) = key {
                if let Some(is_first) = first_bytes.get_mut(usize::from(key[0])) {
                    *is_first = true;
                }
                by_key.entry(key).or_default().push(phrase);
            }
        }
        Self { by_key, first_bytes }
    }

    /// Whether a text of [`fold`] contains a phrase.
    pub(super) fn are_in(&self, folded: &str) -> bool {
        self.matches(folded).next().is_some()
    }

    /// Returns the places of phrases in a text of [`fold`], by their start; the longest of each start.
    pub(super) fn matches(&self, folded: &str) -> impl Iterator<Item = Range<usize>> {
        let starts = folded.bytes().enumerate();
        let starts =
            starts.filter(|(_, byte)| self.first_bytes.get(usize::from(*byte)) == Some(&true));
        starts.filter_map(move |(start, _)| {
            let phrases = self.by_key.get(&key(folded, start)?)?;
            let ends = phrases.iter().filter_map(|it| end_of(it, folded, start));
            Some(start..ends.max()?)
        })
    }
}

/// Returns the lines of a file that are no comments.
pub(super) fn lines(file: &str) -> impl Iterator<Item = &str> {
    let lines = file.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn key(text: &str, start: usize) -> Option<[u8; KEY_BYTES]> {
    text.as_bytes().get(start..)?.first_chunk().copied()
}

/// Returns the end of `phrase` in `folded` if the phrase begins at `start`.
fn end_of(phrase: &[String], folded: &str, start: usize) -> Option<usize> {
    let (first, others) = phrase.split_first()?;
    folded.get(start..)?.strip_prefix(first.as_str())?;
    others.iter().try_fold(start + first.len(), |end, piece| {
        // Two pieces may share the space between them.
        let from = end - usize::from(folded.get(..end)?.ends_with(' '));
        let limit = folded.floor_char_boundary(end + MAX_GAP_BYTES);
        let found = folded.get(from..limit)?.find(piece.as_str())?;
        Some(from + found + piece.len())
    })
}

/// Returns a piece of a phrase as it stands in a folded text.
fn literal(piece: &str) -> String {
    let piece = piece.trim();
    let words = fold(piece.trim_matches(['^', '$', '*']));
    let words = words.trim_matches(['^', '$', ' ']);
    let is_open = |sign| sign == Some('*') || words.starts_with(is_joined);
    let (first, last) = (piece.chars().next(), piece.chars().next_back());
    let before = match first {
        Some('^') => "^ ",
        first if is_open(first) => "",
        _ => " ",
    };
    let after = match last {
        Some('^') => " ^",
        Some('$') => " ^ $",
        last if is_open(last) => "",
        _ => " ",
    };
    [before, words, after].concat()
}

/// Returns the words of `text` in lower case, with one space between. `^` stands at the start and the
/// end of each clause, `$` at the end.
pub(super) fn fold(text: &str) -> String {
    let mut out = String::from("^");
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        if is_word(c) {
            // A value stands apart from the script around.
            let is_value = c.is_ascii() && is_joined(before);
            if !is_word(before) || is_value || (before.is_ascii() && is_joined(c)) {
                out.push(' ');
            }
            out.extend(c.to_lowercase().filter_map(unaccented));
        } else if ends_clause(c, before, next) && !out.ends_with('^') {
            out.push_str(" ^");
        }
        before = c;
    }
    out.push_str(if out.ends_with('^') { " $" } else { " ^ $" });
    out
}

/// Returns the form in which a letter is compared: without the marks that many writers leave out.
fn unaccented(c: char) -> Option<char> {
    match c {
        // The lower case of the Turkish capital I, and the vowel signs of Arabic.
        '\u{307}' | '\u{64b}'..='\u{652}' => None,
        'أ' | 'إ' | 'آ' => Some('ا'),
        'ё' => Some('е'),
        _ => Some(c),
    }
}

/// Whether a clause ends at the punctuation `c`, which stands between two characters.
fn ends_clause(c: char, before: char, next: char) -> bool {
    match c {
        ',' | ';' | ':' | '.' | '!' | '?' | '…' | ')' | '،' | '؛' | '؟' | '。' | '？' | '！' => {
            !c.is_ascii() || !is_word(next)
        }
        '(' | '—' | '、' | '，' | '；' | '：' | '।' | '–' | '→' => true,
        '-' => before.is_whitespace() && next.is_whitespace(),
        _ => false,
    }
}

/// Whether `c` belongs to a word. Vowel signs and joiners of Indic and Arabic scripts do, and the emoji
/// of an answer is one.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(c, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{963}' | '\u{980}'..='\u{d7f}' | '\u{e47}'..='\u{e4e}')
        || matches!(c, '\u{200c}' | '\u{200d}' | '✅' | '👌'..='👎')
}

/// Whether `c` belongs to a script whose words have no space between: Han, kana, Thai, Lao, Khmer or
/// Burmese.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3134f}')
}

/// Whether phrases of the script of `c` match within words.
pub(super) fn is_joined(c: char) -> bool {
    is_unspaced(c) || matches!(c, '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}')
}
