//! Amounts in whole billionths of a dollar, token prices, and the cost of replies.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Serialize, Serializer};

use crate::dialect::usage::Usage;

pub use crate::cost::comparison::{BilledRequest, CostComparison, PriorRequest};

/// Billionths per dollar.
const NANOS: u64 = 1_000_000_000;
/// Trillionths of a dollar per billionth.
const PICOS_PER_NANO: u64 = 1_000;

/// Maximum plausible cost of one reply: a million dollars, in billionths. Larger reports are
/// ignored, so sums cannot overflow during the life of a process.
const MAX_PLAUSIBLE_NANOS: u64 = 1_000_000 * NANOS;

/// An amount of US dollars in billionths. Unlike a float, sums are exact. Arithmetic saturates at
/// about nine billion dollars.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[must_use]
pub struct Usd(i64);

impl Usd {
    /// Zero dollars.
    pub const ZERO: Self = Self(0);

    /// Creates an amount from billionths of a dollar.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the amount in billionths of a dollar.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Converts a provider's cost of a reply, in dollars. Returns `None` if the value is negative
    /// or implausibly large.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        Self::from_plausible_nanos(to_fixed_point(dollars, 9)?)
    }

    /// Converts a cost in ticks, rounded to a billionth. A dollar is ten billion ticks, as xAI
    /// reports them (docs.x.ai, Cost Tracking). Returns `None` if the value is implausibly large.
    pub fn from_ticks(ticks: u64) -> Option<Self> {
        const TICKS_PER_NANO: u64 = 10;
        Self::from_plausible_nanos(div_rounded(ticks, TICKS_PER_NANO))
    }

    fn from_plausible_nanos(nanos: u64) -> Option<Self> {
        let nanos = Some(nanos).filter(|nanos| *nanos <= MAX_PLAUSIBLE_NANOS)?;
        i64::try_from(nanos).ok().map(Self)
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Formats the amount in dollars, with all nine decimal places.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09}", nanos / NANOS, nanos % NANOS)
    }
}

/// Serialises the amount in billionths of a dollar; a float would round.
impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(self.0)
    }
}

/// Price of a token in trillionths of a dollar, which equals millionths of a dollar per million
/// tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Price(u64);

impl Price {
    /// Parses a list price in dollars per million tokens. Returns `None` for an invalid price and
    /// for zero: lists contain 0 both for models not charged by token and for unknown prices.
    pub fn from_dollars_per_million(dollars: &str) -> Option<Self> {
        let picos = to_fixed_point(dollars.parse().ok()?, 6)?;
        (picos > 0).then_some(Self(picos))
    }

    /// Returns the cost of `tokens` tokens, rounded to a billionth of a dollar.
    pub fn cost_of(self, tokens: u32) -> Usd {
        let picos = self.0.saturating_mul(u64::from(tokens));
        Usd(i64::try_from(div_rounded(picos, PICOS_PER_NANO)).unwrap_or(i64::MAX))
    }

    /// Returns how much a token costs beyond `other`; zero if this price is not higher.
    #[must_use]
    pub fn excess_over(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Prices of a model's input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InputPrices {
    /// Price of input that is not cached.
    pub input: Price,
    /// Price of input read from the provider's cache, if listed separately.
    pub cached: Option<Price>,
    /// Price of input written to the provider's cache, if listed separately.
    pub written: Option<Price>,
}

impl InputPrices {
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
        let write = self.written.unwrap_or(self.input).cost_of(written);
        Some(self.input.cost_of(usage.input - cached - written) + read + write)
    }

    /// Returns the price of a token that was expected in the cache and was missed.
    pub fn cache_miss_price(&self, usage: &Usage) -> Price {
        let writes = usage.written > 0;
        self.written.filter(|_| writes).unwrap_or(self.input)
    }
}

/// Cost of one reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cost {
    /// Cost of the input at the list price. The lists that longhaul has contain no output prices.
    Listed(Usd),
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
    pub fn from_usage(usage: Option<&Usage>, prices: Option<&InputPrices>) -> Self {
        let Some(usage) = usage else {
            return Self::NotCounted;
        };
        if let Some(said) = usage.cost {
            return Self::Reported(said);
        }
        let listed = prices.and_then(|prices| prices.input_cost(usage));
        listed.map_or(Self::NotListed, Self::Listed)
    }

    /// Returns the amount, if known.
    pub fn amount(self) -> Option<Usd> {
        match self {
            Self::Listed(usd) | Self::Reported(usd) => Some(usd),
            Self::NotCounted | Self::NotListed => None,
        }
    }
}

/// Returns a number times ten to the `places`, rounded. Returns `None` if the number is negative or
/// not finite.
fn to_fixed_point(number: f64, places: usize) -> Option<u64> {
    // Format and parse: uses the standard library's rounding and avoids a lossy cast.
    let text = format!("{number:.places$}");
    text.replace('.', "").parse().ok()
}

/// Divides `number` by `by`, rounded to the nearest integer.
fn div_rounded(number: u64, by: u64) -> u64 {
    number.saturating_add(by / 2) / by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_to_the_billionth_and_written_in_dollars() {
        let check = |dollars: f64, expect: Option<&str>| {
            let found = Usd::from_dollars(dollars).map(|usd| usd.to_string());
            assert_eq!(found.as_deref(), expect, "{dollars}");
        };
        check(0.0, Some("0.000000000"));
        check(0.001_422_5, Some("0.001422500"));
        check(1.4e-8, Some("0.000000014"));
        check(12.5, Some("12.500000000"));
        for no_amount in [-0.1, f64::NAN, f64::INFINITY, 1e30, 1_000_000.1] {
            check(no_amount, None);
        }
        assert_eq!(
            (Usd::ZERO - Usd::from_nanos(1_500_000_000)).to_string(),
            "-1.500000000"
        );
        // The example in xAI's documentation.
        let ticks = Usd::from_ticks(37_756_000).unwrap();
        assert_eq!(ticks.to_string(), "0.003775600");
        assert_eq!(Usd::from_ticks(u64::MAX), None);
    }

    #[test]
    fn amounts_add_up() {
        let mut total = Usd::from_nanos(5);
        total += Usd::from_nanos(2);
        assert_eq!(total, Usd::from_nanos(7));
    }

    #[test]
    fn half_a_billionth_is_rounded_up() {
        assert_eq!(Usd::from_ticks(5), Some(Usd::from_nanos(1)));
        assert_eq!(Usd::from_ticks(4), Some(Usd::ZERO));
        assert_eq!(Price(1).cost_of(500), Usd::from_nanos(1));
        assert_eq!(Price(1).cost_of(499), Usd::ZERO);
    }

    #[test]
    fn an_amount_is_known_where_it_was_said_or_is_listed() {
        let amount = Usd::from_nanos(7);
        assert_eq!(Cost::Reported(amount).amount(), Some(amount));
        assert_eq!(Cost::Listed(amount).amount(), Some(amount));
        assert_eq!(Cost::NotCounted.amount(), None);
        assert_eq!(Cost::NotListed.amount(), None);
    }

    #[test]
    fn a_price_of_nothing_is_not_known() {
        assert_eq!(
            Price::from_dollars_per_million("0.0435"),
            Some(Price(43_500))
        );
        for none in ["", "0", "0.0", "-1", "free", "nan", "inf"] {
            assert_eq!(Price::from_dollars_per_million(none), None, "{none:?}");
        }
    }

    fn usage(input: u32, cached: Option<u32>, written: u32) -> Usage {
        Usage {
            input,
            cached,
            written,
            ..Usage::default()
        }
    }

    fn prices(input: &str, cached: &str, written: &str) -> InputPrices {
        InputPrices {
            input: Price::from_dollars_per_million(input).unwrap(),
            cached: Price::from_dollars_per_million(cached),
            written: Price::from_dollars_per_million(written),
        }
    }

    #[test]
    fn the_provider_s_own_word_wins_and_what_nobody_knows_is_no_amount() {
        let prices = prices("2", "", "");
        let said = Usage {
            cost: Some(Usd::from_nanos(7)),
            ..usage(10, None, 0)
        };
        let listed = Usd::from_nanos(20_000);
        for (usage, prices, expect) in [
            (Some(said), Some(prices), Cost::Reported(Usd::from_nanos(7))),
            (Some(said), None, Cost::Reported(Usd::from_nanos(7))),
            (Some(usage(10, None, 0)), Some(prices), Cost::Listed(listed)),
            (Some(usage(10, None, 0)), None, Cost::NotListed),
            (Some(usage(10, Some(1), 0)), Some(prices), Cost::NotListed),
            (None, Some(prices), Cost::NotCounted),
        ] {
            assert_eq!(Cost::from_usage(usage.as_ref(), prices.as_ref()), expect);
        }
    }

    #[test]
    fn input_costs_what_its_parts_do() {
        let check = |prices: InputPrices, usage: Usage, nanos: Option<i64>| {
            assert_eq!(
                prices.input_cost(&usage),
                nanos.map(Usd::from_nanos),
                "{usage:?}"
            );
        };
        let all = prices("2", "0.2", "2.5");
        check(all, usage(1_000, None, 0), Some(2_000_000));
        check(all, usage(1_000, Some(600), 0), Some(800_000 + 120_000));
        check(
            all,
            usage(1_000, Some(600), 300),
            Some(200_000 + 120_000 + 750_000),
        );
        // Writing without a separate price costs the normal input price.
        check(
            prices("2", "0.2", ""),
            usage(1_000, Some(600), 300),
            Some(920_000),
        );
        // The price of the 600 cached tokens is unknown.
        check(prices("2", "", ""), usage(1_000, Some(600), 0), None);
        check(
            prices("2", "", ""),
            usage(1_000, Some(0), 0),
            Some(2_000_000),
        );
        // The reported cache counts exceed the input.
        check(all, usage(1_000, Some(9_000), 9_000), Some(200_000));
    }
}
