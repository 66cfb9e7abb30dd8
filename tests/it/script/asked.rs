//! Random settings: what an operator may ask for.

use longhaul::rewrite::placeholder::Placeholder;
use longhaul::rewrite::placement::Placement;
use longhaul::rewrite::policy::{Profile, Threshold, When, Wishes};
use longhaul::rewrite::tokens::Tokens;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// All that can be asked for with all three stages on; what each switch leaves alone is held where
/// the program is.
pub(crate) fn wishes() -> impl Strategy<Value = Wishes> {
    let sizes = (
        option::weighted(0.3, tokens(8_000)),
        option::weighted(0.2, tokens(4_000)),
        option::weighted(0.2, tokens(1_000)),
        option::weighted(0.2, 0..4_u32),
    );
    let words = (
        select(vec![
            Placeholder::Fixed,
            Placeholder::Described,
            Placeholder::Index,
        ]),
        select(vec![vec![], vec!["keep".to_owned()]]),
        any::<bool>(),
    );
    (profile(), marks(), sizes, words).prop_map(
        |((profile, when, placement), marks, sizes, words)| {
            let (hard, soft) = marks;
            let (keep_recent, protect, minimum, user_turns) = sizes;
            let (placeholder, exempt_tools, keep_errors) = words;
            Wishes {
                profile,
                when,
                placement,
                hard,
                soft,
                keep_recent,
                protect,
                minimum,
                user_turns,
                placeholder,
                exempt_tools,
                keep_errors,
                ..Wishes::default()
            }
        },
    )
}

fn profile() -> impl Strategy<Value = (Profile, Option<When>, Placement)> {
    let profiles = vec![
        Profile::Auto,
        Profile::Frugal,
        Profile::Local,
        Profile::Standard,
    ];
    let when = select(vec![When::Always, When::Mark, When::Pressure]);
    (
        select(profiles),
        option::weighted(0.3, when),
        select(vec![Placement::Separate, Placement::Merged]),
    )
}

/// The hard mark, and a soft one that is not above it.
fn marks() -> impl Strategy<Value = (Threshold, Threshold)> {
    let Wishes { hard, soft, .. } = Wishes::default();
    let shares = (50..=100_u32, 50..=100_u32).prop_map(|(one, other)| {
        (
            Threshold::Share(one.max(other)),
            Threshold::Share(one.min(other)),
        )
    });
    let absolute = (500..40_000_u32, 50..=100_u32).prop_map(move |(tokens, share)| {
        let before = Tokens::new(tokens).percent(share);
        let soft = if share < 95 {
            Threshold::Tokens(before)
        } else {
            soft
        };
        (Threshold::Tokens(Tokens::new(tokens)), soft)
    });
    prop_oneof![2 => Just((hard, soft)), 1 => shares, 2 => absolute]
}

fn tokens(most: u32) -> impl Strategy<Value = Tokens> {
    (0..most).prop_map(Tokens::new)
}
