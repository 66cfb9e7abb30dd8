//! Checks on client-chosen text before it is shown on a terminal.

/// Whether a terminal can safely show `letter`. Excludes control characters, which could overwrite
/// other output, and characters that change the text's direction.
pub fn is_printable(letter: char) -> bool {
    let turns = matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    !letter.is_control() && !turns
}

/// Returns a client-chosen text, safe for a terminal: a mark replaces each character that is not
/// printable.
pub fn printable_name(text: &str) -> String {
    let letters = text.chars();
    letters.map(|it| if is_printable(it) { it } else { '\u{fffd}' }).collect()
}

/// Returns the printable characters of `text`, at most `most`.
pub fn shortened(text: &str, most: usize) -> String {
    text.chars().filter(|letter| is_printable(*letter)).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_are_not_printable() {
        for letter in "\u{1b}\n\u{9b}\u{7f}\u{61c}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}".chars()
        {
            assert!(!is_printable(letter), "{letter:?}");
        }
        assert!("a 1-é世👍".chars().all(is_printable));
    }
}
