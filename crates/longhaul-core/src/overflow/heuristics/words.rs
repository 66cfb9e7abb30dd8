//! Finds words for a prompt near words for too much, and vetoes, by the lists in `heuristics.tsv`.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::heuristics::statement::Statement;
use crate::overflow::stated_size::StatedSize;
use crate::overflow::vocabulary::{Row, compile_row, heuristics, matches};

/// Maximum distance between the two words in bytes. Asian letters take three.
const MAX_DISTANCE: usize = 90;

/// Whether a sentence describes a prompt that is too large.
pub(super) fn sentence_names_overflow(sentence: &str) -> bool {
    static PATTERNS: LazyLock<Vec<Regex>> =
        LazyLock::new(|| heuristics("prompt").filter_map(near).collect());
    let mut patterns = PATTERNS.iter();
    let found = patterns.find_map(|pattern| pattern.find(sentence.as_bytes()));
    found.is_some_and(|found| !matches("other-count", found.as_bytes()))
        || matches("limit-alone", sentence)
}

pub(super) fn name_prompt(text: &str) -> bool {
    matches("prompt", text) || matches("measure", text)
}

pub(super) fn name_tokens(text: &str) -> bool {
    matches("token", text) || matches("window", text)
}

/// Whether a statement names the window, rather than a prompt or tokens.
pub(super) fn name_window(statement: &Statement) -> bool {
    matches("window", &statement.text)
}

/// Compiles the words for a prompt with those for too much of the same language: either word first.
fn near(prompt: Row) -> Option<Regex> {
    let excess = heuristics("excess").filter(|row| row.language == prompt.language);
    let excess: Vec<&str> = excess.map(|row| row.pattern).collect();
    let (prompt, excess) = (prompt.pattern, excess.join("|"));
    let between = format!("(?s-u:.){{0,{MAX_DISTANCE}}}?");
    let pattern = compile_row(&format!(
        "(?:{prompt}){between}(?:{excess})|(?:{excess}){between}(?:{prompt})"
    ));
    debug_assert!(pattern.is_ok(), "{pattern:?}");
    pattern.ok()
}

/// Statuses, outer or inside a body, that no evidence outweighs: payment, throttling, overload, time,
/// storage, the path, the method, or the framing.
pub(super) fn is_final_status(status: u16) -> bool {
    matches!(
        status,
        402 | 404..=406 | 408 | 410 | 411 | 414 | 415 | 425 | 426 | 429 | 431 | 507 | 529
    )
}

/// Whether a statement is about throttling, overload or money.
pub(super) fn is_final(statement: &Statement) -> bool {
    statement.sentences().any(|one| matches("final", one))
}

/// Whether a statement is about something other than the window. `measured` is the size of the request
/// with a smaller limit, if the refusal states both.
pub(super) fn is_vetoed(statement: &Statement, measured: Option<StatedSize>) -> bool {
    let text = &statement.text;
    let is_measured = measured.is_some();
    // An output next to the two numbers is a part of the sum.
    let is_sum = measured.is_some_and(|stated| stated.output.is_some());
    let is_output = matches("output", text) && !matches("input", text) && !is_sum;
    let is_media = matches("media", text) && !matches("token", text) && !is_measured;
    let names_tools = |one: &str| matches("tool", one) && !matches("prompt-with-tools", one);
    is_output
        || is_media
        || is_final(statement)
        || statement.sentences().any(|one| {
            matches("veto", one)
                || (!is_measured && (matches("outweighed", one) || names_tools(one)))
        })
}
