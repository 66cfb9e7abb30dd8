//! String literals: text quoted as JSON.

use crate::json::scanner::block_mask::{BLOCK_BYTES, BlockMask};
use std::fmt::Write;

/// Whether `text` needs no escape in a JSON string literal.
pub(crate) fn needs_no_escape(text: &str) -> bool {
    let is_escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    // Counted, because a loop that may end early examines one byte at a time.
    text.as_bytes().iter().filter(|byte| is_escaped(byte)).count() == 0
}

/// Formats `text` as a JSON string literal. Every request repeats a long replacement text, so
/// the runs between two escapes are copied whole.
pub(crate) fn quote(text: &str) -> String {
    // Room for the quotation marks and some escapes.
    let mut quoted = String::with_capacity(text.len() + text.len() / 8 + 2);
    quoted.push('"');
    let mut copied = 0;
    for (at, block) in (0..).step_by(BLOCK_BYTES).zip(text.as_bytes().chunks(BLOCK_BYTES)) {
        let mut mask = BlockMask::from_bytes(block);
        // The mask has bits for bytes past the end of the text, too.
        while let Some(byte) = block.get(mask.first_special()) {
            let escaped = at + mask.first_special();
            quoted.push_str(text.get(copied..escaped).unwrap_or_default());
            push_escape(&mut quoted, *byte);
            copied = escaped + 1;
            mask.clear_first();
        }
    }
    quoted.push_str(text.get(copied..).unwrap_or_default());
    quoted.push('"');
    quoted
}

/// Appends the escape of a quotation mark, a backslash or a control character.
fn push_escape(quoted: &mut String, byte: u8) {
    match byte {
        b'"' => quoted.push_str("\\\""),
        b'\\' => quoted.push_str("\\\\"),
        b'\n' => quoted.push_str("\\n"),
        b'\r' => quoted.push_str("\\r"),
        b'\t' => quoted.push_str("\\t"),
        0x08 => quoted.push_str("\\b"),
        0x0C => quoted.push_str("\\f"),
        // Formatting into a string cannot fail.
        control => _ = write!(quoted, "\\u{control:04x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_like_serde_json() {
        for byte in 0..=u8::MAX {
            let text = format!("before {} behind", char::from(byte));
            let quoted = serde_json::to_string(&text).unwrap();
            assert_eq!(quote(&text), quoted);
            assert_eq!(needs_no_escape(&text), quoted.len() == text.len() + 2, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn quotes_long_texts_like_serde_json(text in "([a-z ]{0,70}|[\"\\\\\n\t\u{0}-\u{1f}]{1,3}|é|😀){0,12}") {
            assert_eq!(quote(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
