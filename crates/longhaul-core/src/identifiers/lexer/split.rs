//! Splits a run at its punctuation into identifiers.

use crate::identifiers::kind;
use crate::identifiers::kind::IdentifierKind;
use crate::identifiers::lexer::MAX_RUN_BYTES;

/// Splits a run at its punctuation into identifiers.
pub(super) fn split_run<'t>(run: &'t str, found: &mut impl FnMut(&'t str, IdentifierKind)) {
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
pub(super) fn classify_piece<'t>(piece: &'t str, found: &mut impl FnMut(&'t str, IdentifierKind)) {
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
pub(super) fn trim_punctuation(word: &str) -> &str {
    let is = |is_trimmed: fn(u8) -> bool| {
        move |char: char| u8::try_from(char).is_ok_and(|byte| is_trimmed(byte))
    };
    let word = word.trim_end_matches(is(is_trimmed_from_end));
    word.trim_start_matches(is(is_trimmed_from_start))
}

/// Whether a byte does not belong to the end of an identifier.
pub(super) fn is_trimmed_from_end(byte: u8) -> bool {
    matches!(
        byte,
        b'.' | b':'
            | b'-'
            | b'='
            | b'?'
            | b'&'
            | b'+'
            | b'#'
            | b'\\'
            | b'*'
            | b'%'
            | b'~'
            | b'$'
            | b'@'
    )
}

/// Whether a byte does not belong to the start of an identifier.
pub(super) fn is_trimmed_from_start(byte: u8) -> bool {
    matches!(byte, b':' | b'=' | b'-' | b'+' | b'?' | b'&' | b'*' | b'%')
}

/// Whether a byte may separate the identifiers of a run.
pub(super) fn is_separator(byte: u8) -> bool {
    matches!(byte, b':' | b'=' | b'%' | b'&' | b'?' | b'*' | b'$')
}
