//! Extracts the token counts of an overflow, and checks by arithmetic whether it is one.

use regex::bytes::{Captures, Regex};

use crate::overflow::error_details::ErrorDetails;
use crate::overflow::rules::ClassifierRules;
use crate::overflow::vocabulary::parse;
use crate::overflow::{Overflow, Verdict};

/// Token counts as the reply states them.
#[derive(Clone, Copy, Debug, Default)]
struct StatedCounts {
    /// Size of the window.
    limit: Option<u32>,
    /// Size of the prompt.
    input: Option<u32>,
    /// Requested output.
    output: Option<u32>,
    /// Sum of prompt and requested output.
    total: Option<u32>,
    /// Tokens beyond the limit.
    excess: Option<u32>,
    /// Whether the wording makes `input` a lower bound.
    stated_lower_bound: bool,
}

/// Returns the verdict on a reply that names an overflow.
pub(super) fn verdict_from_counts(details: &ErrorDetails, rules: &ClassifierRules) -> Verdict {
    let counts = extract_counts(details, rules);
    let input = counts.input.filter(|_| !counts.is_lower_bound());
    if let (Some(limit), Some(output)) = (counts.limit, counts.output) {
        let fits_alone = input.is_some_and(|input| input < limit)
            && input
                .and_then(|input| input.checked_add(output))
                .is_none_or(|sum| sum > limit);
        // No history is short enough if the output alone fills the window.
        let output_alone = input.is_none() && output >= limit;
        if fits_alone || output_alone {
            return Verdict::OutputTooLarge {
                limit,
                input,
                output,
            };
        }
    }
    let totals = counts.total.zip(counts.limit);
    let over = totals.and_then(|(total, limit)| total.checked_sub(limit));
    let excess = counts.excess.or(over);
    Verdict::Overflow(Overflow {
        excess: excess.filter(|_| counts.input.is_none()),
        output: counts.output,
        ..Overflow::stated(counts.limit, input)
    })
}

impl StatedCounts {
    /// Whether `input` is only a lower bound of the prompt.
    ///
    /// vLLM stops counting one token past the accepted size. An input of exactly that size is
    /// therefore a lower bound, whatever the wording.
    fn is_lower_bound(&self) -> bool {
        let accepted = self
            .limit
            .zip(self.output)
            .and_then(|(all, out)| all.checked_sub(out));
        self.stated_lower_bound
            || (accepted.is_some() && accepted == self.input.and_then(|n| n.checked_sub(1)))
    }
}

/// Extracts the counts by the first matching row of the table, or from llama.cpp's fields if no row
/// matches.
fn extract_counts(details: &ErrorDetails, rules: &ClassifierRules) -> StatedCounts {
    let found = rules.count_patterns().find_map(|pattern| {
        details.texts.iter().find_map(|text| {
            pattern
                .captures(text)
                .map(|found| counts_from_captures(&found, rules))
        })
    });
    let fields = || StatedCounts {
        limit: details.context_tokens,
        input: details.prompt_tokens,
        ..StatedCounts::default()
    };
    found.unwrap_or_else(fields)
}

fn counts_from_captures(found: &Captures<'_>, rules: &ClassifierRules) -> StatedCounts {
    let group = |name: &str| parse(found.name(name)?.as_bytes());
    let total: Option<u32> = group("total");
    let parts = found
        .name("parts")
        .map(|parts| parts.as_bytes())
        .unwrap_or_default();
    let output = group("output").or_else(|| sum_matches(&rules.compiled().output_parts, parts));
    StatedCounts {
        limit: group("limit"),
        input: group("input").or_else(|| total?.checked_sub(output?)),
        output,
        total,
        excess: group("excess"),
        stated_lower_bound: found.name("floor").is_some(),
    }
}

/// Sums the numbers that the patterns find in an enumeration of parts. Returns `None` without a match.
fn sum_matches(patterns: &[Regex], parts: &[u8]) -> Option<u32> {
    let found = patterns
        .iter()
        .flat_map(|pattern| pattern.captures_iter(parts));
    found
        .filter_map(|found| parse(found.get(1)?.as_bytes()))
        .reduce(u32::saturating_add)
}
