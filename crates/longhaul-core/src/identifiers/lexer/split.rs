//! Splits a run at its punctuation into identifiers.

use crate::identifiers::kind::{self, IdentifierKind, forms};
use crate::identifiers::lexer::MAX_RUN_BYTES;

/// Receives the identifiers of a run, in order.
type Sink<'s, 't> = dyn FnMut(&'t str, IdentifierKind) + 's;

/// Splits a run without surrounding punctuation.
pub(super) fn split_run<'t>(run: &'t str, found: &mut Sink<'_, 't>) {
    let is_separator = |byte| matches!(byte, b':' | b'=' | b'?' | b'&' | b'%' | b'*' | b'$');
    if !run.bytes().any(is_separator) {
        return read_piece(run, found);
    }
    if let Some(scheme) = run.find("://") {
        // An escape in quoted JSON ends an address.
        let address = run.split('\\').next().map_or(run, trim_punctuation);
        if address.len() > scheme + 6 {
            found(address, IdentifierKind::Location);
        }
        return;
    }
    // Without its surrounding punctuation an overlong run may no longer contain `://`, and is data
    // then.
    if run.len() > MAX_RUN_BYTES {
        return;
    }
    if let Some((key, value)) = run.split_once('=') {
        let value = value.trim_start_matches(['=', '>']);
        if forms::is_assignment(key, value) {
            return found(run, IdentifierKind::Assignment);
        }
        split_run(trim_punctuation(key), found);
        return split_run(trim_punctuation(value), found);
    }
    match run.split_once(':') {
        Some((first, rest)) => split_colons(run, first, rest, found),
        None => split_rest(run, found),
    }
}

/// Splits a run at its colons, the first of which is between `first` and `rest`.
///
/// The run is a drive path, a qualified name, a host with a port, an image, a time, or otherwise a list.
fn split_colons<'t>(run: &'t str, first: &str, rest: &str, found: &mut Sink<'_, 't>) {
    let is_drive = matches!(first.as_bytes(), [letter] if letter.is_ascii_alphabetic())
        && rest.starts_with(['\\', '/']);
    if is_drive || run.contains("::") {
        return;
    }
    if forms::is_endpoint(first, rest) || forms::is_image(first, rest) {
        return found(run, IdentifierKind::Location);
    }
    if forms::is_joined_by_colons(run) {
        return found(run, IdentifierKind::Code);
    }
    for piece in run.split(':') {
        split_rest(trim_punctuation(piece), found);
    }
}

/// Splits a trimmed run without colons and equals signs.
fn split_rest<'t>(run: &'t str, found: &mut Sink<'_, 't>) {
    for piece in run.split(['?', '&', '%', '*', '$']) {
        read_piece(trim_punctuation(piece), found);
    }
}

/// Reads a trimmed piece without separators.
fn read_piece<'t>(piece: &'t str, found: &mut Sink<'_, 't>) {
    if let Some(kind) = kind::classify(piece) {
        found(piece, kind);
    } else if piece.contains('\\') || (piece.contains('/') && !piece.starts_with('/')) {
        // The folders of a path that is no identifier may be identifiers.
        for part in piece.split(['\\', '/']).map(trim_punctuation) {
            if let Some(kind) = kind::classify(part) {
                found(part, kind);
            }
        }
    }
}

pub(super) fn trim_punctuation(word: &str) -> &str {
    let is_start = |it: char| matches!(it, ':' | '=' | '-' | '+' | '?' | '&' | '*' | '%');
    let is_end = |it: char| is_start(it) || matches!(it, '.' | '#' | '\\' | '~' | '$' | '@');
    word.trim_end_matches(is_end).trim_start_matches(is_start)
}
