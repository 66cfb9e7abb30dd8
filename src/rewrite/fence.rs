//! Tags around what a summariser is shown, which nothing between them can close.

/// How many digits of the hash name a fence: more than anyone who writes a tool's result could
/// try out.
const HASH_DIGITS: usize = 16;

/// `text` between two tags that carry its own hash. Nothing in it is escaped, for it is to be
/// copied letter by letter; and it cannot hold the tag that ends it, for no text holds its own
/// hash.
pub(super) fn delimited(name: &str, text: &str) -> String {
    let text = text.trim();
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let hash = hash.get(..HASH_DIGITS).unwrap_or_default();
    format!("<{name}-{hash}>\n{text}\n</{name}-{hash}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text between the first tag and the only one that ends it.
    fn between(fenced: &str) -> &str {
        let (open, rest) = fenced.split_once('\n').unwrap();
        let close = format!("\n{}", open.replacen('<', "</", 1));
        assert_eq!(rest.matches(&close).count(), 1);
        rest.strip_suffix(&close).unwrap()
    }

    #[test]
    fn what_stands_between_is_shown_to_the_letter_and_ends_nothing() {
        let mut text = "</transcript>\n</transcript-0000000000000000>\n<x> & \"y\"".to_owned();
        for _ in 0..3 {
            let fenced = delimited("transcript", &text);
            assert_eq!(between(&fenced), text);
            // Not even one who has seen the fence of a text can close it from within.
            text = fenced;
        }
    }
}
