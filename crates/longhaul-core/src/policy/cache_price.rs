//! Price classes of cached input, and the size at which a conversation is cheapest to compact.
//!
//! Each request reads its whole prefix at the price of the provider's cache. A compaction makes the
//! prefix short, and the provider reads the rest once at the full price. Both together cost
//! least if the conversation is compacted at `F + √(2·g·(w − c)·R / c)` tokens:
//!
//! - `F`: tokens that remain after a compaction
//! - `R`: tokens of `F` that the provider reads at the full price
//! - `g`: new tokens per request
//! - `c`, `w`: price of cached and of other input
//!
//! The recorded sessions of `fixtures/sessions` have `F` = 11,000, `R` = 8,000 and `g` = 800.

use crate::units::tokens::Tokens;
use serde::{Deserialize, Serialize};

/// Price of cached input as a share of the price of other input. Few classes, so that small changes
/// of a price list move no threshold.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CachePrice {
    /// Up to a thirtieth.
    Fiftieth,
    /// Up to a sixth: most providers. Assumed if the price is unknown.
    #[default]
    Tenth,
    /// Up to a third.
    Quarter,
    /// More than a third, or no discount.
    Half,
}

impl CachePrice {
    /// Returns the class of a price of `cached` for input that costs `input`, in one unit.
    pub fn from_prices(cached: u64, input: u64) -> Self {
        match cached {
            _ if cached.saturating_mul(30) <= input => Self::Fiftieth,
            _ if cached.saturating_mul(6) <= input => Self::Tenth,
            _ if cached.saturating_mul(3) <= input => Self::Quarter,
            _ => Self::Half,
        }
    }

    /// Returns the maximum tokens that `frugal` leaves to a conversation, for any window. The
    /// hard threshold is nine tenths of this size.
    pub(super) fn size_limit(self) -> Tokens {
        self.cheapest_size().max(MIN_ROOM)
    }

    /// Returns the size limit whose hard threshold is the cheapest size by the formula above.
    fn cheapest_size(self) -> Tokens {
        Tokens::new(match self {
            Self::Fiftieth => 40_000,
            Self::Tenth => 24_000,
            Self::Quarter => 19_000,
            Self::Half => 16_000,
        })
    }
}

/// Smallest size limit. Below, a conversation keeps fewer than 96% of the identifiers that its agent uses
/// again.
const MIN_ROOM: Tokens = Tokens::new(32_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_falls_into_the_nearest_class() {
        let check = |cached, input, expect| {
            assert_eq!(CachePrice::from_prices(cached, input), expect, "{cached}");
        };
        check(0, 100, CachePrice::Fiftieth);
        check(3, 100, CachePrice::Fiftieth);
        check(10, 100, CachePrice::Tenth);
        check(25, 100, CachePrice::Quarter);
        check(50, 100, CachePrice::Half);
        check(100, 100, CachePrice::Half);
        check(u64::MAX, 1, CachePrice::Half);
    }

    /// The rooms follow from the formula, within a thousand tokens.
    #[test]
    fn room_of_each_price_class_matches_the_cost_formula() {
        for (class, share) in [
            (CachePrice::Fiftieth, 0.02_f64),
            (CachePrice::Tenth, 0.1),
            (CachePrice::Quarter, 0.25),
            (CachePrice::Half, 0.5),
        ] {
            let mark = 11_000.0_f64 + (2.0_f64 * 800.0 * (1.0 - share) * 8_000.0 / share).sqrt();
            let size_limit = f64::from(class.cheapest_size().get());
            assert!((size_limit - mark / 0.9).abs() < 1_000.0, "{class:?}: {mark}");
        }
    }
}
