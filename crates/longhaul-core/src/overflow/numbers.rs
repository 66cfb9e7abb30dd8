//! Extracts the token counts of an overflow.

use regex::bytes::{Captures, Regex};

use crate::overflow::error_details::ErrorDetails;
use crate::overflow::rules::ClassifierRules;
use crate::overflow::stated_size::StatedSize;
use crate::overflow::vocabulary::parse;

/// Extracts the counts by the first matching row of the table, or from llama.cpp's fields if no row
/// matches.
pub(super) fn stated(details: &ErrorDetails, rules: &ClassifierRules) -> StatedSize {
    let found = rules.count_patterns().find_map(|pattern| {
        details.texts.iter().find_map(|text| {
            pattern.captures(text).map(|found| counts_from_captures(&found, rules))
        })
    });
    found.unwrap_or_else(|| StatedSize {
        limit: details.context_tokens,
        input: details.prompt_tokens,
        ..StatedSize::default()
    })
}

/// Reads the counts that a pattern captures.
///
/// vLLM stops counting one token past the accepted size. An input of exactly that size is therefore a lower
/// bound of the prompt, whatever the wording.
fn counts_from_captures(found: &Captures<'_>, rules: &ClassifierRules) -> StatedSize {
    let group = |name: &str| parse::<u32>(found.name(name)?.as_bytes());
    let parts = found.name("parts").map(|parts| parts.as_bytes());
    let parts = parts.unwrap_or_default();
    let output = group("output").or_else(|| sum_matches(&rules.compiled().output_parts, parts));
    let (limit, total) = (group("limit"), group("total"));
    let input = group("input").or_else(|| total?.checked_sub(output?));
    let past_accepted = || limit?.checked_sub(output?)?.checked_add(1);
    let is_lower_bound = found.name("floor").is_some() || input == past_accepted();
    let excess = group("excess").or_else(|| total?.checked_sub(limit?));
    StatedSize {
        limit,
        input: input.filter(|_| !is_lower_bound),
        output,
        excess: excess.filter(|_| input.is_none()),
        ..StatedSize::default()
    }
}

/// Sums the numbers that the patterns find in an enumeration of parts. Returns `None` without a match.
fn sum_matches(patterns: &[Regex], parts: &[u8]) -> Option<u32> {
    let found = patterns.iter().flat_map(|pattern| pattern.captures_iter(parts));
    found.filter_map(|found| parse(found.get(1)?.as_bytes())).reduce(u32::saturating_add)
}
