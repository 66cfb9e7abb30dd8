//! Sentences and list items of a text.

use super::phrases::lines as data_lines;
use crate::collections::StaticSet;
use std::sync::LazyLock;

/// Abbreviations whose period ends no sentence, in lower case.
const ABBREVIATIONS: &str = include_str!("abbreviations.txt");

/// Minimum characters of the longest line of a paragraph whose lines are wrapped by hand.
const MIN_WRAP_CHARS: usize = 50;
/// Maximum characters of the word that a wrapped line had no room for.
const MAX_WRAPPED_WORD: usize = 24;
/// Maximum bytes of a quotation or code span that is passed over.
const MAX_QUOTE_BYTES: usize = 300;
/// Characters after a sentence that belong to the sentence.
const CLOSERS: &str = "\"'”“’»›)]」』`*_";

/// Pairs of marks around a quotation or code span.
const QUOTES: &str = "``\"\"“”„“«»「」『』";
/// Bullets of list items.
const BULLETS: [char; 10] = ['-', '*', '+', '•', '–', '·', '●', '◦', '▪', '☐'];

/// Sentence with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sentence<'t> {
    /// Trimmed text, without a bullet.
    pub(super) text: &'t str,
    pub(super) paragraph: usize,
    /// Whether the sentence belongs to a list item.
    pub(super) is_item: bool,
}

/// Returns the sentences and list items of `said`, trimmed and in order.
pub(crate) fn sentences(said: &str) -> Vec<&str> {
    split(said).into_iter().map(|it| it.text).collect()
}

/// Returns the sentences of `said` with their places.
pub(super) fn split(said: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    for (paragraph, lines) in paragraphs(said).into_iter().enumerate() {
        let mut is_item = false;
        for block in blocks(said, &lines) {
            let mark = list_mark(block);
            // A line that is no item ends a list only where it is not indented.
            is_item = mark > 0 || (is_item && block.starts_with([' ', '\t']));
            let block = without_bullet(block.trim());
            for text in sentences_of(block) {
                found.push(Sentence { text, paragraph, is_item });
            }
        }
    }
    found
}

/// Line without its end, and its start in the text.
type Line<'t> = (usize, &'t str);

/// Returns the lines of each paragraph: those between blank lines.
fn paragraphs(text: &str) -> Vec<Vec<Line<'_>>> {
    let mut found = vec![Vec::new()];
    let mut start = 0;
    for line in text.split('\n') {
        if line.trim().is_empty() {
            found.push(Vec::new());
        } else if let Some(lines) = found.last_mut() {
            lines.push((start, line.trim_end()));
        }
        start += line.len() + 1;
    }
    found.retain(|lines| !lines.is_empty());
    found
}

/// Returns the blocks of a paragraph: an item with the indented lines below, a heading, or lines wrapped by
/// hand.
fn blocks<'t>(text: &'t str, lines: &[Line<'t>]) -> Vec<&'t str> {
    let chars = |line: &Line<'_>| line.1.chars().count();
    let width = lines.iter().map(chars).max().unwrap_or_default();
    let mut found = Vec::new();
    let opens = |line: &Line<'_>| (line.0, list_mark(line.1) > 0);
    let (mut start, mut is_item) = lines.first().map(opens).unwrap_or_default();
    for (line, next) in lines.iter().zip(lines.iter().skip(1)) {
        let word = next.1.split_whitespace().next().unwrap_or_default();
        let word = word.chars().count().min(MAX_WRAPPED_WORD);
        let is_wrapped = width >= MIN_WRAP_CHARS && chars(line) + 1 + word > width;
        let is_below_item = is_item && next.1.starts_with([' ', '\t']);
        let (next_start, is_next_item) = opens(next);
        let is_new = is_next_item || is_heading(line.1) || is_heading(next.1);
        if is_new || !(is_wrapped || is_below_item) {
            found.extend(text.get(start..line.0 + line.1.len()));
            (start, is_item) = (next_start, is_next_item);
        }
    }
    found.extend(lines.last().and_then(|line| text.get(start..line.0 + line.1.len())));
    found
}

fn is_heading(line: &str) -> bool {
    line.trim_start_matches('#').starts_with(' ') && line.starts_with('#')
}

/// Returns the bytes of the bullet or the number in front of an item, with spaces; zero for other lines.
pub(super) fn list_mark(line: &str) -> usize {
    let text = line.trim_start();
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let letter = text.strip_prefix(|c: char| c.is_ascii_alphabetic());
    let after_number = number
        .strip_prefix(['.', ')', '、', '．', '）'])
        .filter(|_| matches!(text.len() - number.len(), 1..=3));
    let after_letter = letter.and_then(|rest| rest.strip_prefix(')'));
    let rest = after_number.or(after_letter).or_else(|| text.strip_prefix(BULLETS));
    let rest = rest.filter(|rest| rest.starts_with([' ', '\t']));
    rest.map_or(0, |rest| line.len() - rest.trim_start().len())
}

/// Returns an item or a heading without its bullet. A number stays: an answer may name an option.
fn without_bullet(block: &str) -> &str {
    let is_bulleted = !block.starts_with(|c: char| c.is_ascii_alphanumeric());
    let mark = if is_bulleted { list_mark(block) } else { 0 };
    let text = block.get(mark..).unwrap_or(block);
    if is_heading(text) { text.trim_start_matches('#').trim_start() } else { text }
}

fn sentences_of(block: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(c) = block.get(at..).and_then(|rest| rest.chars().next()) {
        at += c.len_utf8();
        if c.is_ascii_alphanumeric() || c == ' ' {
            continue;
        }
        if let Some(end) = sentence_end(block, c, at) {
            found.extend(block.get(start..end));
            (start, at) = (end, end);
        } else {
            at += quotation(c, block.get(at..).unwrap_or_default());
        }
    }
    found.extend(block.get(start..));
    let trimmed = found.into_iter().map(str::trim);
    trimmed.filter(|text| !text.is_empty()).collect()
}

/// Returns the bytes behind the opening `c` up to the mark that closes the quotation or code span. Zero if
/// nothing opens or closes.
fn quotation(c: char, rest: &str) -> usize {
    let mut pairs = QUOTES.chars().zip(QUOTES.chars().skip(1)).step_by(2);
    let closing = pairs.find(|(opening, _)| *opening == c);
    let near = rest.get(..rest.floor_char_boundary(MAX_QUOTE_BYTES));
    let length = closing.and_then(|(_, closing)| Some(near?.find(closing)? + closing.len_utf8()));
    length.unwrap_or_default()
}

/// Returns the end of the sentence whose last mark `c` ends at `at`.
fn sentence_end(block: &str, c: char, at: usize) -> Option<usize> {
    let is_wide = "。！？｡।॥۔؟։።။។".contains(c);
    let text = block.get(..at - c.len_utf8())?;
    // A mark behind a sign, as in `$?`, belongs to the sign.
    let is_closing = |c: char| c.is_alphanumeric() || CLOSERS.contains(c) || "%/".contains(c);
    if !(is_wide || (".!?…".contains(c) && text.ends_with(is_closing))) {
        return None;
    }
    let rest = block.get(at..)?;
    let rest = rest.trim_start_matches(|c: char| ".!?…。！？".contains(c) || CLOSERS.contains(c));
    let is_free = rest.is_empty() || rest.starts_with(char::is_whitespace);
    let is_end = is_wide || (is_free && (c != '.' || !is_abbreviated(text, rest)));
    is_end.then_some(block.len() - rest.len())
}

/// Whether the period behind `text` belongs to an abbreviation or an ordinal number.
fn is_abbreviated(text: &str, rest: &str) -> bool {
    static LISTED: LazyLock<StaticSet<&str>> =
        LazyLock::new(|| data_lines(ABBREVIATIONS).collect());
    let tail = text.get(text.floor_char_boundary(text.len().saturating_sub(24))..);
    let tail = tail.unwrap_or_default();
    let is_edge = |c: char| c.is_whitespace() || "([\"'*_".contains(c);
    let word = tail.rsplit(is_edge).next().unwrap_or_default();
    let before = tail.strip_suffix(word).unwrap_or_default();
    let next = rest.trim_start().chars().next();
    if matches!(word.len(), 1..=2) && word.chars().all(|c| c.is_ascii_digit()) {
        // The number of an item, or an ordinal number.
        let led = before.trim_end().rsplit(is_edge).next().unwrap_or_default();
        let is_ordinal = LISTED.contains(format!("{} #", led.to_lowercase()).as_str());
        let is_first = tail.len() == text.len() && before.trim_matches(is_edge).is_empty();
        return is_first
            || is_ordinal
            || before.ends_with("  ")
            || next.is_some_and(char::is_lowercase);
    }
    let mut parts = word.split('.').map(|part| part.chars().count());
    let is_initials = word.chars().all(|c| c.is_alphabetic() || c == '.')
        && parts.all(|chars| chars == 1)
        && word != "I";
    is_initials || LISTED.contains(word.to_lowercase().as_str())
}
