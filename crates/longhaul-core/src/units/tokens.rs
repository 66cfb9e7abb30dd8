//! The plain estimate of tokens: Unicode characters divided by four.
//!
//! [`FORM_VERSION`](crate::FORM_VERSION) covers this estimate: clearing boundaries depend on it, and
//! the provider's prompt cache depends on those boundaries.

use crate::units::saturating_arithmetic;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Characters per token in the plain estimate.
const CHARS_PER_TOKEN: u32 = 4;
/// Rounding steps between one power of two and the next.
const ROUNDING_STEPS: u32 = 8;

/// A number of tokens, in units of the plain estimate. Arithmetic saturates.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[must_use]
pub struct Tokens(u32);

impl Tokens {
    /// Zero tokens.
    pub const ZERO: Self = Self(0);

    /// Creates a value of exactly `count` tokens.
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// Returns the plain estimate of a text with `chars` Unicode characters.
    pub(crate) const fn estimate_chars(chars: u32) -> Self {
        Self(chars / CHARS_PER_TOKEN)
    }

    /// Returns the plain estimate of a text.
    pub fn estimate_text(text: &str) -> Self {
        Self::estimate_chars(u32::try_from(text.chars().count()).unwrap_or(u32::MAX))
    }

    /// Returns the sums of the first sizes: of none, of one, and so on up to all.
    pub(crate) fn prefix_sums(sizes: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut sum = Self::ZERO;
        let sums = sizes.map(|size| {
            sum += size;
            sum
        });
        std::iter::once(Self::ZERO).chain(sums).collect()
    }

    /// Returns what a range adds to `sums`, those of [`prefix_sums`](Self::prefix_sums); zero for an empty range.
    pub(crate) fn sum_of(sums: &[Self], range: Range<usize>) -> Self {
        let before = |end: usize| sums.get(end).copied().unwrap_or_default();
        before(range.end) - before(range.start)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns `hundredths` per cent of this value, rounded down.
    pub fn percent(self, hundredths: u32) -> Self {
        let part = u64::from(self.0) * u64::from(hundredths) / 100;
        Self(u32::try_from(part).unwrap_or(u32::MAX))
    }

    /// Divides by `parts`, rounding down; unchanged if `parts` is zero.
    pub fn divided_by(self, parts: u32) -> Self {
        Self(self.0.checked_div(parts).unwrap_or(self.0))
    }

    /// Multiplies by `numerator / denominator`, rounding down; unchanged if `denominator` is zero.
    pub fn scaled(self, numerator: Self, denominator: Self) -> Self {
        let product = u64::from(self.0) * u64::from(numerator.0);
        let scaled =
            product.checked_div(u64::from(denominator.0)).unwrap_or_else(|| u64::from(self.0));
        Self(u32::try_from(scaled).unwrap_or(u32::MAX))
    }

    /// Converts the estimate back to characters.
    pub const fn to_chars(self) -> usize {
        self.0 as usize * CHARS_PER_TOKEN as usize
    }

    /// Rounds up to a multiple of an eighth of the largest power of two not above the value. Small
    /// changes in a measured size then usually leave the result the same. The value grows by less
    /// than an eighth.
    pub(crate) fn round_up_to_eighth(self) -> Self {
        let power = self.0.checked_ilog2().map_or(0, |log| 1 << log);
        let step = (power / ROUNDING_STEPS).max(1);
        Self(self.0.checked_next_multiple_of(step).unwrap_or(u32::MAX))
    }
}

saturating_arithmetic!(Tokens);

impl std::fmt::Display for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_up_to_eighth_adds_less_than_an_eighth() {
        for (tokens, expect) in [
            (0, 0),
            (1, 1),
            (7, 7),
            (15, 15),
            (16, 16),
            (17, 18),
            (1_023, 1_024),
            (1_024, 1_024),
            (1_025, 1_152),
            (34_056, 36_864),
            (u32::MAX, u32::MAX),
        ] {
            let rounded = Tokens::new(tokens).round_up_to_eighth();
            assert_eq!(rounded, Tokens::new(expect), "{tokens}");
        }
    }
}
