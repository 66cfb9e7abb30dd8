//! Something that was learned, and when: so that those who learned apart agree once they have heard
//! of one another, in whatever order and however often.

use serde::{Deserialize, Serialize};

use super::{RefusalWindow, to_two_digits, window_from_refusal};
use crate::rewrite::overflow::Overflow;
use crate::rewrite::tokens::Tokens;

/// Clocks that are set, to whatever zone, differ by less, in milliseconds: a day.
const MAX_CLOCK_SKEW_MS: u64 = 24 * 60 * 60 * 1_000;

/// What a model was seen to hold.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedWindow {
    /// The window, in the plain estimate's own units.
    pub window: Tokens,
    /// The same as the provider counts, where it cuts prompts to it.
    pub cut_to: Option<u32>,
    /// The limit that it stated, as it counts. The window above hangs on how dense the text was that
    /// was refused; this holds for any.
    pub stated: Option<Tokens>,
}

/// What was learned last. Of two lessons the greater one counts, which is the later; at the same
/// time, the greater of what was learned. So `max` joins them, and none is less than any.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Timestamped<T> {
    /// When, in milliseconds since 1970: the first field, for it decides.
    at: u64,
    /// What.
    pub what: T,
}

impl LearnedWindow {
    /// It holds no more.
    pub fn at_most(window: Tokens) -> Self {
        Self {
            window,
            cut_to: None,
            stated: None,
        }
    }

    /// It cuts prompts to so many tokens, by its own count.
    pub fn truncating_to(window: Tokens, counted: u32) -> Self {
        Self {
            cut_to: Some(counted),
            ..Self::at_most(window)
        }
    }

    /// What `overflow` of a request of `estimate` tokens shows.
    pub fn from_refusal(estimate: Tokens, overflow: &Overflow) -> Self {
        Self {
            stated: overflow.limit.map(Tokens::new),
            ..Self::at_most(window_from_refusal(estimate, overflow))
        }
    }

    /// The same of a model that had accepted a smaller request of that size. A refusal without a
    /// number says only where the window is not: what was accepted fits in it.
    #[must_use]
    pub fn with_accepted_floor(self, accepted: Tokens) -> Self {
        let window = match (self.stated, self.cut_to) {
            (None, None) => self.window.max(accepted),
            (Some(_), _) | (_, Some(_)) => self.window,
        };
        Self { window, ..self }
    }

    /// Whether a request of that size cannot have been accepted by a model that holds no more.
    pub fn is_disproved_by(self, accepted: Tokens) -> bool {
        self.cut_to.is_none() && accepted > self.window.max(self.stated.unwrap_or_default())
    }

    /// The window for a conversation other than the one that was refused.
    pub fn for_other_conversations(self) -> RefusalWindow {
        match self.stated {
            Some(stated) => RefusalWindow::Stated {
                stated,
                refused: self.window,
            },
            None => RefusalWindow::Estimated(to_two_digits(self.window)),
        }
    }
}

impl<T> Timestamped<T> {
    /// What is learned `now`, in milliseconds since 1970, over what was known before. It is later
    /// than that even where the clock is not.
    pub fn superseding(before: Option<Self>, now: u64, what: T) -> Self {
        let after = before.map_or(0, |before| before.at.saturating_add(1));
        Self {
            at: now.max(after),
            what,
        }
    }

    /// Whether it was learned by a clock that ran ahead, seen from `now`. It would count for more than
    /// all that is learned until that time has come.
    pub fn is_ahead_of(&self, now: u64) -> bool {
        self.at > now.saturating_add(MAX_CLOCK_SKEW_MS)
    }

    /// Whether it was learned then or later, in milliseconds since 1970.
    pub fn is_at_or_after(&self, then: u64) -> bool {
        self.at >= then
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learned_later_counts_whatever_the_clock_says() {
        let first = Timestamped::superseding(None, 1_000, Some(1));
        let slow = Timestamped::superseding(Some(first), 10, None);
        assert!(slow > first);
        assert!(Timestamped::superseding(Some(slow), 5_000, Some(0)) > slow);
    }
}
