//! String literals: text quoted as JSON.

/// Whether `text` needs no escape in a JSON string literal.
pub(crate) fn needs_no_escape(text: &str) -> bool {
    let is_escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    // Counted, because a loop that may end early examines one byte at a time.
    text.as_bytes()
        .iter()
        .filter(|byte| is_escaped(byte))
        .count()
        == 0
}

/// Formats `text` as a JSON string literal.
pub(crate) fn quote(text: &str) -> String {
    if needs_no_escape(text) {
        return ["\"", text, "\""].concat();
    }
    // Room for the quotation marks and some escapes.
    let mut quoted = Vec::with_capacity(text.len() + text.len() / 8 + 2);
    // A string always serialises, to valid UTF-8, so neither call can fail.
    _ = serde_json::to_writer(&mut quoted, text);
    String::from_utf8(quoted).unwrap_or_default()
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
            assert_eq!(
                needs_no_escape(&text),
                quoted.len() == text.len() + 2,
                "{text}"
            );
        }
    }
}
