//! Finds the size of the prompt and the limit among the numbers of a statement.

mod limits;

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::LimitKind;
use crate::overflow::heuristics::RefusedRequestSizes;
use crate::overflow::heuristics::statement::Statement;
use crate::overflow::heuristics::words;
use crate::overflow::vocabulary::{compile, matches, matches_around, parse};

pub(super) use limits::{cache_limit, output_cap, request_limit};

/// Smallest limit in tokens. Smaller numbers are counts of something else.
const MIN_LIMIT: u64 = 256;

/// Smallest request in tokens whose size cannot be met by chance.
const MIN_EXACT_TOKENS: u32 = 1_000;

/// Upper bound of the numbers that are read, without a unit.
const MAX_NUMBER: u64 = u64::MAX / 10_000_000;

/// Maximum numbers parsed per statement.
const MAX_NUMBERS: usize = 12;

/// Size that a refusal states, in tokens. For [`LimitKind::Characters`] the limit is converted by
/// longhaul's own counts of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StatedSize {
    pub(super) kind: LimitKind,
    pub(super) limit: Option<u32>,
    pub(super) input: Option<u32>,
    pub(super) output: Option<u32>,
    pub(super) excess: Option<u32>,
}

impl StatedSize {
    /// Creates the size of a prompt above a window.
    fn of_window(limit: Number, input: Number) -> Self {
        Self {
            input: input.tokens(),
            ..Self::of_limit(limit)
        }
    }

    fn of_limit(limit: Number) -> Self {
        Self {
            limit: limit.tokens(),
            ..Self::default()
        }
    }
}

/// A number in a statement.
#[derive(Clone, Copy, Debug)]
struct Number {
    value: u64,
    start: usize,
    end: usize,
    /// Whether a unit, such as `k`, shows that the writer rounded the number.
    is_rounded: bool,
}

impl Number {
    fn tokens(self) -> Option<u32> {
        u32::try_from(self.value).ok()
    }
}

/// Finds the number nearest to `size`, if `is_size` accepts the number, and a smaller limit.
fn size_and_limit(
    text: &str,
    numbers: &[Number],
    size: u64,
    is_size: impl Fn(&Number) -> bool,
) -> Option<(Number, Number)> {
    let input = nearest(numbers, size).filter(is_size)?;
    Some((input, limit_below(text, numbers, input)?))
}

/// Finds a number that is the request's size in characters to a twentieth, and a smaller limit.
pub(super) fn stated_characters(
    statement: &Statement,
    sizes: &RefusedRequestSizes<'_>,
) -> Option<StatedSize> {
    let text = statement.text();
    let numbers = numbers(text);
    if numbers.len() < 2 || text.contains("token") || matches("position", text) {
        return None;
    }
    let size = sizes.characters();
    let around = size / 20 * 19..=size / 20 * 21;
    let is_size = |one: &Number| size > 0 && around.contains(&one.value) && !is_output(text, one);
    let (_, limit) = size_and_limit(text, &numbers, size, is_size)?;
    characters(limit.value, sizes)
}

/// Finds two numbers, of which one is the request's size to a twentieth and another is a smaller limit.
/// Such a pair outweighs words about access, parameters and framing.
pub(super) fn exact_pair(
    statement: &Statement,
    sizes: &RefusedRequestSizes<'_>,
) -> Option<StatedSize> {
    let text = statement.text();
    let numbers = numbers(text);
    let tokens = sizes.facts.tokens;
    let is_size = |one: &Number| {
        tokens >= MIN_EXACT_TOKENS
            && is_within(one.value, tokens, (19, 20), (21, 20))
            && !is_in_characters(text, one)
            && !is_output(text, one)
    };
    let (input, limit) = size_and_limit(text, &numbers, u64::from(tokens), is_size)?;
    let is_stated = is_limit(text, &limit) || looks_like_window(&limit);
    // `seed must be at most 65536` is the range of a parameter.
    let is_range = text.contains("must be") || text.contains("should be");
    let is_compared = is_fraction(text, &input, &limit) || is_comparison(text) && !is_range;
    let is_about_size = words::name_prompt(text) || is_compared;
    let output = output_of(text, &numbers, input).filter(|output| is_sum(text, &input, output));
    (is_stated && is_about_size).then(|| StatedSize {
        output: output.and_then(Number::tokens),
        ..StatedSize::of_window(limit, input)
    })
}

/// Whether a sentence has two numbers that may be sizes.
pub(super) fn states_two_sizes(sentence: &str) -> bool {
    let numbers = numbers(sentence);
    numbers.iter().filter(|one| one.value >= MIN_LIMIT).count() >= 2
}

/// Factor by which two counts of tokens have to be below the estimate to count something else. No
/// tokenizer differs as much.
const FAR_FACTOR: u64 = 8;
/// Difference of two counts up to which one may be a prompt that was counted no further than the limit.
const COUNTED_TO_LIMIT: u64 = 64;

/// Whether a stated limit and a larger count are too far below the estimate to count this request.
pub(super) fn is_other_text(limit: u64, count: u64, estimate: u32) -> bool {
    count.saturating_mul(FAR_FACTOR) < u64::from(estimate)
        && count.saturating_sub(limit) > COUNTED_TO_LIMIT
}

/// Whether a statement compares numbers, of which none is the request's size. The statement then counts
/// something else, unless it names tokens or a context and the numbers are near the request's size.
pub(super) fn counts_something_else(
    statement: &Statement,
    sizes: &RefusedRequestSizes<'_>,
) -> bool {
    let text = statement.text();
    let numbers = numbers(text);
    let around = |size: u64| size / 2..=size.saturating_mul(3);
    let is_size = |one: &Number| {
        around(u64::from(sizes.facts.tokens)).contains(&one.value)
            || around(sizes.characters()).contains(&one.value)
    };
    let is_far = || {
        let counts = numbers.iter().map(|one| one.value);
        let counts: Vec<u64> = counts.filter(|count| *count >= MIN_LIMIT).collect();
        let ends = counts.iter().min().zip(counts.iter().max());
        ends.is_some_and(|(least, most)| is_other_text(*least, *most, sizes.facts.tokens))
    };
    numbers.len() >= 2
        && is_comparison(text)
        && !numbers.iter().any(is_size)
        && (!words::name_tokens(text) || is_far())
}

/// Finds two numbers, of which one is the request's size and another is a smaller limit.
pub(super) fn stated_pair(
    statement: &Statement,
    sizes: &RefusedRequestSizes<'_>,
) -> Option<StatedSize> {
    let text = statement.text();
    let numbers = numbers(text);
    if counts_characters(text, &numbers, sizes) {
        let size = sizes.characters();
        let around = size / 2..=size.saturating_mul(2);
        let is_size = |one: &Number| around.contains(&one.value);
        let (_, limit) = size_and_limit(text, &numbers, size, is_size)?;
        return characters(limit.value, sizes);
    }
    let input = nearest(&numbers, u64::from(sizes.facts.tokens))?;
    let is_prompt = is_within(input.value, sizes.facts.tokens, (1, 2), (3, 1))
        && !is_output(text, &input)
        && words::name_prompt(text);
    if !is_prompt {
        return None;
    }
    if !is_comparison(text) {
        let is_near = is_within(input.value, sizes.facts.tokens, (2, 3), (3, 2));
        let limit =
            limit_below(text, &numbers, input).filter(|limit| is_near && looks_like_window(limit));
        return limit.map_or_else(
            || counted_by_other_tokenizer(text, &numbers, input, sizes),
            |limit| Some(StatedSize::of_window(limit, input)),
        );
    }
    if let Some(limit) = limit_below(text, &numbers, input) {
        return Some(StatedSize::of_window(limit, input));
    }
    let Some(output) = output_of(text, &numbers, input) else {
        return counted_by_other_tokenizer(text, &numbers, input, sizes);
    };
    // The prompt fits the limit, but not together with the output.
    let sum = input.value.saturating_add(output.value);
    let limit = numbers.iter().find(|limit| {
        limit.value >= input.value
            && limit.value < sum
            && limit.start != output.start
            && limit.start != input.start
            && is_limit(text, limit)
    })?;
    Some(StatedSize {
        output: output.tokens(),
        ..StatedSize::of_window(*limit, input)
    })
}

/// Finds the size of a prompt that the provider counts so much higher than longhaul that the limit is
/// the number `nearest` to longhaul's estimate.
fn counted_by_other_tokenizer(
    text: &str,
    numbers: &[Number],
    nearest: Number,
    sizes: &RefusedRequestSizes<'_>,
) -> Option<StatedSize> {
    let is_input = |one: &&Number| {
        one.value > nearest.value
            && is_within(one.value, sizes.facts.tokens, (1, 1), (3, 2))
            && !is_output(text, one)
    };
    let input = numbers.iter().find(is_input)?;
    looks_like_window(&nearest).then(|| StatedSize::of_window(nearest, *input))
}

/// Finds the only number in an overflow statement: the limit, or the size of the prompt.
pub(super) fn stated_single(
    statement: &Statement,
    sizes: &RefusedRequestSizes<'_>,
) -> Option<StatedSize> {
    let text = statement.text();
    let numbers = numbers(text);
    let large = |number: &&Number| number.value >= MIN_LIMIT;
    if let Some(limit) = numbers.iter().filter(large).find(|one| is_limit(text, one)) {
        if is_in_characters(text, limit) {
            return characters(limit.value, sizes);
        }
        return Some(StatedSize::of_limit(*limit));
    }
    let input = nearest(&numbers, u64::from(sizes.facts.tokens))?;
    let is_near = is_within(input.value, sizes.facts.tokens, (1, 2), (3, 1));
    (is_near && !is_in_characters(text, &input)).then(|| StatedSize {
        input: input.tokens(),
        ..StatedSize::default()
    })
}

/// Converts a limit in characters to estimated tokens. Returns `None` if the request's characters are
/// unknown.
fn characters(limit: u64, sizes: &RefusedRequestSizes<'_>) -> Option<StatedSize> {
    let tokens = limit
        .checked_mul(u64::from(sizes.facts.tokens))?
        .checked_div(sizes.characters())?;
    Some(StatedSize {
        kind: LimitKind::Characters,
        limit: u32::try_from(tokens).ok(),
        ..StatedSize::default()
    })
}

/// Whether a number has the unit of characters.
fn is_in_characters(text: &str, number: &Number) -> bool {
    let rest = text.get(number.end..).unwrap_or_default();
    matches_around!("unit-character", r"^ ?[^a-z0-9 ]{0,3}", "", rest)
}

/// Whether the numbers of a statement count characters, in either of two cases:
///
/// - A number has that unit.
/// - No word mentions tokens, and a number is the request's size in characters.
fn counts_characters(text: &str, numbers: &[Number], sizes: &RefusedRequestSizes<'_>) -> bool {
    if numbers.iter().any(|one| is_in_characters(text, one)) {
        return sizes.characters() > 0;
    }
    let may_count = !numbers.is_empty() && !text.contains("token") && is_comparison(text);
    may_count && {
        let characters = sizes.characters();
        let around = characters / 5 * 4..=characters / 4 * 5;
        characters > 0 && numbers.iter().any(|one| around.contains(&one.value))
    }
}

/// Whether the prompt and its limit are written as a fraction.
fn is_fraction(text: &str, input: &Number, limit: &Number) -> bool {
    let between = text.get(input.end..limit.start).unwrap_or_default();
    between.trim() == "/"
}

/// Whether the prompt and the output are written as a sum.
fn is_sum(text: &str, input: &Number, output: &Number) -> bool {
    let from = input.end.min(output.end);
    let to = input.start.max(output.start);
    let between = text.get(from..to).unwrap_or_default();
    matches_around!("sum", r"^[^0-9]{0,60}", r"[^0-9]{0,60}$", between)
}

fn is_comparison(text: &str) -> bool {
    matches("comparison", text)
}

/// Whether a number looks like a window: rounded by its writer, whole thousands, or a multiple of 256.
fn looks_like_window(number: &Number) -> bool {
    number.is_rounded || number.value.is_multiple_of(1_000) || number.value.is_multiple_of(256)
}

/// Whether words around a number mark a limit.
fn is_limit(text: &str, number: &Number) -> bool {
    let before = last_bytes(text.get(..number.start).unwrap_or_default(), 60);
    let after = text.get(number.end..).unwrap_or_default();
    matches_around!("limit-before", "", "[^0-9]{0,24}$", before)
        || matches_around!("limit-directly-before", "", " ?$", before)
        || matches_around!("limit-after", "^[^0-9.;]{0,16}", "", after)
}

/// Returns the largest number below the prompt that words call a limit, or else the largest that looks like
/// a window.
fn limit_below(text: &str, numbers: &[Number], input: Number) -> Option<Number> {
    let below = |one: &&Number| {
        one.value < input.value && one.value >= MIN_LIMIT && one.value >= input.value / 100
    };
    let candidates = || {
        numbers
            .iter()
            .filter(below)
            .filter(|one| !is_output(text, one))
    };
    let called = candidates().filter(|one| is_limit(text, one));
    let round = candidates().filter(|one| looks_like_window(one));
    called
        .max_by_key(|one| one.value)
        .or_else(|| round.max_by_key(|one| one.value))
        .copied()
}

/// Returns the number that words call the output.
fn output_of(text: &str, numbers: &[Number], input: Number) -> Option<Number> {
    let others = numbers.iter().filter(|one| one.start != input.start);
    others.copied().find(|one| is_output(text, one))
}

fn is_output(text: &str, number: &Number) -> bool {
    const AFTER: &str = "^ ?(tokens )?(in |for )?(the )?";
    const DIRECTLY_BEFORE: &str = "( length| size)?[^a-z0-9]{1,3}$";
    const BEFORE: &str = "( (tokens?|length|size|of|to|is|was|set))+ $";
    let before = last_bytes(text.get(..number.start).unwrap_or_default(), 40);
    let after = text.get(number.end..).unwrap_or_default();
    matches_around!("output-count", AFTER, "", after)
        || matches_around!("output-count", "", DIRECTLY_BEFORE, before)
        || matches_around!("output-count", "(^|[^0-9 ] )", BEFORE, before)
}

/// Returns the whole characters among the last bytes of a text.
fn last_bytes(text: &str, bytes: usize) -> &[u8] {
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    text.get(from..).unwrap_or_default().as_bytes()
}

/// Returns the number nearest to `size` by ratio.
fn nearest(numbers: &[Number], size: u64) -> Option<Number> {
    let distance = |one: &&Number| {
        let (small, large) = (one.value.min(size), one.value.max(size));
        large
            .saturating_mul(1_000)
            .checked_div(small)
            .unwrap_or(u64::MAX)
    };
    numbers.iter().min_by_key(distance).copied()
}

/// Whether a number lies between two fractions of a size.
fn is_within(number: u64, size: u32, least: (u64, u64), most: (u64, u64)) -> bool {
    let size = u64::from(size);
    number >= size * least.0 / least.1 && number <= size * most.0 / most.1 && size > 0
}

/// Units that multiply the number before them: thousand, million, and ten thousand.
const UNITS: &str = r" ?(?:[km]\b|ki\b|tsd|tausend|thousand|тыс(?:яч)?|mil\b|万|萬|만)";

fn is_thousand(unit: &[u8]) -> bool {
    let words = ["k", "tsd", "tausend", "thousand", "тыс", "тысяч", "mil"];
    words.iter().any(|word| word.as_bytes() == unit)
}

/// Reads the numbers of a text. Digits within a name or a version are ignored; units multiply
/// the number before them.
fn numbers(text: &str) -> Vec<Number> {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        compile(
            &r"(?P<whole>[0-9]+)(?:[.,](?P<fraction>[0-9]{1,3})(?P<decimal>UNITS)|(?P<unit>UNITS|b\b))?"
                .replace("UNITS", UNITS),
        )
    });
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    for captures in PATTERN.captures_iter(bytes) {
        let Some(whole) = captures.name("whole") else {
            continue;
        };
        let before = whole.start().checked_sub(1);
        let before = before.and_then(|before| bytes.get(before));
        let in_name = before
            .is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'.' | b'_'));
        let digits = |name: &str| parse::<u64>(captures.name(name)?.as_bytes());
        // `131072 máximo` has no unit: the pattern's boundaries are those of ASCII.
        let ends_word = |end: usize| {
            let rest = text.get(end..).unwrap_or_default();
            !rest.starts_with(|next: char| !next.is_ascii() && next.is_alphabetic())
        };
        let unit = captures
            .name("unit")
            .or_else(|| captures.name("decimal"))
            .filter(|unit| !unit.as_bytes().is_ascii() || ends_word(unit.end()));
        let factor = match unit.map(|unit| unit.as_bytes().trim_ascii()) {
            Some(unit) if is_thousand(unit) => 1_000,
            Some(b"ki") => 1_024,
            Some(b"m") => 1_000_000,
            // The size of a model.
            Some(b"b") => 0,
            Some(_) => 10_000,
            None => 1,
        };
        let fraction = captures
            .name("fraction")
            .map_or(0, |fraction| fraction.len());
        let scale = 10_u64.pow(u32::try_from(fraction).unwrap_or_default());
        let fraction = digits("fraction").unwrap_or_default() * factor / scale;
        let end = unit.map_or_else(|| whole.end(), |unit| unit.end());
        let rest = bytes.get(end..).unwrap_or_default();
        let is_other = matches_around!("other-unit", "^ ?", "", rest);
        let is_read = |value: &u64| !in_name && !is_other && *value < MAX_NUMBER;
        if let Some(value) = digits("whole").filter(is_read) {
            found.push(Number {
                value: value * factor + fraction,
                start: whole.start(),
                end,
                is_rounded: unit.is_some(),
            });
        }
        if found.len() == MAX_NUMBERS {
            break;
        }
    }
    found
}
