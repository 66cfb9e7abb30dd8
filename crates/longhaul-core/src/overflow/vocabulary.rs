//! Words and patterns of the files in `data`, which people extend without Rust. The head of each file explains
//! its columns and its lists.
//!
//! A test rejects a malformed row. At run time, such a row counts nowhere, and an invalid pattern disables its list.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{LazyLock, OnceLock};

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

pub(super) const WORDINGS: &str = include_str!("data/wordings.tsv");
/// Patterns by which other wordings are assessed.
pub(super) const HEURISTICS: &str = include_str!("data/heuristics.tsv");
pub(super) const WORDS: &str = include_str!("data/words.tsv");

/// Maximum compiled size of a pattern, and of a list of patterns, in bytes.
const MAX_COMPILED_BYTES: usize = 16 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) list: &'static str,
    pub(super) language: &'static str,
    /// Pattern, code, or words separated by spaces.
    pub(super) pattern: &'static str,
}

pub(super) fn rows(file: &'static str) -> impl Iterator<Item = Row> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut cells = line.split('\t');
        Some(Row { list: cells.next()?, language: cells.next()?, pattern: cells.next()? })
    })
}

pub(super) fn heuristics(list: &str) -> impl Iterator<Item = Row> {
    rows(HEURISTICS).filter(move |row| row.list == list)
}

pub(super) fn listed(list: &str) -> impl Iterator<Item = &'static str> {
    static LISTS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
        let mut lists = HashMap::<_, Vec<_>>::new();
        for row in rows(WORDS) {
            let words = lists.entry(row.list).or_default();
            words.extend(row.pattern.split(' '));
        }
        lists
    });
    let words = LISTS.get(list);
    debug_assert!(words.is_some(), "no list {list}");
    words.into_iter().flatten().copied()
}

pub(super) fn is_listed(list: &str, word: &str) -> bool {
    listed(list).any(|one| one == word)
}

/// Whether a pattern of a list of heuristics matches `text`. The list is compiled at its first use.
pub(super) fn matches(list: &str, text: impl AsRef<[u8]>) -> bool {
    static LISTS: LazyLock<HashMap<&str, OnceLock<RegexSet>>> = LazyLock::new(|| {
        let lists = rows(HEURISTICS).map(|row| (row.list, OnceLock::new()));
        lists.collect()
    });
    let set = LISTS.get(list);
    debug_assert!(set.is_some(), "no list {list}");
    set.is_some_and(|set| {
        let set = set.get_or_init(|| matcher_around(list, "", ""));
        set.is_match(text.as_ref())
    })
}

/// Compiles the patterns of a list of heuristics, each between two other patterns.
pub(super) fn matcher_around(list: &str, before: &str, after: &str) -> RegexSet {
    let patterns = heuristics(list).map(|row| format!("{before}(?:{}){after}", row.pattern));
    let patterns = patterns.map(|pattern| ascii_classes(&pattern));
    let mut builder = RegexSetBuilder::new(patterns);
    let set = builder.size_limit(MAX_COMPILED_BYTES).build();
    debug_assert!(set.is_ok(), "{list}: {set:?}");
    set.unwrap_or_default()
}

/// Whether a pattern of a list of heuristics matches a text, between the patterns `$before` and `$after`.
macro_rules! matches_around {
    ($list:literal, $before:expr, $after:expr, $text:expr) => {{
        static SET: LazyLock<regex::bytes::RegexSet> =
            LazyLock::new(|| crate::overflow::vocabulary::matcher_around($list, $before, $after));
        let text: &[u8] = $text.as_ref();
        SET.is_match(text)
    }};
}
pub(super) use matches_around;

pub(super) fn compile_row(pattern: &str) -> Result<Regex, regex::Error> {
    let mut builder = RegexBuilder::new(&ascii_classes(pattern));
    builder.size_limit(MAX_COMPILED_BYTES).build()
}

#[expect(clippy::expect_used, reason = "patterns are constants, and the tests compile each")]
pub(super) fn compile(pattern: &str) -> Regex {
    compile_row(pattern).expect("a valid pattern")
}

pub(super) fn parse<T: FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Restricts boundaries, digits and letters of words to ASCII. A Chinese letter is then not part of the
/// English word next to it.
fn ascii_classes(pattern: &str) -> String {
    pattern.replace(r"\b", r"(?-u:\b)").replace(r"\d", r"(?-u:\d)").replace(r"\w", r"(?-u:\w)")
}
