//! What a word is an identifier of, told by its letters alone.

use std::hash::{DefaultHasher, Hash, Hasher};

/// What an identifier is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum IdentifierKind {
    /// `KEY=VALUE`.
    Assignment,
    /// Letters and digits, or words in capitals, joined: a ticket, an error, a key.
    Code,
    /// Hexadecimal: a commit, a digest, a UUID.
    Hash,
    /// Where something is reached: a URL, a host with its port, a mail address.
    Location,
    /// What source code calls something.
    Name,
    /// A bare number, worth keeping only where a word says what it numbers.
    Number,
    /// A file or a directory.
    Path,
    /// A version, or a quantity with its unit.
    Version,
}

/// Endings that make a dotted word a file rather than a member of something.
const FILE_EXTENSIONS: [&str; 56] = [
    "astro", "bash", "bat", "c", "cc", "cfg", "cjs", "conf", "cpp", "cs", "css", "csv", "db",
    "env", "ex", "go", "gz", "h", "hpp", "html", "ini", "ipynb", "java", "jpg", "js", "json",
    "jsonl", "jsx", "kt", "lock", "log", "lua", "md", "mdx", "mjs", "php", "png", "ps1", "py",
    "rb", "rs", "scss", "sh", "sql", "svelte", "svg", "swift", "toml", "ts", "tsx", "txt", "vue",
    "xml", "yaml", "yml", "zip",
];

/// The shortest word that is worth its place.
const MIN_LEN: usize = 3;
/// From here on a run of hexadecimal digits is a digest, and no number or word.
const MIN_HASH_LEN: usize = 7;

/// Letters, digits and marks of one word.
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
    humps: usize,
}

impl CharCounts {
    fn from_word(word: &str) -> Self {
        let mut census = Self::default();
        let mut before = 0_u8;
        for &byte in word.as_bytes() {
            census.hex += usize::from(byte.is_ascii_hexdigit());
            match byte {
                b'0'..=b'9' => census.digits += 1,
                b'a'..=b'z' => census.lower += 1,
                b'A'..=b'Z' => {
                    census.upper += 1;
                    census.humps += usize::from(before.is_ascii_lowercase());
                }
                b'.' => census.dots += 1,
                b'/' => census.slashes += 1,
                b'-' | b'_' => census.joiners += 1,
                _ => census.others += 1,
            }
            before = byte;
        }
        census
    }

    fn letters(&self) -> usize {
        self.lower + self.upper
    }
}

/// What `word` is; none if it is an ordinary word.
pub(super) fn classify(word: &str) -> Option<IdentifierKind> {
    if word.len() < MIN_LEN {
        return None;
    }
    let census = CharCounts::from_word(word);
    if census.letters() + census.digits < MIN_LEN {
        return None;
    }
    if census.slashes > 0 {
        return is_path(word, &census).then_some(IdentifierKind::Path);
    }
    if census.others > 0 && word.contains('\\') {
        return None;
    }
    if census.others > 0 && word.contains('@') {
        let mail = word
            .split_once('@')
            .is_some_and(|(who, host)| !who.is_empty() && host.contains('.'));
        return mail.then_some(IdentifierKind::Location);
    }
    if census.letters() == 0 {
        return classify_numeric(word, &census);
    }
    if is_hash(word, &census) {
        return Some(IdentifierKind::Hash);
    }
    if census.dots > 0 && has_file_extension(word) {
        return Some(IdentifierKind::Path);
    }
    if census.others > 0 {
        return None;
    }
    if census.digits > 0 {
        return Some(classify_alphanumeric(word, &census));
    }
    if census.dots > 0 {
        return (census.letters() > 5 && !word.starts_with('.')).then_some(IdentifierKind::Name);
    }
    if census.joiners > 0 {
        // One hyphen joins ordinary words, several make a name.
        let prose = !word.contains('_') && census.upper <= 1 && census.joiners < 2;
        return if census.lower == 0 {
            Some(IdentifierKind::Code)
        } else {
            (!prose).then_some(IdentifierKind::Name)
        };
    }
    if census.lower == 0 && census.upper > 4 {
        return Some(IdentifierKind::Name);
    }
    (census.humps > 0).then_some(IdentifierKind::Name)
}

/// A word of letters and digits.
fn classify_alphanumeric(word: &str, census: &CharCounts) -> IdentifierKind {
    let begins_with_digit = word
        .trim_start_matches('v')
        .as_bytes()
        .first()
        .is_some_and(u8::is_ascii_digit);
    if begins_with_digit && census.letters() <= 4 && (census.dots > 0 || census.joiners == 0) {
        return IdentifierKind::Version;
    }
    // `55-line` is a figure and a word.
    let counted = word.split_once('-').is_some_and(|(count, of)| {
        count.bytes().all(|byte| byte.is_ascii_digit())
            && of.bytes().all(|byte| byte.is_ascii_lowercase())
    });
    if counted {
        return IdentifierKind::Version;
    }
    let parts = word.split(['-', '_', '.']);
    let coded = parts.clone().any(|part| {
        let census = CharCounts::from_word(part);
        census.digits >= 2 || (census.digits > 0 && census.upper > 0 && census.lower == 0)
    });
    // `parse_2` and `utf8Decoder` are names; `violet-7731`, `QX9`, `XEWRD9` and `k3v9q` are codes.
    if coded && census.humps < 2 && parts.count() <= 6 {
        IdentifierKind::Code
    } else {
        IdentifierKind::Name
    }
}

fn classify_numeric(word: &str, census: &CharCounts) -> Option<IdentifierKind> {
    if census.others > 0 {
        return (word.starts_with('#') && census.digits + 1 == word.len())
            .then_some(IdentifierKind::Number);
    }
    match (census.dots, census.joiners) {
        (0, 0) => Some(IdentifierKind::Number),
        (1, 0) => None,
        (3, 0) => Some(IdentifierKind::Location),
        (_, 0) => Some(IdentifierKind::Version),
        // `741-755` are lines, `2026-06-18` is a day.
        (0, 1) if census.digits <= 10 => None,
        (0, 2) if census.digits == 8 => Some(IdentifierKind::Version),
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
    if census.others > 2 || word.contains("//") || word.contains('\\') {
        return false;
    }
    let rooted = word.starts_with('/')
        || word.starts_with("~/")
        || word.starts_with("./")
        || word.starts_with("../");
    let scoped = word.starts_with('@');
    let parts = word.split('/').filter(|part| !part.is_empty()).count();
    let named = has_file_extension(word) || census.joiners > 0 || scoped;
    census.letters() >= 3 && parts >= 2 && (rooted || named || parts >= 3)
}

fn has_file_extension(word: &str) -> bool {
    word.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty() && FILE_EXTENSIONS.binary_search(&ending).is_ok()
    })
}

/// Whether `key` is spelt like the name of an environment variable.
pub(super) fn is_constant(key: &[u8]) -> bool {
    key.len() >= 2
        && key.first().is_some_and(u8::is_ascii_uppercase)
        && key
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// Whether `key` and `value` make a setting, rather than a line of source code.
pub(super) fn is_assignment(key: &str, value: &str) -> bool {
    let name = key.len() >= 2
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        && key
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    // A value that is a word of source code, or another comparison, says nothing to keep.
    name && !value.is_empty()
        && !value.contains('=')
        && (is_constant(key.as_bytes())
            || classify(value).is_some()
            || value.bytes().any(|byte| byte.is_ascii_digit()))
}

/// Whether a host and its port.
pub(super) fn is_endpoint(host: &str, port: &str) -> bool {
    let number = (2..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let name = host
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    let ending = host.rsplit_once('.').map(|(_, ending)| ending);
    // `main.rs:1204` is a line of a file.
    let known = host == "localhost"
        || host.matches('.').count() >= 2
        || (port.len() >= 4
            && ending.is_none_or(|ending| FILE_EXTENSIONS.binary_search(&ending).is_err()));
    number && name && known && host.len() > 1 && host.bytes().any(|byte| !byte.is_ascii_digit())
}

/// What an identifier has in common with others of its sort, as a number: many of one family in
/// one place are a listing, and none of them stands out.
pub(super) fn family_key(word: &str, kind: IdentifierKind) -> u64 {
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    match kind {
        IdentifierKind::Assignment => word
            .split_once('=')
            .map_or(word, |(key, _)| key)
            .hash(&mut hasher),
        IdentifierKind::Hash => word.len().hash(&mut hasher),
        IdentifierKind::Location => {
            let host = word.split_once("://").map_or(word, |(_, rest)| rest);
            host.split(['/', ':']).next().hash(&mut hasher);
        }
        IdentifierKind::Path => word
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
            .hash(&mut hasher),
        IdentifierKind::Code => hash_code(word, &mut hasher),
        IdentifierKind::Name | IdentifierKind::Number | IdentifierKind::Version => {
            hash_shape(word, &mut hasher)
        }
    }
    hasher.finish()
}

/// How many of its characters nobody can guess or work out: the figures of a value. Names can be
/// found again where they are used, or thought of; `GH_TOKEN` is one, and `retries=5` nearly.
pub(super) fn unguessable_chars(word: &str, kind: IdentifierKind) -> usize {
    let value = match kind {
        IdentifierKind::Assignment => word.split_once('=').map_or(word, |(_, value)| value),
        IdentifierKind::Hash => return word.len(),
        IdentifierKind::Code
        | IdentifierKind::Location
        | IdentifierKind::Name
        | IdentifierKind::Number
        | IdentifierKind::Path
        | IdentifierKind::Version => word,
    };
    value.bytes().filter(u8::is_ascii_digit).count()
}

/// The tree that a path from the root stands in: its first two folders. What lies in the tree that
/// is worked in can be found again by looking; what lies elsewhere has to be known.
pub(super) fn tree_key(word: &str, kind: IdentifierKind) -> Option<u64> {
    let inside = word
        .strip_prefix('/')
        .filter(|_| kind == IdentifierKind::Path)?;
    let (folders, _) = inside.rsplit_once('/')?;
    let mut hasher = DefaultHasher::new();
    "/".hash(&mut hasher);
    for folder in folders.split('/').take(2) {
        folder.hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// A code's words, and the shape of the rest: `PROJ-118` is one of the `PROJ-`s. Short hexadecimal is
/// one family, whatever figures and letters it happens to consist of.
fn hash_code(word: &str, hasher: &mut impl Hasher) {
    if word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return word.len().hash(hasher);
    }
    for part in word.split(['-', '_', '.']) {
        if part.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            part.hash(hasher);
        } else {
            hash_shape(part, hasher);
        }
    }
}

/// A word's shape: what kinds of characters follow each other, not how many of each.
fn hash_shape(word: &str, hasher: &mut impl Hasher) {
    let mut before = 0_u8;
    for &byte in word.as_bytes() {
        let class = match byte {
            b'0'..=b'9' => b'9',
            b'a'..=b'z' => b'a',
            b'A'..=b'Z' => b'A',
            other => other,
        };
        if class != before {
            hasher.write_u8(class);
        }
        before = class;
    }
}

#[cfg(test)]
mod tests;
