//! Features that similar identifiers share, and how much of an identifier nobody can guess.

use crate::identifiers::kind::IdentifierKind;

const MIN_HEX_PIECE: usize = 5;

/// Returns the features that `word` shares with its family. Many identifiers of one family in one place form a
/// listing, and none of them is distinctive.
pub(super) fn family(word: &str, kind: IdentifierKind) -> String {
    match kind {
        IdentifierKind::Assignment => {
            let key = word.split(['=', ':']).next().unwrap_or_default();
            key.trim_start_matches('-').to_owned()
        }
        IdentifierKind::Hash => word.len().to_string(),
        IdentifierKind::Location => {
            let host = word.split_once("://").map_or(word, |(_, rest)| rest);
            host.split(['/', ':']).next().unwrap_or_default().to_owned()
        }
        IdentifierKind::Code => family_of_code(word),
        IdentifierKind::Number => shape(word),
    }
}

/// Returns the words of a code and the shape of the rest, so that `PROJ-118` belongs to the `PROJ-` family. Short
/// hexadecimal of equal length is one family, whatever its digits.
fn family_of_code(word: &str) -> String {
    if word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return word.len().to_string();
    }
    let part = |part: &str| {
        if part.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            part.to_owned() + "-"
        } else {
            shape(part)
        }
    };
    word.split(['-', '_', '.']).map(part).collect()
}

/// Returns the form of `word`: the classes of its characters, in order. A form that few identifiers of a history
/// have is rare, whatever their text.
pub(super) fn form(word: &str, kind: IdentifierKind) -> String {
    match kind {
        IdentifierKind::Code | IdentifierKind::Hash => shape_of_pieces(word),
        IdentifierKind::Assignment | IdentifierKind::Number => shape(word),
        IdentifierKind::Location => {
            let scheme = word.split_once("://").map_or("", |(scheme, _)| scheme);
            let mark = if word.contains('@') { "@" } else { "" };
            [scheme, "://", mark].concat()
        }
    }
}

/// Returns the shape of a word in which each piece of hexadecimal with letters and digits counts as one character.
fn shape_of_pieces(word: &str) -> String {
    let is_punctuation = |it: char| !it.is_ascii_alphanumeric();
    let mut shapes = String::new();
    for piece in word.split_inclusive(is_punctuation) {
        let (letters, mark) = piece.split_at(piece.trim_end_matches(is_punctuation).len());
        let has = |is: fn(&u8) -> bool| letters.bytes().any(|byte| is(&byte));
        let is_hex = letters.len() >= MIN_HEX_PIECE
            && letters.bytes().all(|byte| byte.is_ascii_hexdigit())
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_alphabetic);
        if is_hex {
            shapes.push('h');
        } else {
            shapes += &shape(letters);
        }
        shapes += mark;
    }
    shapes
}

/// Returns the sequence of character classes, without run lengths.
fn shape(word: &str) -> String {
    let class = |it: char| match it {
        '0'..='9' => '9',
        'a'..='z' => 'a',
        'A'..='Z' => 'A',
        other => other,
    };
    let mut classes: Vec<char> = word.chars().map(class).collect();
    classes.dedup();
    classes.into_iter().collect()
}

/// Returns the number of characters that cannot be guessed or derived: the digits of the value.
/// Names can be guessed, or found again where they are used. `GH_TOKEN` is such a name, and
/// `retries=5` almost one.
pub(super) fn unguessable_chars(word: &str, kind: IdentifierKind) -> usize {
    let value = match kind {
        IdentifierKind::Assignment => {
            let parts = word.split_once(['=', ':']);
            parts.map_or(word, |(_, value)| value)
        }
        IdentifierKind::Hash => return word.len(),
        IdentifierKind::Code | IdentifierKind::Location | IdentifierKind::Number => word,
    };
    value.bytes().filter(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_of_one_form_share_the_form() {
        let alike = [
            (IdentifierKind::Code, vec!["TK_ID", "ABC_DEFG"]),
            (IdentifierKind::Code, vec!["PROJ-118", "QX-9"]),
            (IdentifierKind::Hash, vec!["a3314f2", "7b9e65d"]),
            (IdentifierKind::Location, vec!["https://a.example/x", "https://b.example"]),
        ];
        for (kind, words) in alike {
            let forms: HashSet<String> = words.iter().map(|word| form(word, kind)).collect();
            assert_eq!(forms.len(), 1, "{words:?}");
        }
        let unlike = [
            (IdentifierKind::Code, vec!["TK_ID", "TK-ID", "TK_ID1", "a3314f"]),
            (IdentifierKind::Location, vec!["https://a.example", "s3://a", "me@a.example"]),
        ];
        for (kind, words) in unlike {
            let forms: HashSet<String> = words.iter().map(|word| form(word, kind)).collect();
            assert_eq!(forms.len(), words.len(), "{words:?}");
        }
    }

    #[test]
    fn similar_identifiers_share_a_family() {
        let one = |kind, words: &[&str]| {
            let first = family(words[0], kind);
            assert!(words.iter().all(|word| family(word, kind) == first), "{words:?}");
        };
        let each_its_own = |kind, words: &[&str]| {
            let families: HashSet<String> = words.iter().map(|word| family(word, kind)).collect();
            assert_eq!(families.len(), words.len(), "{words:?}");
        };
        one(IdentifierKind::Code, &["PROJ-118", "PROJ-7"]);
        one(IdentifierKind::Code, &["a882e6", "ae6354"]);
        each_its_own(IdentifierKind::Code, &["PROJ-118", "OPS-118", "PROJ-A118", "a882e6"]);
        one(IdentifierKind::Assignment, &["KEY=1", "KEY=other"]);
        each_its_own(IdentifierKind::Assignment, &["KEY=1", "OTHER=1"]);
        one(IdentifierKind::Hash, &["4f9c2ab", "deadbe1"]);
        each_its_own(IdentifierKind::Hash, &["4f9c2ab", "4f9c2ab1"]);
        one(
            IdentifierKind::Location,
            &["https://a.example/x", "http://a.example:80", "a.example:443"],
        );
        each_its_own(IdentifierKind::Location, &["https://a.example", "https://b.example"]);
        one(IdentifierKind::Number, &["1_1", "2_22"]);
    }

    #[test]
    fn unguessable_chars_count_digits_of_the_value_and_a_whole_hash() {
        assert_eq!(unguessable_chars("RETRIES_2=4711", IdentifierKind::Assignment), 4);
        assert_eq!(unguessable_chars("GH_TOKEN", IdentifierKind::Code), 0);
        assert_eq!(unguessable_chars("deadbee1", IdentifierKind::Hash), 8);
    }
}
