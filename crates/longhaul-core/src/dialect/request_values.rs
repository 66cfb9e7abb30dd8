//! Readers of values that the requests of every dialect have, and their limits.

use crate::conversation::OutputLimit;
use crate::dialect::bypass::Bypass;
use crate::json::scanner::{Literal, NotJson, Scanner};
use crate::units::tokens::Tokens;

/// Longest accepted model name, in bytes as written. Facts learned about models are stored by name;
/// names in use are shorter than 100 bytes.
pub(super) const MAX_MODEL_NAME_BYTES: usize = 512;
/// Most messages, parts and calls of one body together. Data derived from an empty message takes
/// about 400 bytes, which no memory budget includes. A history of 80 MB has 40,000 pieces.
pub(super) const MAX_PIECES: usize = 262_144;

impl From<NotJson> for Bypass {
    fn from(_: NotJson) -> Self {
        Self::Malformed
    }
}

/// Reads a string, or null as `None`. Any other type is an error.
pub(super) fn string_or_null(scanner: &mut Scanner<'_>) -> Result<Option<Literal>, Bypass> {
    match scanner.peek() {
        Some(b'"') => Ok(Some(scanner.string()?)),
        Some(b'n') => {
            scanner.value()?;
            Ok(None)
        }
        _ => Err(wrong_type(scanner)),
    }
}

/// Distinguishes a value of the wrong type from text that is not JSON.
pub(super) fn wrong_type(scanner: &mut Scanner<'_>) -> Bypass {
    scanner.value().map_or(Bypass::Malformed, |_| Bypass::Shape)
}

/// Reads a limit of output tokens. Returns `None` unless the value is a non-negative integer; the
/// upstream refuses other values itself.
pub(super) fn read_output_limit(
    scanner: &mut Scanner<'_>,
    key: Literal,
) -> Result<Option<OutputLimit>, Bypass> {
    let span = scanner.value()?;
    let number = span.slice(scanner.text()).parse().ok();
    Ok(number.map(|tokens| OutputLimit {
        key,
        span,
        tokens: Tokens::new(tokens),
    }))
}
