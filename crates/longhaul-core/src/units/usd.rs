//! Amounts in whole billionths of a dollar.

use crate::units::saturating_arithmetic;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Billionths per dollar.
const NANOS: u64 = 1_000_000_000;
/// Maximum plausible cost of one reply: a million dollars, in billionths. Larger reports are
/// ignored, so sums cannot overflow during the life of a process.
const MAX_PLAUSIBLE_NANOS: u64 = 1_000_000 * NANOS;

/// An amount of US dollars in billionths. Unlike a float, sums are exact. Arithmetic saturates at
/// about nine billion dollars. Serialised in billionths; a float would round.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
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
    pub(crate) fn from_ticks(ticks: u64) -> Option<Self> {
        const TICKS_PER_NANO: u64 = 10;
        Self::from_plausible_nanos(div_rounded(ticks, TICKS_PER_NANO))
    }

    fn from_plausible_nanos(nanos: u64) -> Option<Self> {
        let nanos = Some(nanos).filter(|nanos| *nanos <= MAX_PLAUSIBLE_NANOS)?;
        i64::try_from(nanos).ok().map(Self)
    }
}

saturating_arithmetic!(Usd);

/// Formats the amount in dollars, with all nine decimal places.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09}", nanos / NANOS, nanos % NANOS)
    }
}

/// Returns a number times ten to the `places`, rounded. Returns `None` if the number is negative or
/// not finite.
pub(crate) fn to_fixed_point(number: f64, places: usize) -> Option<u64> {
    // Format and parse: uses the standard library's rounding and avoids a lossy cast.
    let text = format!("{number:.places$}");
    text.replace('.', "").parse().ok()
}

/// Divides `number` by `by`, rounded to the nearest integer.
pub(crate) fn div_rounded(number: u64, by: u64) -> u64 {
    number.saturating_add(by / 2) / by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_in_nanodollars_and_written_in_dollars() {
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
        assert_eq!((Usd::ZERO - Usd::from_nanos(1_500_000_000)).to_string(), "-1.500000000");
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
}
