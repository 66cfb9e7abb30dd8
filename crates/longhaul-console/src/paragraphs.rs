//! Texts for people in data files: paragraphs, each below a line with its key.

/// Returns the paragraph below the line `key:` as one line. Empty if there is none.
pub fn paragraph(texts: &str, key: &str) -> String {
    let mut entries = texts.split("\n\n");
    let own = entries.find_map(|entry| entry.strip_prefix(key)?.strip_prefix(":\n"));
    let words: Vec<&str> = own.unwrap_or_default().split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_found_by_its_whole_key() {
        let texts = "# a.b: comment\n\na.b:\n  One\n  two.\n\na:\n  Three.\n";
        assert_eq!(paragraph(texts, "a.b"), "One two.");
        assert_eq!(paragraph(texts, "a"), "Three.");
        assert_eq!(paragraph(texts, "b"), "");
    }
}
