//! Limits that bound something other than the window: one request, the output, the parts of a cache.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::{MIN_LIMIT, Number};
use crate::overflow::LimitKind;
use crate::overflow::heuristics::RequestSizes;
use crate::overflow::heuristics::statement::Statement;
use crate::overflow::stated_size::StatedSize;
use crate::overflow::vocabulary::{compile, matches, matches_around, parse};

impl Statement {
    /// Finds a limit on one request: the request that a statement describes is larger than the account may
    /// send at once.
    pub(in crate::overflow::heuristics) fn request_limit(
        &self,
        sizes: &RequestSizes<'_>,
    ) -> Option<StatedSize> {
        let is_asked = |one: &&Number| matches_around!("asked", "", ":? ?$", self.before(one, 60));
        let mut numbers = self.numbers.iter();
        let near = || {
            let near = self.numbers.iter().filter(|one| sizes.is_like(one));
            near.max_by_key(|one| one.value)
        };
        let asked = *numbers.find(is_asked).or_else(near)?;
        let limit = self.limit_below(asked)?;
        let is_other = ["allowance", "window"].map(|list| matches(list, &self.text));
        let is_one = matches("one-request", &self.text) && is_other == [false; 2];
        is_one.then(|| StatedSize {
            kind: LimitKind::Request,
            excess: u32::try_from(asked.value - limit.value).ok(),
            ..StatedSize::of_limit(limit)
        })
    }

    /// Returns the largest output that a statement about the output allows, if the `requested` one is larger.
    pub(in crate::overflow::heuristics) fn output_cap(
        &self,
        requested: u32,
        sizes: &RequestSizes<'_>,
    ) -> Option<u32> {
        let mut numbers = self.numbers.iter();
        let is_sum = matches("input", &self.text)
            && numbers.any(|one| sizes.is_within(one, (19, 20), (21, 20)));
        let numbers = self.numbers.iter().map(|one| one.value);
        let cap = numbers.filter(|one| *one < u64::from(requested)).max();
        let cap = cap.filter(|cap| *cap > 1 && matches("output", &self.text) && !is_sum)?;
        // A range may end before its number.
        Some(u32::try_from(cap).ok()? - u32::from(matches("exclusive", &self.text)))
    }

    /// Finds a statement that a request needs more pages or blocks of a cache than there are. The limit is
    /// read where tokens state it, too.
    pub(in crate::overflow::heuristics) fn cache_limit(
        &self,
        sizes: &RequestSizes<'_>,
    ) -> Option<StatedSize> {
        static COUNT: LazyLock<Regex> = LazyLock::new(|| compile(r"\b[0-9]{1,9}\b"));
        let counts = COUNT.find_iter(self.text.as_bytes());
        let mut counts = counts.filter_map(|one| parse::<u64>(one.as_bytes()));
        let (needed, available) = (counts.next()?, counts.next()?);
        let in_tokens = |one: &&Number| {
            self.after(one).trim_start().starts_with("token") && one.value < sizes.tokens()
        };
        let limit = self.numbers.iter().find(in_tokens);
        let limit = limit.filter(|one| one.value >= MIN_LIMIT);
        (needed > available && matches("cache-part", &self.text))
            .then(|| limit.map_or_else(StatedSize::default, |one| StatedSize::of_limit(*one)))
    }
}
