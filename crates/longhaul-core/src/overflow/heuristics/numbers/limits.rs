//! Limits that bound something other than the window: one request, the output, the parts of a cache.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::{MIN_LIMIT, Number, StatedSize, is_within, limit_below, numbers};
use crate::overflow::LimitKind;
use crate::overflow::heuristics::RefusedRequestSizes;
use crate::overflow::heuristics::statement::Statement;
use crate::overflow::vocabulary::{compile, matches, matches_around, parse};

/// Finds a limit on one request: the request that a statement describes is larger than the account may
/// send at once.
pub(in crate::overflow::heuristics) fn request_limit(
    statement: &Statement,
    sizes: &RefusedRequestSizes<'_>,
) -> Option<StatedSize> {
    let text = statement.text();
    let numbers = numbers(text);
    let is_asked = |one: &&Number| {
        let before = text.get(..one.start).unwrap_or_default();
        matches_around!("asked", "", ":? ?$", before)
    };
    let near = || {
        let is_near = |one: &&Number| is_within(one.value, sizes.facts.tokens, (1, 2), (3, 1));
        numbers.iter().filter(is_near).max_by_key(|one| one.value)
    };
    let asked = *numbers.iter().find(is_asked).or_else(near)?;
    let limit = limit_below(text, &numbers, asked)
        .filter(|_| matches("one-request", text) && !matches("allowance", text))?;
    Some(StatedSize {
        kind: LimitKind::Request,
        excess: u32::try_from(asked.value - limit.value).ok(),
        ..StatedSize::of_limit(limit)
    })
}

/// Returns the largest output that a statement about the output allows, if the `requested` one is larger.
pub(in crate::overflow::heuristics) fn output_cap(
    statement: &Statement,
    requested: u32,
    tokens: u32,
) -> Option<u32> {
    let text = statement.text();
    let numbers = numbers(text);
    let is_prompt = |one: &Number| is_within(one.value, tokens, (19, 20), (21, 20));
    let is_sum = matches("input", text) && numbers.iter().any(is_prompt);
    let below = numbers
        .iter()
        .map(|one| one.value)
        .filter(|one| *one < u64::from(requested));
    let cap = below
        .max()
        .filter(|cap| *cap > 1 && matches("output", text) && !is_sum)?;
    let cap = u32::try_from(cap).ok()?;
    // A range may end before its number.
    Some(cap - u32::from(matches("exclusive", text)))
}

/// Finds a statement that a request needs more pages or blocks of a cache than there are. The limit is
/// read where tokens state it, too.
pub(in crate::overflow::heuristics) fn cache_limit(
    statement: &Statement,
    tokens: u32,
) -> Option<StatedSize> {
    static COUNT: LazyLock<Regex> = LazyLock::new(|| compile(r"\b[0-9]{1,9}\b"));
    let text = statement.text();
    let counts = COUNT.find_iter(text.as_bytes());
    let counts: Vec<u64> = counts
        .filter_map(|one| parse(one.as_bytes()))
        .take(2)
        .collect();
    let [needed, available] = counts.as_slice() else {
        return None;
    };
    let in_tokens = |one: &&Number| {
        let rest = text.get(one.end..).unwrap_or_default();
        rest.trim_start().starts_with("token") && one.value < u64::from(tokens)
    };
    let numbers = numbers(text);
    let limit = numbers.iter().find(in_tokens);
    let limit = limit.filter(|one| one.value >= MIN_LIMIT);
    (needed > available && matches("cache-part", text))
        .then(|| limit.map_or_else(StatedSize::default, |one| StatedSize::of_limit(*one)))
}
