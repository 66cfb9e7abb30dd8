//! The definition of an identifier. This code serves only this benchmark, so that the product's
//! index and its measure cannot be tuned to each other.
//!
//! A word is a run of letters, digits and the marks `_ - . / : = @ ~ + % # ? &`, without leading or
//! trailing marks that belong to the sentence. A word is an identifier if it is
//!
//! - a URL: `://` with something on both sides;
//! - an assignment: `KEY=VALUE`, the key in capitals, digits and `_`;
//! - a path: parts joined by `/`, at least one with two letters or more;
//! - a dotted name: parts joined by `.`, each beginning with a letter or `_`, at least two with two
//!   characters or more (`server.rs`, `self.client`);
//! - a snake-case name: parts joined by `_`, at least two of them not empty;
//! - a camel-case name: a lower-case letter directly before a capital, and only letters and digits;
//! - a hexadecimal id: seven digits or more, both letters and figures;
//! - a number of four digits or more;
//! - a code: parts joined by `-`, one with a figure and another with a letter (`PROJ-118`).
//!
//! A word longer than 200 bytes is data, not an identifier. `path:12:3` counts as the path.
//! `key=value` and `a:b` in lower case count as their two sides, each separately.

/// Maximum length in bytes; a longer word is data.
const LONGEST: usize = 200;
/// Characters at which a word is split if it is not an identifier as a whole.
const SEAMS: [char; 7] = [':', '=', '@', '~', '#', '?', '&'];

/// Calls `found` for every occurrence of an identifier in `text`.
pub(crate) fn each<'t>(text: &'t str, found: &mut impl FnMut(&'t str)) {
    let marks = |c: char| "_-./:=@~+%#?&".contains(c);
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && !marks(c)) {
        let word = word
            .trim_start_matches(|c: char| !c.is_ascii_alphanumeric() && !"/._~".contains(c))
            .trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if word.len() > LONGEST {
            continue;
        }
        if is_url(word) || is_assignment(word) {
            found(word);
            continue;
        }
        for part in word.split(SEAMS) {
            let part = part.trim_end_matches(['.', '-', '+', '%', '/']);
            if is_identifier(part) {
                found(part);
            }
        }
    }
}

fn is_url(word: &str) -> bool {
    let parts = word.split_once("://");
    parts.is_some_and(|(scheme, rest)| {
        scheme.len() > 1 && is_all(scheme, |b| b.is_ascii_alphabetic()) && rest.len() > 2
    })
}

fn is_assignment(word: &str) -> bool {
    let parts = word.split_once('=');
    parts.is_some_and(|(key, value)| {
        let capital = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        key.len() > 1
            && key.starts_with(|c: char| c.is_ascii_uppercase())
            && is_all(key, capital)
            && !value.is_empty()
    })
}

fn is_identifier(word: &str) -> bool {
    is_path(word)
        || is_dotted(word)
        || is_snake(word)
        || is_camel(word)
        || is_hexadecimal(word)
        || (word.len() >= 4 && is_all(word, |b| b.is_ascii_digit()))
        || is_code(word)
}

fn is_path(word: &str) -> bool {
    let letters = |part: &str| part.bytes().filter(u8::is_ascii_alphabetic).count();
    word.contains('/') && !word.contains("//") && word.split('/').any(|part| letters(part) > 1)
}

fn is_dotted(word: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && is_all(part, |b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let word = word.trim_start_matches('.');
    let long = word.split('.').filter(|part| part.len() > 1).count();
    word.contains('.') && word.split('.').all(part) && long > 1
}

fn is_snake(word: &str) -> bool {
    let name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    is_all(word, name)
        && word.contains(|c: char| c.is_ascii_alphabetic())
        && word.split('_').filter(|part| !part.is_empty()).count() > 1
}

fn is_camel(word: &str) -> bool {
    let humps = word.as_bytes().windows(2).any(|pair| match pair {
        [one, next] => one.is_ascii_lowercase() && next.is_ascii_uppercase(),
        _ => false,
    });
    humps && is_all(word, |b| b.is_ascii_alphanumeric())
}

fn is_hexadecimal(word: &str) -> bool {
    word.len() >= 7
        && is_all(word, |b| b.is_ascii_hexdigit())
        && word.contains(|c: char| c.is_ascii_digit())
        && word.contains(|c: char| c.is_ascii_alphabetic())
}

fn is_code(word: &str) -> bool {
    let figure = |part: &str| part.contains(|c: char| c.is_ascii_digit());
    let letter = |part: &str| part.contains(|c: char| c.is_ascii_alphabetic());
    word.contains('-')
        && is_all(word, |b| b.is_ascii_alphanumeric() || b == b'-')
        && word.split('-').any(figure)
        && word.split('-').any(letter)
}

fn is_all(text: &str, is: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(is)
}
