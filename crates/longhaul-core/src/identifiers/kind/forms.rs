//! Forms of words with punctuation inside.

use super::{CharCounts, MIN_LEN, classify, has_file_extension, humps, is_file_extension};

/// Maximum length of the name of a setting.
const MAX_KEY_BYTES: usize = 40;

/// Whether a word is a range of addresses (`10.63.103.0/22`).
pub(super) fn is_network(census: &CharCounts) -> bool {
    census.letters() == 0 && census.dots == 3 && census.slashes == 1 && census.others == 0
}

/// Whether `name` and `tag` form the name of a container image (`tools/runner:2.7-slim`). A number after a path is
/// a line of a file.
pub(in crate::identifiers) fn is_image(name: &str, tag: &str) -> bool {
    let is_in_tag = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_in_name = |byte: u8| is_in_tag(byte) && !byte.is_ascii_uppercase() || byte == b'/';
    let is_number = |byte: u8| byte.is_ascii_digit();
    name.contains('/')
        && name.bytes().all(is_in_name)
        && !has_file_extension(name)
        && tag.bytes().all(is_in_tag)
        && tag.bytes().any(is_number)
        && !tag.bytes().all(is_number)
}

/// Whether `word` is a date followed by a time (`2026-06-18T10`).
pub(super) fn is_time(word: &str) -> bool {
    word.split_once('T').is_some_and(|(date, time)| {
        let is_date = |byte: u8| byte.is_ascii_digit() || byte == b'-';
        date.len() == 10
            && date.bytes().all(is_date)
            && time.starts_with(|first: char| first.is_ascii_digit())
    })
}

/// Whether `key` is spelt like the name of an environment variable.
pub(in crate::identifiers) fn is_constant(key: &str) -> bool {
    let is_inside = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
    key.len() >= 2
        && key.starts_with(|first: char| first.is_ascii_uppercase())
        && key.bytes().all(is_inside)
}

/// Whether `key` and `value` form a setting rather than a line of source code.
pub(in crate::identifiers) fn is_assignment(key: &str, value: &str) -> bool {
    let name = key.len() >= 2
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        && key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    // A value that is a source code word or another comparison is not worth keeping.
    name && !value.is_empty()
        && !value.contains('=')
        && (is_constant(key)
            || classify(value).is_some()
            || value.bytes().any(|byte| byte.is_ascii_digit()))
}

/// Whether `key` is a name of several words, as settings have: ordinary words are followed by a colon in prose too.
pub(in crate::identifiers) fn is_compound(key: &str) -> bool {
    let is_joiner = |byte: u8| matches!(byte, b'_' | b'.' | b'-');
    (MIN_LEN..=MAX_KEY_BYTES).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_joiner(byte))
        && key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && (key.bytes().any(is_joiner) || humps(key) > 0)
}

/// Whether `host` and `port` form a network address.
pub(in crate::identifiers) fn is_endpoint(host: &str, port: &str) -> bool {
    let is_number = (2..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    if !is_number || !host.bytes().all(is_in_name) {
        return false;
    }
    let ending = host.rsplit_once('.').map(|(_, ending)| ending);
    // `main.rs:1204` is a line in a file.
    let known = host == "localhost"
        || host.matches('.').count() >= 2
        || (port.len() >= 4 && !ending.is_some_and(is_file_extension));
    known && host.len() > 1 && host.bytes().any(|byte| !byte.is_ascii_digit())
}

/// Whether `run` is one identifier with colons inside: a URN, an ARN, an address of a device. Places in files
/// (`main.rs:12:5`) and times of day (`12:30:45`) are not.
pub(in crate::identifiers) fn is_joined_by_colons(run: &str) -> bool {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = || run.split(':');
    let is_part = |part: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !part.is_empty() && part.bytes().all(is_inner)
    };
    parts().all(is_part)
        && !parts().skip(1).all(is_number)
        && parts().count() > 2
        && run.bytes().filter(u8::is_ascii_digit).count() > 1
}
