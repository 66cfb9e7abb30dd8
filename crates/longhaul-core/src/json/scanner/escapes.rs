//! Escapes in string literals.

use crate::json::scanner::NotJson;
use crate::json::scanner::block_mask::{BLOCK_BYTES, backslashes};

/// Returns the byte that a two-byte escape stands for, or `None` if `escape` forms no such escape.
#[inline]
pub(super) fn simple(escape: u8) -> Option<u8> {
    Some(match escape {
        b'"' | b'\\' | b'/' => escape,
        b'b' => 0x08,
        b'f' => 0x0C,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// Returns the length of the escape whose `\u` precedes `units`: 6, or 12 for a surrogate pair. A separate function, so
/// that common escapes are handled inline.
#[cold]
pub(super) fn unit_escape_length(units: &[u8]) -> Result<usize, NotJson> {
    let unit = hex4(units).ok_or(NotJson)?;
    let low = match units.get(4..) {
        Some([b'\\', b'u', low @ ..]) => hex4(low),
        _ => None,
    };
    let pair =
        (0xD800..0xDC00).contains(&unit) && low.is_some_and(|low| (0xDC00..0xE000).contains(&low));
    Ok(if pair { 12 } else { 6 })
}

fn hex4(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.get(..4)?;
    digits.iter().try_fold(0, |unit, &byte| Some(unit * 16 + char::from(byte).to_digit(16)?))
}

/// Decodes the inside of a validated literal: at least its first `limit` bytes, if it has as many.
pub(super) fn decode(raw: &str, limit: usize) -> String {
    let end = raw.ceil_char_boundary(limit);
    let raw = raw.as_bytes();
    let mut text = Vec::with_capacity(end + COPIED_BYTES);
    let (mut base, mut copied) = (0, 0_usize);
    while base < end
        && let Some(block) = raw.get(base..)
    {
        let mut escapes = backslashes(block);
        while let Some(at) = first_from(&mut escapes, copied.saturating_sub(base)) {
            let at = base + at;
            push(&mut text, raw, copied, at);
            copied = at + push_escape(&mut text, raw.get(at..).unwrap_or_default());
        }
        base += BLOCK_BYTES;
    }
    push(&mut text, raw, copied, end);
    String::from_utf8(text).unwrap_or_default()
}

/// Clears the bits before `from`, which may lie past the mask, and returns the first one left.
#[inline]
fn first_from(mask: &mut u64, from: usize) -> Option<usize> {
    let shift = u32::try_from(from).unwrap_or(u64::BITS);
    *mask &= u64::MAX.checked_shl(shift).unwrap_or(0);
    (*mask != 0).then(|| mask.trailing_zeros() as usize)
}

/// Bytes that are copied at once: one register.
const COPIED_BYTES: usize = 16;

/// Appends the bytes `from..to` of a literal. Most pieces are short: a whole register is copied, and
/// the excess is removed.
#[inline]
fn push(text: &mut Vec<u8>, raw: &[u8], from: usize, to: usize) {
    let count = to.saturating_sub(from);
    let length = text.len() + count;
    let source = raw.get(from..).unwrap_or_default();
    match source.first_chunk::<COPIED_BYTES>() {
        Some(source) if count <= COPIED_BYTES => {
            text.extend_from_slice(source);
            text.truncate(length);
        }
        Some(_) | None => text.extend_from_slice(source.get(..count).unwrap_or_default()),
    }
}

/// Appends the decoded escape at the front, and returns the length of the escape.
#[inline]
fn push_escape(text: &mut Vec<u8>, escape: &[u8]) -> usize {
    match escape {
        [b'\\', b'u', units @ ..] => push_units(text, units),
        [b'\\', escape, ..] => {
            text.push(simple(*escape).unwrap_or(*escape));
            2
        }
        _ => escape.len().max(1),
    }
}

#[cold]
fn push_units(text: &mut Vec<u8>, units: &[u8]) -> usize {
    let unit = |at: usize| units.get(at..).and_then(hex4).unwrap_or(0xFFFD);
    let length = unit_escape_length(units).unwrap_or(6);
    let code = match length {
        12 => 0x1_0000 + ((unit(0) - 0xD800) << 10) + (unit(6) - 0xDC00),
        _ => unit(0),
    };
    let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    length
}
