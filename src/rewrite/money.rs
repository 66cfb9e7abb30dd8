//! Money: amounts in whole billionths of a dollar, what tokens are sold at, and what a rewrite made
//! of both.

mod bill;

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Serialize, Serializer};

use super::usage::Usage;

pub use bill::{BilledRequest, CostComparison, PriorRequest};

/// Billionths in a dollar.
const NANOS: u64 = 1_000_000_000;
/// Trillionths of a dollar in a billionth.
const PICOS_PER_NANO: u64 = 1_000;

/// The most that one answer is believed to cost, in billionths of a dollar: a million dollars. So no
/// sum of them runs over within the life of a process, whatever an upstream writes.
const MAX_PLAUSIBLE_NANOS: u64 = 1_000_000 * NANOS;

/// An amount of US dollars, in billionths: exact in sums, unlike a float. Its arithmetic saturates,
/// at nine thousand million dollars.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[must_use]
pub struct Usd(i64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many billionths of a dollar.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The amount in billionths of a dollar.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// What an answer cost as its provider writes it, in dollars; none where it is no amount: less than
    /// nothing, or more than is believed.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        Self::from_plausible_nanos(to_fixed_point(dollars, 9)?)
    }

    /// An amount in ticks, ten thousand million of which are a dollar, as xAI writes it
    /// (docs.x.ai, Cost Tracking), rounded to a billionth.
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

/// In dollars, with all nine places.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09}", nanos / NANOS, nanos % NANOS)
    }
}

/// In billionths of a dollar: a float would round.
impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(self.0)
    }
}

/// What a token costs, in trillionths of a dollar: that is millionths of a dollar for a million.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Price(u64);

impl Price {
    /// A price as lists have it: dollars for a million tokens. None for what is no price, and for
    /// nothing: lists have 0 where nobody is charged by the token, and where nobody knows.
    pub fn from_dollars_per_million(dollars: &str) -> Option<Self> {
        let picos = to_fixed_point(dollars.parse().ok()?, 6)?;
        (picos > 0).then_some(Self(picos))
    }

    /// What so many tokens cost, rounded to a billionth of a dollar.
    fn cost_of(self, tokens: u32) -> Usd {
        let picos = self.0.saturating_mul(u64::from(tokens));
        Usd(i64::try_from(div_rounded(picos, PICOS_PER_NANO)).unwrap_or(i64::MAX))
    }

    /// How much dearer a token is than at `other`; nothing where it is not.
    fn excess_over(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// What a model's input is sold at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InputPrices {
    /// Input that is in no cache.
    pub input: Price,
    /// Input that is read from the provider's cache, where that has a price of its own.
    pub cached: Option<Price>,
    /// Input that is written to it, where that has a price of its own.
    pub written: Option<Price>,
}

impl InputPrices {
    /// What the input of `usage` costs: none where some of it came from a cache and what that costs
    /// is not known. Writing costs what other input does where no price is named for it.
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

    /// What a token costs that was expected in the cache of this reply's provider and was not there.
    fn cache_miss_price(&self, usage: &Usage) -> Price {
        let writes = usage.written > 0;
        self.written.filter(|_| writes).unwrap_or(self.input)
    }
}

/// What one answer cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cost {
    /// Its input at the list price. What its output cost is in no list that we have.
    Listed(Usd),
    /// Nobody said how many tokens it took.
    NotCounted,
    /// The model's price is in no list, or not all that is needed of it.
    NotListed,
    /// All of it, as its provider said.
    Reported(Usd),
}

impl Cost {
    /// What an answer with this usage cost, of a model at `prices` where they are known: the
    /// provider's own word wins over a list, for it knows of tiers, discounts and fees.
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

    /// The amount, where it is known.
    pub fn amount(self) -> Option<Usd> {
        match self {
            Self::Listed(usd) | Self::Reported(usd) => Some(usd),
            Self::NotCounted | Self::NotListed => None,
        }
    }
}

/// A number times ten to the `places`, rounded; none below zero or without end.
fn to_fixed_point(number: f64, places: usize) -> Option<u64> {
    // Written out and read again: the standard library's own rounding, and no lossy cast.
    let text = format!("{number:.places$}");
    text.replace('.', "").parse().ok()
}

/// `number` over `by`, to the nearest.
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
        // The example of xAI's own page.
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
        // Writing without a price of its own costs what other input does.
        check(
            prices("2", "0.2", ""),
            usage(1_000, Some(600), 300),
            Some(920_000),
        );
        // Nobody knows what these 600 cost.
        check(prices("2", "", ""), usage(1_000, Some(600), 0), None);
        check(
            prices("2", "", ""),
            usage(1_000, Some(0), 0),
            Some(2_000_000),
        );
        // More in the cache than there is.
        check(all, usage(1_000, Some(9_000), 9_000), Some(200_000));
    }
}
