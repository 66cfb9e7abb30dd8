//! Something that was learned, and when: so that those who learned apart agree once they have heard
//! of one another, in whatever order and however often.

use serde::{Deserialize, Serialize};

use crate::rewrite::tokens::Tokens;

/// What a model was seen to hold.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Holds {
    /// The window, in the plain estimate's own units.
    pub window: Tokens,
    /// The same as the provider counts, where it cuts prompts to it.
    pub cut_to: Option<u32>,
}

/// What was learned last. Of two lessons the greater one counts, which is the later; at the same
/// time, the greater of what was learned. So `max` joins them, and none is less than any.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson<T> {
    /// When, in milliseconds since 1970: the first field, for it decides.
    at: u64,
    /// What.
    pub what: T,
}

impl<T> Lesson<T> {
    /// What is learned `now`, in milliseconds since 1970, over what was known before. It is later
    /// than that even where the clock is not.
    pub fn over(before: Option<Self>, now: u64, what: T) -> Self {
        let after = before.map_or(0, |before| before.at.saturating_add(1));
        Self {
            at: now.max(after),
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learned_later_counts_whatever_the_clock_says() {
        let first = Lesson::over(None, 1_000, Some(1));
        let slow = Lesson::over(Some(first), 10, None);
        assert!(slow > first);
        assert!(Lesson::over(Some(slow), 5_000, Some(0)) > slow);
    }
}
