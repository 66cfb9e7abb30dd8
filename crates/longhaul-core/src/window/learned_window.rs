//! Learned values with the time at which they were learned. Merging is commutative and idempotent,
//! so processes that learned apart converge in whatever order they exchange values.

use serde::{Deserialize, Serialize};

use crate::overflow::Overflow;
use crate::units::tokens::Tokens;
use crate::window::{RefusalWindow, to_two_digits, window_from_refusal};

/// Maximum clock difference between processes, in milliseconds: a day. Clocks that are set differ
/// by less, in whatever time zone.
const MAX_CLOCK_SKEW_MS: u64 = 24 * 60 * 60 * 1_000;

/// A model's window as learned from its refusals and replies.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedWindow {
    /// The window, in estimated tokens.
    pub window: Tokens,
    /// The window in provider tokens, if the provider truncates prompts to it; `None` otherwise.
    pub truncates_to: Option<u32>,
    /// The limit that the upstream stated, in provider tokens. `window` depends on the token ratio
    /// of the refused text; this limit holds for any text.
    pub stated: Option<Tokens>,
}

/// A value with the time at which it was learned: a last-writer-wins register. The later value is
/// the greater; at equal times, the greater value. `max` therefore merges two registers, and `None`
/// is less than any.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Timestamped<T> {
    /// Time of learning, in milliseconds since 1970. The first field, so that it decides the order.
    pub at: u64,
    /// The learned value.
    pub value: T,
}

impl LearnedWindow {
    /// Creates the window of a model that accepts at most `window` estimated tokens.
    pub fn at_most(window: Tokens) -> Self {
        Self { window, truncates_to: None, stated: None }
    }

    /// Creates the window of a model that truncates prompts to `counted` provider tokens.
    pub fn truncating_to(window: Tokens, counted: u32) -> Self {
        Self { truncates_to: Some(counted), ..Self::at_most(window) }
    }

    /// Computes the window from a refusal of a request of `estimate` tokens.
    pub fn from_refusal(estimate: Tokens, overflow: &Overflow) -> Self {
        Self {
            stated: overflow.limit.map(Tokens::new),
            ..Self::at_most(window_from_refusal(estimate, overflow))
        }
    }

    /// Raises the window to `accepted`, the size of a smaller request that the model has accepted.
    /// Only applies to a refusal without a number, which is a mere upper bound.
    #[must_use]
    pub fn with_accepted_floor(self, accepted: Tokens) -> Self {
        let has_number = self.stated.is_some() || self.truncates_to.is_some();
        Self { window: if has_number { self.window } else { self.window.max(accepted) }, ..self }
    }

    /// Whether an accepted request of this size contradicts the window.
    pub fn is_disproved_by(self, accepted: Tokens) -> bool {
        self.truncates_to.is_none() && accepted > self.window.max(self.stated.unwrap_or_default())
    }

    /// Returns the window for conversations other than the refused one.
    pub fn for_other_conversations(self) -> RefusalWindow {
        match self.stated {
            Some(stated) => RefusalWindow::Stated { stated, refused: self.window },
            None => RefusalWindow::Estimated(to_two_digits(self.window)),
        }
    }
}

impl<T> Timestamped<T> {
    /// Creates a value learned at `now`, in milliseconds since 1970, that supersedes `before`. Its
    /// time is later than that of `before` even if the clock is not.
    pub fn superseding(before: Option<Self>, now: u64, value: T) -> Self {
        let after = before.map_or(0, |before| before.at.saturating_add(1));
        Self { at: now.max(after), value }
    }

    /// Whether a fast clock stamped the value, seen from `now`. Such a value would override every
    /// newer one until its time has come.
    pub fn is_ahead_of(&self, now: u64) -> bool {
        self.at > now.saturating_add(MAX_CLOCK_SKEW_MS)
    }

    /// Whether the value was learned at or after `then`, in milliseconds since 1970.
    pub fn is_at_or_after(&self, then: u64) -> bool {
        self.at >= then
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_value_supersedes_despite_clock_differences() {
        let first = Timestamped::superseding(None, 1_000, Some(1));
        let slow = Timestamped::superseding(Some(first), 10, None);
        assert!(slow > first);
        assert!(Timestamped::superseding(Some(slow), 5_000, Some(0)) > slow);
    }
}
