//! Classifies a word as a kind of identifier by its characters alone.

pub(super) mod forms;

use forms::{is_network, is_time};

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum IdentifierKind {
    /// `KEY=VALUE`, or `name: 5`.
    Assignment,
    /// Letters and digits, or joined words in capitals: a ticket, an error, a key, a path with a number.
    Code,
    /// Hexadecimal: a commit, a digest, a UUID.
    Hash,
    /// An address: a URL, a host with its port, a mail address.
    Location,
    /// A bare number, kept only if a cue word introduces it.
    Number,
}

/// File extensions, a line each. A dotted word with one of them is a file rather than a member access.
const FILE_EXTENSIONS: &str = include_str!("kind/file_extensions.txt");

pub(super) const MIN_LEN: usize = 3;
/// Minimum number of digits of a path that is listed.
const MIN_PATH_DIGITS: usize = 3;
/// Minimum length of hexadecimal digits that count as a digest rather than a number or a word.
const MIN_HASH_LEN: usize = 7;

/// Classifies `word`. Returns `None` for an ordinary word.
pub(super) fn classify(word: &str) -> Option<IdentifierKind> {
    if word.len() < MIN_LEN {
        return None;
    }
    let census = CharCounts::from_word(word);
    if census.letters() + census.digits < MIN_LEN {
        return None;
    }
    if census.slashes > 0 {
        if is_network(&census) {
            return Some(IdentifierKind::Location);
        }
        return (is_path(word, &census) && has_number(&census)).then_some(IdentifierKind::Code);
    }
    if census.others > 0 && word.contains('\\') {
        return None;
    }
    if census.others > 0 && word.contains('@') {
        let mail =
            word.split_once('@').is_some_and(|(who, host)| !who.is_empty() && host.contains('.'));
        return mail.then_some(IdentifierKind::Location);
    }
    if census.letters() == 0 {
        return classify_numeric(word, &census);
    }
    if is_hash(word, &census) {
        return Some(IdentifierKind::Hash);
    }
    if census.dots > 0 && has_file_extension(word) {
        return has_number(&census).then_some(IdentifierKind::Code);
    }
    if census.others > 0 {
        return None;
    }
    // `parse_body` is a name, and names stand where they are used.
    let is_constant = census.lower == 0 && census.dots == 0 && census.joiners > 0;
    let is_code = if census.digits > 0 { is_code(word, &census) } else { is_constant };
    is_code.then_some(IdentifierKind::Code)
}

/// Whether a path has a number of its own, so that nobody can guess the path.
fn has_number(census: &CharCounts) -> bool {
    census.digits >= MIN_PATH_DIGITS
}

/// Whether a word of letters and digits is a code, rather than a name, a version or a quantity.
fn is_code(word: &str, census: &CharCounts) -> bool {
    let begins_with_digit =
        word.trim_start_matches('v').as_bytes().first().is_some_and(u8::is_ascii_digit);
    let is_version =
        begins_with_digit && census.letters() <= 4 && (census.dots > 0 || census.joiners == 0);
    // `55-line` is a quantity and a word.
    let is_counted = word.split_once('-').is_some_and(|(count, of)| {
        count.bytes().all(|byte| byte.is_ascii_digit())
            && of.bytes().all(|byte| byte.is_ascii_lowercase())
    });
    if is_version || is_counted || is_time(word) {
        return false;
    }
    let parts = word.split(['-', '_', '.']);
    let is_coded = parts.clone().any(|part| {
        let census = CharCounts::from_word(part);
        census.digits >= 2 || (census.digits > 0 && census.upper > 0 && census.lower == 0)
    });
    // `parse_2` and `utf8Decoder` are names; `violet-7731`, `QX9`, `XEWRD9` and `k3v9q` are codes.
    is_coded && humps(word) < 2 && parts.count() <= 6
}

fn classify_numeric(word: &str, census: &CharCounts) -> Option<IdentifierKind> {
    if census.others > 0 {
        return (word.starts_with('#') && census.digits + 1 == word.len())
            .then_some(IdentifierKind::Number);
    }
    match (census.dots, census.joiners) {
        (0, 0) => Some(IdentifierKind::Number),
        (3, 0) => Some(IdentifierKind::Location),
        // `741-755` is a line range, `2026-06-18` a date.
        (0, 1) if census.digits <= 10 => None,
        (0, 2) if census.digits == 8 => None,
        (0, _) if census.digits >= 5 => Some(IdentifierKind::Code),
        _ => None,
    }
}

fn is_hash(word: &str, census: &CharCounts) -> bool {
    if let Some(digits) = word.strip_prefix("0x") {
        return digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let one_case = census.lower == 0 || census.upper == 0;
    let plain = census.hex == word.len() && word.len() >= MIN_HASH_LEN && census.digits > 1;
    let grouped = word.len() == 36 && census.joiners == 4 && census.hex == 32;
    (plain && one_case) || grouped
}

fn is_path(word: &str, census: &CharCounts) -> bool {
    let bytes = word.as_bytes();
    let pairs = || bytes.iter().zip(bytes.iter().skip(1));
    let has_empty_part = || pairs().any(|pair| pair == (&b'/', &b'/'));
    if census.others > 2 || has_empty_part() || (census.others > 0 && word.contains('\\')) {
        return false;
    }
    let rooted = word.starts_with('/')
        || word.starts_with("~/")
        || word.starts_with("./")
        || word.starts_with("../");
    let scoped = word.starts_with('@');
    let ends = usize::from(word.starts_with('/')) + usize::from(word.ends_with('/'));
    let parts = (census.slashes + 1).saturating_sub(ends);
    let named = has_file_extension(word) || census.joiners > 0 || scoped;
    census.letters() >= 3 && parts >= 2 && (rooted || named || parts >= 3)
}

fn has_file_extension(word: &str) -> bool {
    word.rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && is_file_extension(ending))
}

fn is_file_extension(ending: &str) -> bool {
    FILE_EXTENSIONS.lines().any(|known| known == ending)
}

/// Returns the number of capitals after a small letter.
fn humps(word: &str) -> usize {
    let bytes = word.as_bytes();
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    pairs.filter(|(before, byte)| before.is_ascii_lowercase() && byte.is_ascii_uppercase()).count()
}

/// Numbers of the characters of a word, by class.
#[derive(Default)]
struct CharCounts {
    digits: usize,
    lower: usize,
    upper: usize,
    hex: usize,
    dots: usize,
    slashes: usize,
    joiners: usize,
    others: usize,
}

impl CharCounts {
    fn from_word(word: &str) -> Self {
        let mut counts = Self::default();
        for byte in word.bytes() {
            *match byte {
                b'0'..=b'9' => &mut counts.digits,
                b'a'..=b'z' => &mut counts.lower,
                b'A'..=b'Z' => &mut counts.upper,
                b'.' => &mut counts.dots,
                b'/' => &mut counts.slashes,
                b'-' | b'_' => &mut counts.joiners,
                _ => &mut counts.others,
            } += 1;
            counts.hex += usize::from(byte.is_ascii_hexdigit());
        }
        counts
    }

    fn letters(&self) -> usize {
        self.lower + self.upper
    }
}

#[cfg(test)]
mod tests;
