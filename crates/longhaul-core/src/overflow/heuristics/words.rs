//! Finds words for a prompt near words for too much, by the lists in `heuristics.tsv`.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::heuristics::statement::Statement;
use crate::overflow::vocabulary::{Row, compile, heuristics, matches};

/// Maximum distance between the two words in bytes. Asian letters take three.
const MAX_DISTANCE: usize = 90;

/// Whether a statement describes a prompt that is too large.
pub(super) fn name_overflow(statement: &Statement) -> bool {
    statement.sentences().any(sentence_names_overflow)
}

/// Whether a sentence describes a prompt that is too large.
pub(super) fn sentence_names_overflow(sentence: &str) -> bool {
    static PATTERNS: LazyLock<Vec<Regex>> =
        LazyLock::new(|| heuristics("prompt").filter_map(near).collect());
    let mut patterns = PATTERNS.iter();
    let found = patterns.find_map(|pattern| pattern.find(sentence.as_bytes()));
    found.is_some_and(|found| !matches("other-count", found.as_bytes()))
        || matches("limit-alone", sentence)
}

/// Whether a text names a prompt, its parts or its measure.
pub(super) fn name_prompt(text: &str) -> bool {
    matches("prompt", text) || matches("measure", text)
}

/// Whether a text names tokens or a context.
pub(super) fn name_tokens(text: &str) -> bool {
    matches("token", text) || matches("window", text)
}

/// Whether a statement names the window, rather than a prompt or tokens.
pub(super) fn name_window(statement: &Statement) -> bool {
    matches("window", statement.text())
}

/// Compiles the words for a prompt with those for too much of the same language: either word first.
fn near(prompt: Row) -> Option<Regex> {
    let excess = heuristics("excess").filter(|row| row.language == prompt.language);
    let excess: Vec<&str> = excess.map(|row| row.pattern).collect();
    let (prompt, excess) = (prompt.pattern, excess.join("|"));
    let between = format!("(?s-u:.){{0,{MAX_DISTANCE}}}?");
    let pattern = compile(&format!(
        "(?:{prompt}){between}(?:{excess})|(?:{excess}){between}(?:{prompt})"
    ));
    debug_assert!(pattern.is_ok(), "{pattern:?}");
    pattern.ok()
}
