//! Money: amounts in whole billionths of a dollar, what tokens are sold at, and what a rewrite made
//! of both.

mod bill;

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Serialize, Serializer};

use super::usage::Usage;

pub use bill::{Bill, Billed, Prior};

/// Billionths in a dollar.
const NANOS: u64 = 1_000_000_000;
/// Trillionths of a dollar in a billionth.
const PICOS_PER_NANO: u64 = 1_000;

/// The most that one answer is believed to cost, in billionths of a dollar: a million dollars. So no
/// sum of them runs over within the life of a process, whatever an upstream writes.
const MOST: u64 = 1_000_000 * NANOS;

/// An amount of US dollars, in billionths: exact in sums, unlike a float. Its arithmetic saturates,
/// at nine thousand million dollars.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[must_use]
pub struct Usd(i64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many billionths of a dollar.
    pub const fn of_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The amount in billionths of a dollar.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// What an answer cost as its provider writes it, in dollars; none where it is no amount: less than
    /// nothing, or more than is believed.
    pub fn of_dollars(dollars: f64) -> Option<Self> {
        Self::believed(fixed(dollars, 9)?)
    }

    /// An amount in ticks, ten thousand million of which are a dollar, as xAI writes it
    /// (docs.x.ai, Cost Tracking), rounded to a billionth.
    pub fn of_ticks(ticks: u64) -> Option<Self> {
        const TICKS_PER_NANO: u64 = 10;
        Self::believed(rounded(ticks, TICKS_PER_NANO))
    }

    fn believed(nanos: u64) -> Option<Self> {
        let nanos = Some(nanos).filter(|nanos| *nanos <= MOST)?;
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
    pub fn of_a_million(dollars: &str) -> Option<Self> {
        let picos = fixed(dollars.parse().ok()?, 6)?;
        (picos > 0).then_some(Self(picos))
    }

    /// What so many tokens cost, rounded to a billionth of a dollar.
    fn of(self, tokens: u32) -> Usd {
        let picos = self.0.saturating_mul(u64::from(tokens));
        Usd(i64::try_from(rounded(picos, PICOS_PER_NANO)).unwrap_or(i64::MAX))
    }

    /// How much dearer a token is than at `other`; nothing where it is not.
    fn above(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// What a model's input is sold at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prices {
    /// Input that is in no cache.
    pub input: Price,
    /// Input that is read from the provider's cache, where that has a price of its own.
    pub cached: Option<Price>,
    /// Input that is written to it, where that has a price of its own.
    pub written: Option<Price>,
}

impl Prices {
    /// What the input of `usage` costs: none where some of it came from a cache and what that costs
    /// is not known. Writing costs what other input does where no price is named for it.
    pub fn input_of(&self, usage: &Usage) -> Option<Usd> {
        let cached = usage.cached.unwrap_or(0).min(usage.input);
        let written = usage.written.min(usage.input - cached);
        let read = match self.cached {
            _ if cached == 0 => Usd::ZERO,
            price => price?.of(cached),
        };
        let write = self.written.unwrap_or(self.input).of(written);
        Some(self.input.of(usage.input - cached - written) + read + write)
    }

    /// What a token costs that was expected in the cache of this reply's provider and was not there.
    fn missed(&self, usage: &Usage) -> Price {
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
    Said(Usd),
}

impl Cost {
    /// What an answer with this usage cost, of a model at `prices` where they are known: the
    /// provider's own word wins over a list, for it knows of tiers, discounts and fees.
    pub fn of(usage: Option<&Usage>, prices: Option<&Prices>) -> Self {
        let Some(usage) = usage else {
            return Self::NotCounted;
        };
        if let Some(said) = usage.cost {
            return Self::Said(said);
        }
        let listed = prices.and_then(|prices| prices.input_of(usage));
        listed.map_or(Self::NotListed, Self::Listed)
    }

    /// The amount, where it is known.
    pub fn known(self) -> Option<Usd> {
        match self {
            Self::Listed(usd) | Self::Said(usd) => Some(usd),
            Self::NotCounted | Self::NotListed => None,
        }
    }
}

/// A number times ten to the `places`, rounded; none below zero or without end.
fn fixed(number: f64, places: usize) -> Option<u64> {
    // Written out and read again: the standard library's own rounding, and no lossy cast.
    let text = format!("{number:.places$}");
    text.replace('.', "").parse().ok()
}

/// `number` over `by`, to the nearest.
fn rounded(number: u64, by: u64) -> u64 {
    number.saturating_add(by / 2) / by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_to_the_billionth_and_written_in_dollars() {
        let check = |dollars: f64, expect: Option<&str>| {
            let found = Usd::of_dollars(dollars).map(|usd| usd.to_string());
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
            (Usd::ZERO - Usd::of_nanos(1_500_000_000)).to_string(),
            "-1.500000000"
        );
        // The example of xAI's own page.
        let ticks = Usd::of_ticks(37_756_000).unwrap();
        assert_eq!(ticks.to_string(), "0.003775600");
        assert_eq!(Usd::of_ticks(u64::MAX), None);
    }

    #[test]
    fn amounts_add_up() {
        let mut total = Usd::of_nanos(5);
        total += Usd::of_nanos(2);
        assert_eq!(total, Usd::of_nanos(7));
    }

    #[test]
    fn half_a_billionth_is_rounded_up() {
        assert_eq!(Usd::of_ticks(5), Some(Usd::of_nanos(1)));
        assert_eq!(Usd::of_ticks(4), Some(Usd::ZERO));
        assert_eq!(Price(1).of(500), Usd::of_nanos(1));
        assert_eq!(Price(1).of(499), Usd::ZERO);
    }

    #[test]
    fn an_amount_is_known_where_it_was_said_or_is_listed() {
        let amount = Usd::of_nanos(7);
        assert_eq!(Cost::Said(amount).known(), Some(amount));
        assert_eq!(Cost::Listed(amount).known(), Some(amount));
        assert_eq!(Cost::NotCounted.known(), None);
        assert_eq!(Cost::NotListed.known(), None);
    }

    #[test]
    fn a_price_of_nothing_is_not_known() {
        assert_eq!(Price::of_a_million("0.0435"), Some(Price(43_500)));
        for none in ["", "0", "0.0", "-1", "free", "nan", "inf"] {
            assert_eq!(Price::of_a_million(none), None, "{none:?}");
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

    fn prices(input: &str, cached: &str, written: &str) -> Prices {
        Prices {
            input: Price::of_a_million(input).unwrap(),
            cached: Price::of_a_million(cached),
            written: Price::of_a_million(written),
        }
    }

    #[test]
    fn the_provider_s_own_word_wins_and_what_nobody_knows_is_no_amount() {
        let prices = prices("2", "", "");
        let said = Usage {
            cost: Some(Usd::of_nanos(7)),
            ..usage(10, None, 0)
        };
        let listed = Usd::of_nanos(20_000);
        for (usage, prices, expect) in [
            (Some(said), Some(prices), Cost::Said(Usd::of_nanos(7))),
            (Some(said), None, Cost::Said(Usd::of_nanos(7))),
            (Some(usage(10, None, 0)), Some(prices), Cost::Listed(listed)),
            (Some(usage(10, None, 0)), None, Cost::NotListed),
            (Some(usage(10, Some(1), 0)), Some(prices), Cost::NotListed),
            (None, Some(prices), Cost::NotCounted),
        ] {
            assert_eq!(Cost::of(usage.as_ref(), prices.as_ref()), expect);
        }
    }

    #[test]
    fn input_costs_what_its_parts_do() {
        let check = |prices: Prices, usage: Usage, nanos: Option<i64>| {
            assert_eq!(
                prices.input_of(&usage),
                nanos.map(Usd::of_nanos),
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
