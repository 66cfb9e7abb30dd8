//! Random settings, as an operator may choose them.

use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::{CompactionSettings, Profile, PruneTrigger, ThresholdSetting};
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Generates settings with all three stages on. Tests of the program cover the switches.
pub(crate) fn wishes() -> impl Strategy<Value = CompactionSettings> {
    let sizes = (
        option::weighted(0.3, tokens(8_000)),
        option::weighted(0.2, tokens(4_000)),
        option::weighted(0.2, tokens(1_000)),
        option::weighted(0.2, 0..4_u32),
    );
    let words = (
        select(vec![None, Some(Placeholder::Fixed), Some(Placeholder::Described)]),
        select(vec![vec![], vec!["keep".to_owned()]]),
        any::<bool>(),
    );
    (profile(), marks(), sizes, words).prop_map(
        |((profile, when, placement), marks, sizes, words)| {
            let (hard, soft) = marks;
            let (keep_recent, protect, minimum, user_turns) = sizes;
            let (placeholder, exempt_tools, keep_errors) = words;
            CompactionSettings {
                profile,
                prune_trigger: when,
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
                ..CompactionSettings::default()
            }
        },
    )
}

fn profile() -> impl Strategy<Value = (Profile, Option<PruneTrigger>, Placement)> {
    let profiles = vec![Profile::Auto, Profile::Frugal, Profile::Local, Profile::Standard];
    let when = select(vec![PruneTrigger::Always, PruneTrigger::HardThreshold]);
    (
        select(profiles),
        option::weighted(0.3, when),
        select(vec![Placement::Separate, Placement::Merged]),
    )
}

/// Generates a hard mark, and a soft mark that is not above it.
fn marks() -> impl Strategy<Value = (ThresholdSetting, ThresholdSetting)> {
    let CompactionSettings { hard, soft, .. } = CompactionSettings::default();
    let shares = (50..=100_u32, 50..=100_u32).prop_map(|(one, other)| {
        (ThresholdSetting::Percent(one.max(other)), ThresholdSetting::Percent(one.min(other)))
    });
    let absolute = (500..40_000_u32, 50..=100_u32).prop_map(move |(tokens, share)| {
        let before = Tokens::new(tokens).percent(share);
        let soft = if share < 95 { ThresholdSetting::Tokens(before) } else { soft };
        (ThresholdSetting::Tokens(Tokens::new(tokens)), soft)
    });
    prop_oneof![2 => Just((hard, soft)), 1 => shares, 2 => absolute]
}

fn tokens(most: u32) -> impl Strategy<Value = Tokens> {
    (0..most).prop_map(Tokens::new)
}
