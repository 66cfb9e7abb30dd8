//! Caps that a person sets on what a conversation and a day may cost.

use crate::units::usd::Usd;
use serde::{Deserialize, Serialize};

/// Most that may be spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cap {
    /// Dollars.
    Cost(Usd),
    /// Tokens of input and output.
    Tokens(u64),
}

/// Caps of one set of settings. `None`: no cap.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Caps {
    /// Cap of each conversation.
    pub conversation: Option<Cap>,
    /// Cap of each caller's day, in UTC.
    pub day: Option<Cap>,
}

/// Amounts spent.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Spent {
    /// Day of the last change, in UTC, as a number of days since 1970.
    pub day: u64,
    /// Known cost.
    pub cost: Usd,
    /// Tokens of input and output.
    pub tokens: u64,
}

impl Spent {
    /// Returns the sum after `more`, which was spent later.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            day: more.day,
            cost: self.cost + more.cost,
            tokens: self.tokens.saturating_add(more.tokens),
        }
    }

    /// Returns the part that was spent on `day`.
    #[must_use]
    pub fn on(self, day: u64) -> Self {
        if self.day == day { self } else { Self::default() }
    }

    /// Whether `cap` is reached, if there is one.
    pub fn reaches(self, cap: Option<Cap>) -> bool {
        cap.is_some_and(|cap| self.percent_of(cap) >= 100)
    }

    /// Returns the percentage of `cap` that is spent, rounded down.
    pub fn percent_of(self, cap: Cap) -> u64 {
        let positive = |usd: Usd| u64::try_from(usd.as_nanos()).unwrap_or(0);
        let (spent, most) = match cap {
            Cap::Cost(most) => (positive(self.cost), positive(most)),
            Cap::Tokens(most) => (self.tokens, most),
        };
        spent.saturating_mul(100) / most.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_reach_their_caps_and_days_end() {
        let spent = |day, nanos, tokens| Spent { day, cost: Usd::from_nanos(nanos), tokens };
        let sum = spent(1, 3, 10).plus(spent(2, 1, 5));
        assert_eq!(sum, spent(2, 4, 15));
        let dollars = |nanos| Cap::Cost(Usd::from_nanos(nanos));
        for (cap, percent) in [
            (dollars(4), 100),
            (dollars(5), 80),
            (dollars(0), 400),
            (Cap::Tokens(16), 93),
            (Cap::Tokens(15), 100),
        ] {
            assert_eq!(sum.percent_of(cap), percent, "{cap:?}");
        }
        assert_eq!((sum.on(2), sum.on(3)), (sum, Spent::default()));
        assert_eq!(spent(0, -1, 0).percent_of(dollars(1)), 0);
    }
}
