//! Pieces of a user's message: sentences of the user, and material that the user shows.

use super::phrases::{is_unspaced, is_word};
use super::sentences::list_mark;

/// Minimum lines of a paste.
const MIN_PASTE_LINES: usize = 8;
/// Minimum bytes of a paste with fewer lines.
const MIN_PASTE_BYTES: usize = 600;

/// Piece of a message.
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

/// Returns the first fenced block: from the fence that opens to the end of the line that closes.
fn next_fence(text: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    let mut open: Option<(usize, &str)> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        match open {
            None => {
                let start = trimmed
                    .find("```")
                    .or_else(|| trimmed.starts_with("~~~").then_some(0));
                if let Some(start) = start {
                    let found = trimmed.get(start..)?;
                    let c = found.chars().next()?;
                    let fence = found.get(..found.len() - found.trim_start_matches(c).len())?;
                    if !found.get(fence.len()..)?.contains(fence) {
                        let indent = line.len() - line.trim_start().len();
                        open = Some((at + indent + start, fence));
                    }
                }
            }
            Some((start, fence)) => {
                if trimmed.ends_with(fence) {
                    return Some((start, at + line.len()));
                }
                if let Some(said) = trimmed.strip_prefix(fence)
                    && said.contains(' ')
                {
                    let indent = line.len() - line.trim_start().len();
                    return Some((start, at + indent + fence.len()));
                }
            }
        }
        at += line.len();
    }
    open.map(|(start, _)| (start, text.len()))
}

/// Form of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Blank,
    /// Words of a sentence.
    Prose,
    /// Neither a sentence nor certainly material.
    Loose,
    /// Log, code, data or a quotation.
    Material,
}

/// Adds the pieces of a text without fences.
fn unfenced<'t>(text: &'t str, found: &mut Vec<Piece<'t>>) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let forms: Vec<Form> = lines.iter().map(|line| form(line)).collect();
    let form_at = |at: usize| forms.get(at).copied().unwrap_or(Form::Blank);
    let (mut said, mut at, mut line) = (0, 0, 0);
    while line < lines.len() {
        let last = paste_end(line, &form_at, lines.len());
        let count = last.map_or(1, |last| last + 1 - line);
        let bytes: usize = lines.iter().skip(line).take(count).map(|it| it.len()).sum();
        let solid = (line..line + count)
            .filter(|&it| form_at(it) != Form::Blank)
            .count();
        if last.is_some() && (solid >= MIN_PASTE_LINES || bytes >= MIN_PASTE_BYTES) {
            push(found, Piece::Said, text.get(said..at));
            push(found, Piece::Shown, text.get(at..at + bytes));
            said = at + bytes;
        }
        at += bytes;
        line += count;
    }
    push(found, Piece::Said, text.get(said..));
}

fn push<'t>(found: &mut Vec<Piece<'t>>, piece: fn(&'t str) -> Piece<'t>, text: Option<&'t str>) {
    found.extend(text.filter(|text| !text.is_empty()).map(piece));
}

/// Returns the last line of the material that begins at `start`.
fn paste_end(start: usize, form_at: &impl Fn(usize) -> Form, lines: usize) -> Option<usize> {
    let mut last = (form_at(start) == Form::Material).then_some(start)?;
    for at in start + 1..lines {
        let before = form_at(at - 1);
        let next = form_at(at + 1);
        match form_at(at) {
            Form::Material => last = at,
            Form::Blank | Form::Loose => {}
            Form::Prose if before == Form::Material && next == Form::Material => {}
            Form::Prose => break,
        }
    }
    Some(last)
}

/// Returns the form of a line.
fn form(line: &str) -> Form {
    let text = line.trim();
    if text.is_empty() {
        return Form::Blank;
    }
    let body = text.get(list_mark(text)..).unwrap_or(text);
    let mut words = 0;
    let (mut wordy, mut all) = (0, 0);
    for token in body.split_whitespace() {
        let chars = token.chars().count();
        let inner =
            token.trim_matches(|c: char| c.is_ascii_punctuation() && !"={}<>|/\\".contains(c));
        all += chars;
        if !inner.is_empty()
            && inner
                .chars()
                .all(|c| is_word(c) && !c.is_numeric() || "'’-".contains(c) || !c.is_ascii())
        {
            wordy += chars;
            let unspaced = inner.chars().filter(|&c| is_unspaced(c)).count();
            words += 1 + unspaced / 2;
        }
    }
    let is_code = text.ends_with(['{', '}', ';', '[', ']', '(', '>']);
    if text.starts_with('>') || text.matches('|').count() > 1 || is_code || wordy * 2 < all {
        Form::Material
    } else if words > 2 && wordy * 4 >= all * 3 {
        Form::Prose
    } else {
        Form::Loose
    }
}
