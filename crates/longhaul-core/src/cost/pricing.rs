//! Token prices, and the cost of replies.

use crate::dialect::usage::Usage;
use crate::policy::cache_price::CachePrice;
use crate::units::usd::{Usd, div_rounded, to_fixed_point};

/// Trillionths of a dollar per billionth.
const PICOS_PER_NANO: u64 = 1_000;

/// Price of a token in trillionths of a dollar, which equals millionths of a dollar per million
/// tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Price(u64);

impl Price {
    /// Parses a list price in dollars per million tokens. Returns `None` for an invalid price and
    /// for zero: lists contain 0 both for models not charged by token and for unknown prices.
    pub fn from_dollars_per_million(dollars: &str) -> Option<Self> {
        Self::stated(dollars).filter(|price| price.0 > 0)
    }

    /// Parses a price that an operator states, in dollars per million tokens. Zero is a price: tokens
    /// that cost nothing.
    pub fn stated(dollars: &str) -> Option<Self> {
        Self::nearest(dollars.parse().ok()?)
    }

    /// Creates the price nearest to `dollars` per million tokens; `None` if it is negative.
    pub fn nearest(dollars: f64) -> Option<Self> {
        to_fixed_point(dollars, 6).map(Self)
    }

    /// Returns the cost of `tokens` tokens, rounded to a billionth of a dollar.
    pub fn cost_of(self, tokens: u32) -> Usd {
        let picos = self.0.saturating_mul(u64::from(tokens));
        let nanos = div_rounded(picos, PICOS_PER_NANO);
        Usd::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// Returns how much a token costs beyond `other`; zero if this price is not higher.
    #[must_use]
    pub(crate) fn excess_over(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Origin of the prices of a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PriceOrigin {
    /// Costs that the provider reported for earlier replies.
    Inferred,
    /// A list of prices, without the price of output.
    Listed,
    /// The operator's setting.
    Setting,
}

/// Prices of a model's tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TokenPrices {
    /// Origin of the prices.
    pub origin: PriceOrigin,
    /// Price of input that is not cached.
    pub input: Price,
    /// Price of input read from the provider's cache, if listed separately.
    pub cached: Option<Price>,
    /// Price of input written to the provider's cache, if listed separately. An hour in the cache costs
    /// twice the price of input.
    pub written: Option<Price>,
    /// Price of output, if known.
    pub output: Option<Price>,
}

impl TokenPrices {
    /// Returns the cost of a reply with this usage: the input, and the output if its price is known and
    /// the usage counts it.
    pub fn cost(&self, usage: &Usage) -> Option<Usd> {
        let output = self.output.zip(usage.output);
        let output = output.map_or(Usd::ZERO, |(price, tokens)| price.cost_of(tokens));
        Some(self.input_cost(usage)? + output)
    }

    /// Returns the cost of the input in `usage`. Returns `None` if some input came from a cache and
    /// the cached price is unknown. Cache writes cost the normal input price unless listed
    /// separately.
    pub fn input_cost(&self, usage: &Usage) -> Option<Usd> {
        let cached = usage.cached.unwrap_or(0).min(usage.input);
        let written = usage.written.min(usage.input - cached);
        let read = match self.cached {
            _ if cached == 0 => Usd::ZERO,
            price => price?.cost_of(cached),
        };
        let for_hour = usage.written_for_hour.min(written);
        let write = self.written.unwrap_or(self.input).cost_of(written - for_hour)
            + self.hour_price().cost_of(for_hour);
        Some(self.input.cost_of(usage.input - cached - written) + read + write)
    }

    /// Returns the price of input that the cache keeps for an hour. If cache writes have a price of their
    /// own, an hour costs twice the price of input. Source: Anthropic's documentation of prompt caching.
    fn hour_price(&self) -> Price {
        match self.written {
            Some(_) => Price(self.input.0.saturating_mul(2)),
            None => self.input,
        }
    }

    /// Returns the class of the price of cached input. Without such a price, cached input costs as
    /// much as other input.
    pub fn cache_price(&self) -> CachePrice {
        let cached = self.cached.unwrap_or(self.input);
        CachePrice::from_prices(cached.0, self.input.0)
    }

    /// Returns the price of a token that was expected in the cache and was missed.
    pub(crate) fn cache_miss_price(&self, usage: &Usage) -> Price {
        let writes = usage.written > 0;
        self.written.filter(|_| writes).unwrap_or(self.input)
    }
}

/// Cost of one reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cost {
    /// Cost of the input at the list price. The lists that longhaul has contain no output prices.
    Listed(Usd),
    /// Cost at the operator's prices: of the input, and of the output if its price is set.
    Configured(Usd),
    /// The provider reported no token counts.
    NotCounted,
    /// A required price of the model is not listed.
    NotListed,
    /// Total cost as reported by the provider.
    Reported(Usd),
}

impl Cost {
    /// Returns the cost of a reply with this usage, at the model's `prices` if known. The
    /// provider's own figure takes precedence, because it includes tiers, discounts and fees.
    pub fn from_usage(usage: Option<&Usage>, prices: Option<&TokenPrices>) -> Self {
        let Some(usage) = usage else {
            return Self::NotCounted;
        };
        if let Some(reported) = usage.cost {
            return Self::Reported(reported);
        }
        let Some(cost) = prices.and_then(|prices| prices.cost(usage)) else {
            return Self::NotListed;
        };
        match prices.map(|prices| prices.origin) {
            Some(PriceOrigin::Setting) => Self::Configured(cost),
            Some(PriceOrigin::Listed) => Self::Listed(cost),
            // Other replies state their cost, so this reply was free or failed.
            Some(PriceOrigin::Inferred) | None => Self::NotListed,
        }
    }

    /// Returns the amount, if known.
    pub fn amount(self) -> Option<Usd> {
        match self {
            Self::Configured(usd) | Self::Listed(usd) | Self::Reported(usd) => Some(usd),
            Self::NotCounted | Self::NotListed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_billionth_is_rounded_up() {
        assert_eq!(Usd::from_ticks(5), Some(Usd::from_nanos(1)));
        assert_eq!(Usd::from_ticks(4), Some(Usd::ZERO));
        assert_eq!(Price(1).cost_of(500), Usd::from_nanos(1));
        assert_eq!(Price(1).cost_of(499), Usd::ZERO);
    }

    #[test]
    fn amount_is_known_if_reported_or_listed() {
        let amount = Usd::from_nanos(7);
        assert_eq!(Cost::Reported(amount).amount(), Some(amount));
        assert_eq!(Cost::Listed(amount).amount(), Some(amount));
        assert_eq!(Cost::NotCounted.amount(), None);
        assert_eq!(Cost::NotListed.amount(), None);
    }

    #[test]
    fn a_zero_or_invalid_price_is_rejected() {
        assert_eq!(Price::from_dollars_per_million("0.0435"), Some(Price(43_500)));
        for none in ["", "0", "0.0", "-1", "free", "nan", "inf"] {
            assert_eq!(Price::from_dollars_per_million(none), None, "{none:?}");
        }
    }

    fn usage(input: u32, cached: Option<u32>, written: u32) -> Usage {
        Usage { input, cached, written, ..Usage::default() }
    }

    fn prices(input: &str, cached: &str, written: &str) -> TokenPrices {
        TokenPrices {
            input: Price::from_dollars_per_million(input).unwrap(),
            cached: Price::from_dollars_per_million(cached),
            written: Price::from_dollars_per_million(written),
            output: None,
            origin: PriceOrigin::Listed,
        }
    }

    #[test]
    fn reported_cost_precedes_list_prices_and_unpriced_usage_has_no_amount() {
        let prices = prices("2", "", "");
        let reported = Usage { cost: Some(Usd::from_nanos(7)), ..usage(10, None, 0) };
        let listed = Usd::from_nanos(20_000);
        for (usage, prices, expect) in [
            (Some(reported), Some(prices), Cost::Reported(Usd::from_nanos(7))),
            (Some(reported), None, Cost::Reported(Usd::from_nanos(7))),
            (Some(usage(10, None, 0)), Some(prices), Cost::Listed(listed)),
            (Some(usage(10, None, 0)), None, Cost::NotListed),
            (Some(usage(10, Some(1), 0)), Some(prices), Cost::NotListed),
            (None, Some(prices), Cost::NotCounted),
        ] {
            assert_eq!(Cost::from_usage(usage.as_ref(), prices.as_ref()), expect);
        }
    }

    #[test]
    fn input_cost_adds_up_uncached_cached_and_written_tokens() {
        let check = |prices: TokenPrices, usage: Usage, nanos: Option<i64>| {
            assert_eq!(prices.input_cost(&usage), nanos.map(Usd::from_nanos), "{usage:?}");
        };
        let all = prices("2", "0.2", "2.5");
        check(all, usage(1_000, None, 0), Some(2_000_000));
        check(all, usage(1_000, Some(600), 0), Some(800_000 + 120_000));
        check(all, usage(1_000, Some(600), 300), Some(200_000 + 120_000 + 750_000));
        // An hour in the cache costs twice the input price.
        let hour = Usage { written_for_hour: 100, ..usage(1_000, Some(600), 300) };
        check(all, hour, Some(200_000 + 120_000 + 500_000 + 400_000));
        // Writing without a separate price costs the normal input price.
        check(prices("2", "0.2", ""), hour, Some(920_000));
        check(prices("2", "0.2", ""), usage(1_000, Some(600), 300), Some(920_000));
        // The price of the 600 cached tokens is unknown.
        check(prices("2", "", ""), usage(1_000, Some(600), 0), None);
        check(prices("2", "", ""), usage(1_000, Some(0), 0), Some(2_000_000));
        // The reported cache counts exceed the input.
        check(all, usage(1_000, Some(9_000), 9_000), Some(200_000));
    }

    #[test]
    fn the_operator_s_prices_include_output_and_may_be_nothing() {
        let set = TokenPrices {
            origin: PriceOrigin::Setting,
            output: Price::stated("10"),
            ..prices("2", "0.2", "")
        };
        let replied = Usage { output: Some(100), ..usage(1_000, Some(500), 0) };
        let cost = 500 * 2_000 + 500 * 200 + 100 * 10_000;
        let cost = Cost::Configured(Usd::from_nanos(cost));
        assert_eq!(Cost::from_usage(Some(&replied), Some(&set)), cost);
        let free = TokenPrices {
            input: Price::stated("0").unwrap(),
            cached: Price::stated("0"),
            output: None,
            ..set
        };
        let nothing = Cost::Configured(Usd::ZERO);
        assert_eq!(Cost::from_usage(Some(&replied), Some(&free)), nothing);
        assert_eq!(Price::stated("-1"), None);
    }
}
