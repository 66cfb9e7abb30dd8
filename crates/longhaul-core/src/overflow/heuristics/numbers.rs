//! Finds the size of the prompt and the limit among the numbers of a statement.

mod limits;

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::LimitKind;
use crate::overflow::heuristics::statement::Statement;
use crate::overflow::heuristics::{RequestSizes, words};
use crate::overflow::stated_size::StatedSize;
use crate::overflow::vocabulary::{compile, matches, matches_around, parse};

/// Smallest limit in tokens. Smaller numbers are counts of something else.
const MIN_LIMIT: u64 = 256;

/// Smallest request in tokens whose size cannot be met by chance.
const MIN_EXACT_TOKENS: u32 = 1_000;

/// Upper bound of the numbers that are read, without a unit.
const MAX_NUMBER: u64 = u64::MAX / 10_000_000;

/// Maximum numbers parsed per statement.
const MAX_NUMBERS: usize = 12;

impl StatedSize {
    /// Creates the size of a prompt above a window.
    fn of_window(limit: Number, input: Number) -> Self {
        Self { input: input.tokens(), ..Self::of_limit(limit) }
    }

    fn of_limit(limit: Number) -> Self {
        Self { limit: limit.tokens(), ..Self::default() }
    }

    /// Creates the limit of a request whose limit in characters is converted to estimated tokens. Returns
    /// `None` if the request's characters are unknown.
    fn of_characters(limit: Number, sizes: &RequestSizes<'_>) -> Option<Self> {
        let tokens = limit.value.checked_mul(sizes.tokens())?;
        let tokens = tokens.checked_div(sizes.characters())?;
        Some(Self {
            kind: LimitKind::Characters,
            limit: u32::try_from(tokens).ok(),
            input: Some(sizes.facts.tokens),
            ..Self::default()
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) value: u64,
    start: usize,
    end: usize,
    /// Whether a unit, such as `k`, shows that the writer rounded the number.
    is_rounded: bool,
}

impl Number {
    fn tokens(self) -> Option<u32> {
        u32::try_from(self.value).ok()
    }

    /// Whether a number looks like a window: rounded by its writer, whole thousands, or a multiple of 256.
    fn looks_like_window(&self) -> bool {
        self.is_rounded || self.value.is_multiple_of(1_000) || self.value.is_multiple_of(256)
    }
}

impl Statement {
    /// Finds a number that is the request's size in characters to a twentieth, and a smaller limit.
    pub(super) fn stated_characters(&self, sizes: &RequestSizes<'_>) -> Option<StatedSize> {
        if self.numbers.len() < 2 || matches("no-characters", &self.text) {
            return None;
        }
        let size = sizes.characters();
        let around = size / 20 * 19..=size / 20 * 21;
        let is_size =
            |one: &Number| size > 0 && around.contains(&one.value) && !self.is_output(one);
        let input = self.nearest(size).filter(is_size)?;
        StatedSize::of_characters(self.limit_below(input)?, sizes)
    }

    /// Finds two numbers, of which one is the request's size to a twentieth and another is a smaller limit.
    /// Such a pair outweighs words about access, parameters and framing.
    pub(super) fn exact_pair(&self, sizes: &RequestSizes<'_>) -> Option<StatedSize> {
        let text = &self.text;
        let is_size = |one: &Number| {
            sizes.facts.tokens >= MIN_EXACT_TOKENS
                && sizes.is_within(one, (19, 20), (21, 20))
                && !self.is_in_characters(one)
                && !self.is_output(one)
        };
        let input = self.nearest(sizes.tokens()).filter(is_size)?;
        let limit = self.limit_below(input)?;
        let is_stated = self.is_limit(&limit) || limit.looks_like_window();
        // `seed must be at most 65536` is the range of a parameter.
        let is_range = text.contains("must be") || text.contains("should be");
        let is_compared = self.is_fraction(&input, &limit) || self.is_comparison() && !is_range;
        let is_about_size = words::name_prompt(text) || is_compared;
        let output = self.output_of(input).filter(|one| self.is_sum(&input, one));
        (is_stated && is_about_size).then(|| StatedSize {
            output: output.and_then(Number::tokens),
            ..StatedSize::of_window(limit, input)
        })
    }

    /// Whether a statement compares numbers, of which none is the request's size. The statement then counts
    /// something else, unless it names tokens or a context and the numbers are near the request's size.
    pub(super) fn counts_something_else(&self, sizes: &RequestSizes<'_>) -> bool {
        let around = |size: u64| size / 2..=size.saturating_mul(3);
        let is_size = |one: &Number| {
            around(sizes.tokens()).contains(&one.value)
                || around(sizes.characters()).contains(&one.value)
        };
        let is_far = || {
            let counts = self.numbers.iter().map(|one| one.value);
            let counts: Vec<u64> = counts.filter(|count| *count >= MIN_LIMIT).collect();
            let ends = counts.iter().min().zip(counts.iter().max());
            ends.is_some_and(|(least, most)| is_other_text(*least, *most, sizes.facts.tokens))
        };
        self.numbers.len() >= 2
            && self.is_comparison()
            && !self.numbers.iter().any(is_size)
            && (!words::name_tokens(&self.text) || is_far())
    }

    /// Finds two numbers, of which one is the request's size and another is a smaller limit.
    pub(super) fn stated_pair(&self, sizes: &RequestSizes<'_>) -> Option<StatedSize> {
        if self.counts_characters(sizes) {
            let size = sizes.characters();
            let around = size / 2..=size.saturating_mul(2);
            let is_size = |one: &Number| around.contains(&one.value);
            let input = self.nearest(size).filter(is_size)?;
            return StatedSize::of_characters(self.limit_below(input)?, sizes);
        }
        let is_prompt = |one: &Number| sizes.is_like(one) && !self.is_output(one);
        let input = self.nearest(sizes.tokens()).filter(is_prompt)?;
        if !words::name_prompt(&self.text) {
            return None;
        }
        // Without a comparison, the numbers alone show which is the limit.
        let is_limit = |limit: &Number| {
            self.is_comparison()
                || limit.looks_like_window() && sizes.is_within(&input, (2, 3), (3, 2))
        };
        if let Some(limit) = self.limit_below(input).filter(is_limit) {
            return Some(StatedSize::of_window(limit, input));
        }
        let Some(output) = self.output_of(input).filter(|_| self.is_comparison()) else {
            return self.counted_by_other_tokenizer(input, sizes);
        };
        // The prompt fits the limit, but not together with the output.
        let sum = input.value.saturating_add(output.value);
        let limit = self.numbers.iter().find(|limit| {
            (input.value..sum).contains(&limit.value)
                && limit.start != output.start
                && limit.start != input.start
                && self.is_limit(limit)
        })?;
        Some(StatedSize { output: output.tokens(), ..StatedSize::of_window(*limit, input) })
    }

    /// Finds the size of a prompt that the provider counts so much higher than longhaul that the limit is
    /// the number `nearest` to longhaul's estimate.
    fn counted_by_other_tokenizer(
        &self,
        nearest: Number,
        sizes: &RequestSizes<'_>,
    ) -> Option<StatedSize> {
        let is_input = |one: &&Number| {
            one.value > nearest.value
                && sizes.is_within(one, (1, 1), (3, 2))
                && !self.is_output(one)
        };
        let input = self.numbers.iter().find(is_input)?;
        let is_limit = nearest.looks_like_window();
        is_limit.then(|| StatedSize::of_window(nearest, *input))
    }

    /// Finds the only number in an overflow statement: the limit, or the size of the prompt.
    pub(super) fn stated_single(&self, sizes: &RequestSizes<'_>) -> Option<StatedSize> {
        let mut large = self.numbers.iter().filter(|one| one.value >= MIN_LIMIT);
        if let Some(limit) = large.find(|one| self.is_limit(one)) {
            if self.is_in_characters(limit) {
                return StatedSize::of_characters(*limit, sizes);
            }
            return Some(StatedSize::of_limit(*limit));
        }
        let is_prompt = |one: &Number| sizes.is_like(one) && !self.is_in_characters(one);
        let input = self.nearest(sizes.tokens()).filter(is_prompt)?;
        Some(StatedSize { input: input.tokens(), ..StatedSize::default() })
    }

    fn is_in_characters(&self, number: &Number) -> bool {
        let rest = self.after(number);
        matches_around!("unit-character", r"^ ?[^a-z0-9 ]{0,3}", "", rest)
    }

    /// Whether the numbers of a statement count characters, in either of two cases:
    ///
    /// - A number has that unit.
    /// - No word mentions tokens, and a number is the request's size in characters.
    fn counts_characters(&self, sizes: &RequestSizes<'_>) -> bool {
        let mut numbers = self.numbers.iter();
        if numbers.any(|one| self.is_in_characters(one)) {
            return sizes.characters() > 0;
        }
        let numbers = &self.numbers;
        !numbers.is_empty() && !self.text.contains("token") && self.is_comparison() && {
            let characters = sizes.characters();
            let around = characters / 5 * 4..=characters / 4 * 5;
            characters > 0 && numbers.iter().any(|one| around.contains(&one.value))
        }
    }

    fn is_fraction(&self, input: &Number, limit: &Number) -> bool {
        let between = self.text.get(input.end..limit.start).unwrap_or_default();
        between.trim() == "/"
    }

    fn is_sum(&self, input: &Number, output: &Number) -> bool {
        let from = input.end.min(output.end);
        let to = input.start.max(output.start);
        let between = self.text.get(from..to).unwrap_or_default();
        matches_around!("sum", r"^[^0-9]{0,60}", r"[^0-9]{0,60}$", between)
    }

    fn is_comparison(&self) -> bool {
        matches("comparison", &self.text)
    }

    /// Whether words around a number mark a limit.
    fn is_limit(&self, number: &Number) -> bool {
        let (before, after) = (self.before(number, 60), self.after(number));
        matches_around!("limit-before", "", "[^0-9]{0,24}$", before)
            || matches_around!("limit-directly-before", "", " ?$", before)
            || matches_around!("limit-after", "^[^0-9.;]{0,16}", "", after)
    }

    /// Returns the largest number below the prompt that words call a limit, or else the largest that looks
    /// like a window.
    fn limit_below(&self, input: Number) -> Option<Number> {
        let least = MIN_LIMIT.max(input.value / 100);
        let below = |one: &&Number| one.value < input.value && one.value >= least;
        let candidates = self.numbers.iter().filter(below);
        let candidates = candidates.filter(|one| !self.is_output(one));
        let called = candidates.clone().filter(|one| self.is_limit(one));
        let round = candidates.filter(|one| one.looks_like_window());
        let limit = called.max_by_key(|one| one.value);
        limit.or_else(|| round.max_by_key(|one| one.value)).copied()
    }

    fn output_of(&self, input: Number) -> Option<Number> {
        let mut others = self.numbers.iter().filter(|one| one.start != input.start);
        others.find(|one| self.is_output(one)).copied()
    }

    fn is_output(&self, number: &Number) -> bool {
        const AFTER: &str = "^ ?(tokens )?(in |for )?(the )?";
        const DIRECTLY_BEFORE: &str = "( length| size)?[^a-z0-9]{1,3}$";
        const BEFORE: &str = "( (tokens?|length|size|of|to|is|was|set))+ $";
        let (before, after) = (self.before(number, 40), self.after(number));
        matches_around!("output-count", AFTER, "", after)
            || matches_around!("output-count", "", DIRECTLY_BEFORE, before)
            || matches_around!("output-count", "(^|[^0-9 ] )", BEFORE, before)
    }

    /// Returns the whole characters among the last `bytes` before a number.
    fn before(&self, number: &Number, bytes: usize) -> &str {
        let text = self.text.get(..number.start).unwrap_or_default();
        let from = text.ceil_char_boundary(text.len().saturating_sub(bytes));
        text.get(from..).unwrap_or_default()
    }

    fn after(&self, number: &Number) -> &str {
        self.text.get(number.end..).unwrap_or_default()
    }

    /// Returns the number nearest to `size` by ratio.
    fn nearest(&self, size: u64) -> Option<Number> {
        let distance = |one: &&Number| {
            let (small, large) = (one.value.min(size), one.value.max(size));
            let ratio = large.saturating_mul(1_000).checked_div(small);
            ratio.unwrap_or(u64::MAX)
        };
        self.numbers.iter().min_by_key(distance).copied()
    }
}

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

/// Units that multiply the number before them: thousand, million, and ten thousand.
const UNITS: &str = r" ?(?:[km]\b|ki\b|tsd|tausend|thousand|тыс(?:яч)?|mil\b|万|萬|만)";

fn is_thousand(unit: &[u8]) -> bool {
    let words = ["k", "tsd", "tausend", "thousand", "тыс", "тысяч", "mil"];
    words.iter().any(|word| word.as_bytes() == unit)
}

/// Reads the numbers of a text. Digits within a name or a version are ignored; units multiply
/// the number before them.
pub(super) fn numbers(text: &str) -> Vec<Number> {
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
        let fraction = captures.name("fraction").map_or(0, |fraction| fraction.len());
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
