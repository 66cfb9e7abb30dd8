//! Splits a run at its punctuation into identifiers.

use crate::identifiers::kind;
use crate::identifiers::kind::{IdentifierKind, forms};
use crate::identifiers::lexer::MAX_RUN_BYTES;
use memchr::{memchr, memmem};

/// Receives the identifiers of a run, in order.
pub(super) trait PieceSink {
    /// Receives a piece if it is a known identifier. Returns whether the sink received the piece.
    fn receive_known(&mut self, piece: &str) -> bool;

    /// Receives an identifier.
    fn receive(&mut self, piece: &str, kind: IdentifierKind);
}

/// Splits a run, with or without surrounding punctuation.
pub(super) fn split_run(run: &str, sink: &mut impl PieceSink) {
    let run = trim_punctuation(run);
    let colon = memchr(b':', run.as_bytes());
    if let Some(from) = colon
        && let Some(scheme) = scheme_end(run, from)
    {
        if run.len() > scheme + 6 {
            sink.receive(run, IdentifierKind::Location);
        }
        return;
    }
    // Without its surrounding punctuation an overlong run may no longer contain `://`, and is data
    // then.
    if run.len() > MAX_RUN_BYTES {
        return;
    }
    if let Some((key, value)) = split_at(run, memchr(b'=', run.as_bytes())) {
        let value = value.trim_start_matches(['=', '>']);
        if forms::is_assignment(key, value) {
            return sink.receive(run, IdentifierKind::Assignment);
        }
        split_run(key, sink);
        return split_run(value, sink);
    }
    match split_at(run, colon) {
        Some((first, rest)) => split_colons(run, first, rest, sink),
        None => split_rest(run, sink),
    }
}

/// Returns the text before and after the byte at `at`.
fn split_at(run: &str, at: Option<usize>) -> Option<(&str, &str)> {
    let at = at?;
    Some((run.get(..at)?, run.get(at + 1..)?))
}

/// Returns the position of the first `://`, from the colon at `from` on.
fn scheme_end(run: &str, from: usize) -> Option<usize> {
    let rest = run.get(from..)?;
    if rest.starts_with("://") {
        return Some(from);
    }
    rest.contains('/')
        .then(|| memmem::find(rest.as_bytes(), b"://"))
        .flatten()
        .map(|at| from + at)
}

/// Splits a run at its colons, the first of which is between `first` and `rest`.
///
/// The run is a drive path, a qualified name, a host with a port, an image, a time, or otherwise a list.
fn split_colons(run: &str, first: &str, rest: &str, sink: &mut impl PieceSink) {
    let is_drive = matches!(first.as_bytes(), [letter] if letter.is_ascii_alphabetic())
        && rest.starts_with(['\\', '/']);
    if is_drive || run.contains("::") {
        return;
    }
    if forms::is_endpoint(first, rest) || forms::is_image(first, rest) {
        return sink.receive(run, IdentifierKind::Location);
    }
    if forms::is_joined_by_colons(run) {
        return sink.receive(run, IdentifierKind::Code);
    }
    for piece in run.split(':') {
        split_rest(trim_punctuation(piece), sink);
    }
}

/// Splits a trimmed run without colons and equals signs.
fn split_rest(run: &str, sink: &mut impl PieceSink) {
    let is_separator = |byte: u8| matches!(byte, b'?' | b'&' | b'%' | b'*' | b'$');
    if !run.bytes().any(is_separator) {
        return read_piece(run, sink);
    }
    for piece in run.split(['?', '&', '%', '*', '$']) {
        read_piece(trim_punctuation(piece), sink);
    }
}

/// Finds the identifiers of a trimmed piece without separators.
fn read_piece(piece: &str, sink: &mut impl PieceSink) {
    if piece.len() < kind::MIN_LEN {
        return;
    }
    if piece.bytes().all(|byte| byte.is_ascii_digit()) {
        return sink.receive(piece, IdentifierKind::Number);
    }
    if !sink.receive_known(piece) {
        classify_piece(piece, sink);
    }
}

/// Classifies a piece. If a piece with folders is not an identifier, classifies each folder
/// instead.
pub(super) fn classify_piece(piece: &str, sink: &mut impl PieceSink) {
    if let Some(kind) = kind::classify(piece) {
        sink.receive(piece, kind);
    } else if piece.contains('\\') || (piece.contains('/') && !piece.starts_with('/')) {
        for part in piece.split(['\\', '/']).map(trim_punctuation) {
            if let Some(kind) = kind::classify(part) {
                sink.receive(part, kind);
            }
        }
    }
}

/// Removes surrounding sentence punctuation.
pub(super) fn trim_punctuation(word: &str) -> &str {
    let mut bytes = word.as_bytes();
    while let [rest @ .., last] = bytes
        && is_trimmed_from_end(*last)
    {
        bytes = rest;
    }
    let end = bytes.len();
    while let [first, rest @ ..] = bytes
        && is_trimmed_from_start(*first)
    {
        bytes = rest;
    }
    word.get(end - bytes.len()..end).unwrap_or_default()
}

/// Whether a byte does not belong to the end of an identifier.
#[inline]
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
#[inline]
pub(super) fn is_trimmed_from_start(byte: u8) -> bool {
    matches!(byte, b':' | b'=' | b'-' | b'+' | b'?' | b'&' | b'*' | b'%')
}

/// Whether a byte may separate the identifiers of a run.
#[inline]
pub(super) fn is_separator(byte: u8) -> bool {
    matches!(byte, b':' | b'=' | b'%' | b'&' | b'?' | b'*' | b'$')
}
