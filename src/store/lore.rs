//! What a model's replies have taught, as far as it decides what is forwarded: the same for every
//! replica, and after a restart.

use serde::{Deserialize, Serialize};

use crate::rewrite::placement::Refusals;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::Density;
use crate::rewrite::window::lesson::{Holds, Lesson};

/// What is known of one model of one upstream. What was never learned is none, and says nothing
/// against what others know.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lore {
    /// The window, learned from a refusal or from the end of a reply. That it was learned wrongly is
    /// a lesson, too.
    pub(crate) window: Option<Lesson<Option<Holds>>>,
    /// What it counts for the plain estimate, on average.
    pub(crate) density: Option<Lesson<Density>>,
    /// What the upstream says that it holds, or that it does not say.
    pub(crate) asked: Option<Lesson<Option<Tokens>>>,
    /// Where it has refused a summary.
    pub(crate) refusals: Refusals,
}

impl Lore {
    /// It without what was learned by a clock that ran ahead, seen from `now`.
    pub(super) fn without_ahead(self, now: u64) -> Self {
        Self {
            window: self.window.filter(|lesson| !lesson.is_ahead_of(now)),
            density: self.density.filter(|lesson| !lesson.is_ahead_of(now)),
            asked: self.asked.filter(|lesson| !lesson.is_ahead_of(now)),
            refusals: self.refusals,
        }
    }

    /// It with what somebody else knows: of each the later lesson, and all refusals. Who was told
    /// what, in which order and how often, makes no difference.
    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            window: self.window.max(other.window),
            density: self.density.max(other.density),
            asked: self.asked.max(other.asked),
            refusals: self.refusals.join(other.refusals),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few times and few values, so that many lessons are of the same time.
    fn lesson<T>(what: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Lesson<T>>>
    where
        T: std::fmt::Debug + 'static,
    {
        let lesson = (0_u64..3, what).prop_map(|(at, what)| Lesson::over(None, at, what));
        prop::option::of(lesson)
    }

    fn tokens() -> impl Strategy<Value = Tokens> {
        (0_u32..3).prop_map(Tokens::new)
    }

    fn holds() -> impl Strategy<Value = Holds> {
        let parts = (
            tokens(),
            prop::option::of(0_u32..2),
            prop::option::of(tokens()),
        );
        parts.prop_map(|(window, cut_to, stated)| Holds {
            window,
            cut_to,
            stated,
        })
    }

    fn lore() -> impl Strategy<Value = Lore> {
        let density =
            (1_u32..4).prop_map(|counted| Density::of(Tokens::new(counted), Tokens::new(2)));
        let refusals =
            prop::sample::select(vec![Refusals::Both, Refusals::Nowhere, Refusals::Separate]);
        let parts = (
            lesson(prop::option::of(holds())),
            lesson(density),
            lesson(prop::option::of(tokens())),
            refusals,
        );
        parts.prop_map(|(window, density, asked, refusals)| Lore {
            window,
            density,
            asked,
            refusals,
        })
    }

    proptest! {
        #[test]
        fn who_hears_of_whom_first_and_how_often_makes_no_difference(
            one in lore(),
            two in lore(),
            three in lore(),
        ) {
            prop_assert_eq!(one.merge(two), two.merge(one));
            prop_assert_eq!(one.merge(two).merge(three), one.merge(two.merge(three)));
            prop_assert_eq!(one.merge(two).merge(two), one.merge(two));
            prop_assert_eq!(one.merge(one), one);
        }

        #[test]
        fn what_was_never_learned_says_nothing(one in lore()) {
            prop_assert_eq!(one.merge(Lore::default()), one);
        }
    }

    #[test]
    fn a_window_found_wrong_stays_so_beside_who_has_not_heard_of_it() {
        let holds = Holds::at_most(Tokens::new(8_000));
        let learned = Lesson::over(None, 5, Some(holds));
        let wrong = Lesson::over(Some(learned), 5, None);
        let [learned, wrong] = [learned, wrong].map(|window| Lore {
            window: Some(window),
            ..Lore::default()
        });
        assert_eq!(learned.merge(wrong), wrong);
    }
}
