//! Finds the identifiers of a text.

mod cue;
mod split;
mod values;

use crate::identifiers::kind::IdentifierKind;
use cue::Cue;
use split::{split_run, trim_punctuation};
use std::cell::LazyCell;
use std::ops::Range;

/// Maximum bytes of a run. A longer run is data (base64, minified code), not a name to repeat.
const MAX_RUN_BYTES: usize = 160;

pub(super) struct FoundIdentifier<'t> {
    pub(super) text: &'t str,
    pub(super) kind: IdentifierKind,
    /// Whether a cue word such as "id", "port" or "token" introduces the identifier.
    pub(super) cued: bool,
}

/// Passes each identifier of `text` to `found`, in order.
pub(super) fn scan<'t>(text: &'t str, mut found: impl FnMut(FoundIdentifier<'t>)) {
    let mut at = 0;
    while let Some(run) = next_run(text.as_bytes(), at) {
        at = read_run(text, run, &mut found);
    }
}

/// Returns the first run from byte `from` on that does not consist of small letters alone. A run is a sequence of
/// bytes that may belong to one identifier.
fn next_run(bytes: &[u8], mut from: usize) -> Option<Range<usize>> {
    loop {
        let rest = bytes.get(from..)?;
        let start = from + rest.iter().position(|&byte| is_in_run(byte))?;
        let rest = bytes.get(start..)?;
        let lower = rest.iter().take_while(|byte| byte.is_ascii_lowercase());
        from = start + lower.count();
        let rest = bytes.get(from..)?;
        let others = rest.iter().take_while(|&&byte| is_in_run(byte));
        let end = from + others.count();
        if end > from {
            return Some(start..end);
        }
    }
}

/// Whether a byte is a letter, a digit, or punctuation that occurs inside of identifiers.
fn is_in_run(byte: u8) -> bool {
    static IN_RUN: [bool; 256] = {
        let mut in_run = [false; 256];
        let (mut left, mut byte) = (in_run.as_mut_slice(), 0_u8);
        while let Some((place, rest)) = left.split_first_mut() {
            *place = byte.is_ascii_alphanumeric()
                || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'\\' | b'@' | b'#' | b'+' | b'~')
                || matches!(byte, b':' | b'=' | b'%' | b'&' | b'?' | b'*' | b'$');
            byte = byte.wrapping_add(1);
            left = rest;
        }
        in_run
    };
    IN_RUN.get(usize::from(byte)) == Some(&true)
}

/// Passes the identifiers of a run to `found`. Returns where reading continues: behind the run, or behind a value
/// that belongs to the run.
fn read_run<'t>(
    text: &'t str,
    run: Range<usize>,
    found: &mut impl FnMut(FoundIdentifier<'t>),
) -> usize {
    let word = text.get(run.clone()).unwrap_or_default();
    if word.len() > MAX_RUN_BYTES && !word.contains("://") {
        return run.end;
    }
    let cue = LazyCell::new(|| Cue::before(text, run.start));
    if let Some((value, kind)) = values::value_of(text, &run) {
        let end = value.end;
        found(FoundIdentifier {
            text: text.get(value).unwrap_or_default(),
            kind,
            cued: cue.is_some(),
        });
        return end;
    }
    let trimmed = trim_punctuation(word);
    if !is_prose(trimmed) {
        split_run(trimmed, &mut |piece, kind| {
            let context = match kind {
                IdentifierKind::Number => cue.as_ref().and_then(|cue| cue.text_to(text, run.end)),
                IdentifierKind::Assignment => flag(word, piece),
                IdentifierKind::Code | IdentifierKind::Hash | IdentifierKind::Location => None,
            };
            found(FoundIdentifier { text: context.unwrap_or(piece), kind, cued: cue.is_some() });
        });
    }
    run.end
}

/// Whether a word consists of small letters and joiners, with capitals outside of paths: a name or ordinary words.
fn is_prose(word: &str) -> bool {
    let is_joiner = |byte: u8| matches!(byte, b'-' | b'_' | b'.');
    let has_lower = word.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_path = |byte: u8| byte.is_ascii_lowercase() || is_joiner(byte) || byte == b'/';
    let is_name = |byte: u8| byte.is_ascii_alphabetic() || is_joiner(byte);
    has_lower && (word.bytes().all(is_name) || word.bytes().all(is_path))
}

/// Returns a setting with the dashes of its flag, if `word` begins with both.
fn flag<'t>(word: &'t str, setting: &str) -> Option<&'t str> {
    let dashes = word.len() - word.trim_start_matches('-').len();
    let is_flag = word.get(dashes..)?.starts_with(setting);
    word.get(..dashes + setting.len()).filter(|_| is_flag)
}

#[cfg(test)]
mod tests;
