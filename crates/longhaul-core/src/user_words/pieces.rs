//! Pieces of a user's message: sentences of the user, and material that the user shows.

use super::phrases::{is_unspaced, is_word};
use super::sentences::list_mark;

/// Minimum lines of a paste.
const MIN_PASTE_LINES: usize = 8;
/// Minimum bytes of a paste with fewer lines.
const MIN_PASTE_BYTES: usize = 600;

/// Minimum words of a line that is a sentence whatever signs stand in the line.
const MAX_DATA_WORDS: usize = 20;
/// Starts of a comment, or of a hunk.
const COMMENTS: [&str; 5] = ["//", "/*", "*/", "<!--", "@@"];
/// Ends of the name of an error, in lower case.
const ERRORS: [&str; 4] = ["error", "exception", "warning", "fatal"];
/// Levels of a log as they stand in its lines.
const LEVELS: [&str; 8] = ["TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "ERR!", "FATAL"];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Piece<'t> {
    /// Words of the user.
    Said(&'t str),
    /// Fenced text, or a long paste.
    Shown(&'t str),
}

/// Splits `text` into what the user says and what the user shows. The pieces together are the text.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((start, end)) = next_fence(rest) {
        let (before, others) = rest.split_at_checked(start).unwrap_or((rest, ""));
        let (fenced, after) = others.split_at_checked(end - start).unwrap_or((others, ""));
        unfenced(before, &mut found);
        found.push(Piece::Shown(fenced));
        rest = after;
    }
    unfenced(rest, &mut found);
    found
}

/// Returns the start and the end of the first fenced block. Text behind the fence that closes is no part of
/// the block.
fn next_fence(text: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    let mut open: Option<(usize, &str)> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start().len();
        if let Some((start, fence)) = open {
            let said = trimmed.strip_prefix(fence).filter(|said| said.contains(' '));
            if said.is_some() {
                return Some((start, at + indent + fence.len()));
            }
            if trimmed.ends_with(fence) {
                return Some((start, at + line.len()));
            }
        } else if let Some((start, fence)) = opening(trimmed) {
            open = Some((at + indent + start, fence));
        }
        at += line.len();
    }
    open.map(|(start, _)| (start, text.len()))
}

/// Returns the fence that a line opens and does not close, and the fence's start.
fn opening(line: &str) -> Option<(usize, &str)> {
    let is_tilde = line.starts_with("~~~");
    let start = if is_tilde { 0 } else { line.find("```")? };
    let rest = line.get(start..)?;
    let info = rest.trim_start_matches(if is_tilde { '~' } else { '`' });
    let fence = rest.get(..rest.len() - info.len())?;
    // Within a sentence, a fence is a word unless only the name of a language follows.
    let opens = start == 0 || info.split_whitespace().count() < 2;
    (opens && !info.contains(fence)).then_some((start, fence))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Blank,
    /// Words of a sentence.
    Prose,
    /// Indented words: of a comment or a value if code or data stands in front.
    Indented,
    /// Neither a sentence nor certainly material.
    Loose,
    /// Log, code or data.
    Material,
    /// Line of a quotation.
    Quoted,
}

/// Adds the pieces of a text without fences.
fn unfenced<'t>(text: &'t str, found: &mut Vec<Piece<'t>>) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut head = "";
    let forms: Vec<Form> = lines.iter().map(|line| form(line, &mut head)).collect();
    let (mut said, mut at, mut line) = (0, 0, 0);
    while line < lines.len() {
        let count = paste_lines(forms.get(line..).unwrap_or_default());
        let taken = lines.iter().skip(line).take(count.max(1));
        let bytes: usize = taken.map(|it| it.len()).sum();
        let filled = forms.iter().skip(line).take(count);
        let filled = filled.filter(|form| **form != Form::Blank).count();
        if filled >= MIN_PASTE_LINES || (count > 0 && bytes >= MIN_PASTE_BYTES) {
            push(found, Piece::Said, text.get(said..at));
            push(found, Piece::Shown, text.get(at..at + bytes));
            said = at + bytes;
        }
        at += bytes;
        line += count.max(1);
    }
    push(found, Piece::Said, text.get(said..));
}

fn push<'t>(found: &mut Vec<Piece<'t>>, piece: fn(&'t str) -> Piece<'t>, text: Option<&'t str>) {
    found.extend(text.filter(|text| !text.is_empty()).map(piece));
}

/// Returns the number of lines of the material at the start of `forms`. The last line is material, or a
/// quotation in front of a sentence. A sentence between two lines of material belongs to the material;
/// one between two quoted lines answers.
fn paste_lines(forms: &[Form]) -> usize {
    let mut count = 0;
    for (at, form) in forms.iter().enumerate() {
        let is_within = count == at && forms.get(at + 1) == Some(&Form::Material);
        let before = at.checked_sub(1).and_then(|at| forms.get(at));
        match form {
            Form::Material | Form::Quoted => count = at + 1,
            Form::Blank | Form::Loose | Form::Indented | Form::Prose if count == 0 => break,
            Form::Prose if !is_within => break,
            Form::Loose | Form::Indented if before == Some(&Form::Quoted) => break,
            // A comment, or a message below its header.
            Form::Indented if count + 1 >= at => count = at + 1,
            Form::Blank | Form::Loose | Form::Indented | Form::Prose => {}
        }
    }
    count
}

/// Returns the form of a line. `head` is the first word of the line in front; the line's own takes its
/// place.
fn form<'t>(line: &'t str, head: &mut &'t str) -> Form {
    let text = line.trim();
    let mark = list_mark(text);
    let body = text.get(mark..).unwrap_or(text);
    let Some(first) = body.split_whitespace().next() else {
        return Form::Blank;
    };
    let words = Words::of(body);
    let is_repeated = mark == 0 && first == *head && words.letters < words.all;
    *head = first;
    let is_prose = words.count > 2 && words.letters * 4 >= words.all * 3;
    if text.starts_with('>') {
        Form::Quoted
    } else if text.starts_with('|') || (words.count < MAX_DATA_WORDS && is_data(text, first)) {
        Form::Material
    } else if is_prose && (words.count > 7 || !is_code(text)) {
        let is_indented = mark == 0 && (line.starts_with("  ") || line.starts_with('\t'));
        if is_indented { Form::Indented } else { Form::Prose }
    } else if is_code(text) || is_repeated || (mark == 0 && words.letters * 2 < words.all) {
        Form::Material
    } else {
        Form::Loose
    }
}

/// Whether a line is a row of a table, a comment, a quoted key, or the entry of a log.
fn is_data(text: &str, first: &str) -> bool {
    let names_error = |token: &str| {
        let name = token.strip_suffix(':').unwrap_or_default().to_lowercase();
        ERRORS.iter().any(|end| name.ends_with(end))
    };
    // A time of day stands behind a date at the latest.
    let is_digit = u8::is_ascii_digit;
    let is_time = |it: &[u8]| matches!(it, [a, b':', b, c] if [a, b, c].into_iter().all(is_digit));
    let mut start = text.split_whitespace().take(3);
    text.matches('|').count() > 1
        || text.contains(['\t', '\u{1b}'])
        || text.contains("   ")
        || COMMENTS.iter().any(|mark| first.starts_with(mark))
        || (first.starts_with('"') && first.ends_with("\":"))
        || start.any(|it| LEVELS.contains(&it) || it.as_bytes().windows(4).any(is_time))
        || text.split_whitespace().any(names_error)
}

/// Whether a line ends like code, assigns or calls.
fn is_code(text: &str) -> bool {
    let mut brackets = text.match_indices('(');
    let calls = brackets.any(|(at, _)| text.get(..at).is_some_and(|it| it.ends_with(is_word)));
    text.ends_with(['{', '}', ';', '[', ']', '(', '>', '\\'])
        || text.split(' ').any(|token| matches!(token, "=" | "==" | "=>" | "->" | ":=" | "+="))
        || (calls && text.ends_with([')', ',', ':']))
}

#[derive(Default)]
struct Words {
    count: usize,
    /// Characters of the words.
    letters: usize,
    /// Characters of everything but white space, code spans and links.
    all: usize,
}

impl Words {
    fn of(line: &str) -> Self {
        let mut found = Self::default();
        for token in line.split_whitespace() {
            if token.contains('`') || token.contains("](") || token.starts_with("http") {
                continue;
            }
            let chars = token.chars().count();
            let trimmed = token.trim_matches(|c: char| ".,:;!?\"'()*_[]…".contains(c));
            let is_word = |c: char| is_word(c) && !c.is_numeric() || is_joiner(c);
            found.all += chars;
            if !trimmed.is_empty() && trimmed.chars().all(is_word) {
                let unspaced = trimmed.chars().filter(|&c| is_unspaced(c)).count();
                found.count += 1 + unspaced / 2;
                found.letters += chars;
            }
        }
        found
    }
}

/// Whether `c` stands within words: an apostrophe, a hyphen, or the punctuation of a script without spaces.
fn is_joiner(c: char) -> bool {
    "'’-/–—،؛।".contains(c) || matches!(c, '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}')
}
