//! Tests of the policies for windows of all sizes.

use super::*;

fn policy(window: u32) -> Policy {
    Policy::new(&CompactionSettings::default(), Tokens::new(window))
}

#[test]
fn reported_window_moves_the_thresholds_but_not_the_pruning_rule() {
    for window in [32_000, 200_000] {
        for reported in [8_000, 64_000, 1_000_000] {
            let plain = policy(window);
            let asked = policy(window).with_window(Tokens::new(reported));
            assert_eq!(asked.prune, plain.prune);
            assert_eq!(asked.recovery_protect, plain.recovery_protect);
            assert_eq!(asked.prune_thresholds, plain.prune_thresholds);
            assert_eq!(asked.prune_summary_size, plain.prune_summary_size);
            assert_eq!(asked.max_pinned_first, plain.max_pinned_first);
            assert_ne!(asked.thresholds, plain.thresholds);
            // In both of the largest windows, each budget has its upper limit.
            let is_limited = window == 200_000 && reported == 1_000_000;
            assert_eq!(asked.budgets == plain.budgets, is_limited);
        }
    }
}

#[test]
fn a_counted_window_moves_thresholds_only_if_they_no_longer_fit() {
    let plain = policy(32_000);
    let near = plain.clone().with_counted_window(plain.thresholds.hard);
    assert_eq!(near.thresholds.max_input(None), plain.thresholds.hard);
    assert_eq!((near.thresholds.hard, near.budgets), (plain.thresholds.hard, plain.budgets));
    let dense = plain.clone().with_counted_window(Tokens::new(21_999));
    assert_eq!(dense.thresholds.window, Tokens::new(20_000));
    assert_eq!(dense.thresholds.max_input(None), Tokens::new(21_999));
    for counted in [near, dense] {
        assert_eq!(counted.prune_thresholds, plain.prune_thresholds);
        assert_eq!(counted.prune, plain.prune);
        assert_eq!(counted.max_pinned_first, plain.max_pinned_first);
    }
}

#[test]
fn separate_output_is_not_deducted_from_the_input_limit() {
    let output = Some(Tokens::new(20_000));
    let shared = policy(200_000);
    assert_eq!(shared.thresholds.max_input(output), Tokens::new(180_000));
    let mut apart = policy(200_000);
    apart.thresholds.output = OutputWindow::Separate;
    assert_eq!(apart.thresholds.max_input(output), Tokens::new(200_000));
}

fn marks(hard: ThresholdSetting, soft: ThresholdSetting, window: u32) -> (u32, u32) {
    let settings = CompactionSettings { hard, soft, ..CompactionSettings::default() };
    let marks = Policy::new(&settings, Tokens::new(window)).thresholds;
    (marks.soft.get(), marks.hard.get())
}

const fn at(tokens: u32) -> ThresholdSetting {
    ThresholdSetting::Tokens(Tokens::new(tokens))
}

const DEFAULT: (ThresholdSetting, ThresholdSetting) =
    (ThresholdSetting::Percent(HARD_PERCENT), ThresholdSetting::Percent(SOFT_PERCENT));

#[test]
fn absolute_thresholds_apply_in_a_huge_window() {
    let million = 1_000_000;
    assert_eq!(marks(DEFAULT.0, DEFAULT.1, million), (836_073, 885_254));
    assert_eq!(marks(at(150_000), DEFAULT.1, million), (142_500, 150_000));
    assert_eq!(marks(at(150_000), at(100_000), million), (100_000, 150_000));
    assert_eq!(marks(DEFAULT.0, at(100_000), million), (100_000, 885_254));
}

#[test]
fn the_soft_threshold_leaves_a_request_before_the_hard_threshold() {
    for (window, lead) in [(8_000, 630), (32_768, 2_580), (48_000, 3_000), (128_000, 5_600)] {
        let (soft, hard) = marks(DEFAULT.0, DEFAULT.1, window);
        assert_eq!(hard - soft, lead, "{window}");
    }
    assert_eq!(marks(at(25_000), DEFAULT.1, 32_768), (22_500, 25_000));
    assert_eq!(marks(DEFAULT.0, at(25_000), 32_768), (23_224, 25_804));
    assert_eq!(marks(at(60_000), at(60_000), 200_000), (57_000, 60_000));
}

#[test]
fn an_absolute_threshold_above_a_small_window_uses_the_default_share() {
    let (soft, hard) = marks(at(150_000), at(140_000), 32_000);
    assert_eq!((soft, hard), marks(DEFAULT.0, DEFAULT.1, 32_000));
}

#[test]
fn soft_threshold_never_exceeds_the_hard_threshold() {
    for window in [2_000, 32_000, 200_000, 1_000_000] {
        for hard in [ThresholdSetting::Percent(50), at(1_000), at(60_000)] {
            for soft in [ThresholdSetting::Percent(100), at(1_000), at(900_000)] {
                let (soft, hard) = marks(hard, soft, window);
                assert!(soft <= hard, "{soft} {hard} at {window}");
            }
        }
    }
}

#[test]
fn keep_recent_and_budgets_follow_an_absolute_hard_threshold() {
    let settings = CompactionSettings { hard: at(30_000), ..CompactionSettings::default() };
    let policy = Policy::new(&settings, Tokens::new(1_000_000));
    assert_eq!(policy.keep_recent, Tokens::new(2_100));
    assert!(policy.budgets.nominal() < policy.thresholds.hard.divided_by(3));
    assert!(policy.thresholds.prune_target < policy.thresholds.hard);
}

#[test]
fn relief_threshold_is_below_the_hard_threshold() {
    for percent in [20, 50, 70, 90, 100] {
        let settings = CompactionSettings {
            hard: ThresholdSetting::Percent(percent),
            ..CompactionSettings::default()
        };
        let marks = Policy::new(&settings, Tokens::new(32_000)).thresholds;
        assert!(marks.prune_target < marks.hard, "{percent}%");
    }
}

#[test]
fn recovery_target_is_60_percent_or_less_beside_a_large_output() {
    let check = |window, output: Option<u32>, expect| {
        let target = policy(window).thresholds.recovery_target(output.map(Tokens::new));
        assert_eq!(target, Tokens::new(expect), "{window} {output:?}");
    };
    // 60% of the window, unless its output and 5% leave less.
    check(32_000, None, 19_200);
    check(32_000, Some(11_200), 19_200);
    check(32_000, Some(11_201), 19_199);
    // At most half of the window counts as output, and at most 32,000.
    check(32_000, Some(16_000), 14_400);
    check(32_000, Some(32_000), 14_400);
    check(80_000, Some(32_000), 44_000);
    check(80_000, Some(80_000), 44_000);
    check(1_000_000, Some(1_000_000), 600_000);
}

#[test]
fn nominal_summary_size_is_the_sum_of_its_budgets() {
    let check = |window, [prose, steps, activity, index, said, agreed]: [u32; 6]| {
        let policy = policy(window);
        let expect = SummaryBudgets {
            prose: Tokens::new(prose),
            steps: Tokens::new(steps),
            file_activity: Tokens::new(activity),
            identifiers: Tokens::new(index),
            user_messages: Tokens::new(said),
            agreements: Tokens::new(agreed),
            requests: Tokens::ZERO,
        };
        assert_eq!(policy.budgets, expect, "{window}");
        let all = Tokens::new(prose.max(steps) + activity + index + said + agreed);
        assert_eq!(policy.budgets.nominal(), all, "{window}");
        let usual = all - Tokens::new(said / 2 + agreed);
        assert_eq!(policy.prune_summary_size, usual, "{window}");
    };
    // Shares of a capacity of 3,500, of 28,000 and of 183,616 tokens.
    check(4_000, [250, 300, 52, 175, 315, 350]);
    check(32_000, [1_120, 1_680, 420, 1_400, 2_520, 1_400]);
    check(200_000, [1_500, 4_000, 1_000, 2_000, 4_000, 4_000]);
}

#[test]
fn hard_threshold_trigger_does_not_prune_between_cuts() {
    let check = |prune, when, expect| {
        let settings = CompactionSettings {
            prune,
            prune_trigger: Some(when),
            ..CompactionSettings::default()
        };
        let policy = Policy::new(&settings, Tokens::new(32_000));
        assert_eq!(policy.prunes_between_cuts(), expect, "{when:?}");
    };
    check(true, PruneTrigger::Always, true);
    check(true, PruneTrigger::HardThreshold, false);
    check(false, PruneTrigger::Always, false);
}

#[test]
fn only_the_local_profile_has_its_own_default_window() {
    let check = |profile, expect| {
        let window = Policy::default_window(profile);
        assert_eq!(window, Tokens::new(expect), "{profile:?}");
    };
    check(Profile::Auto, 200_000);
    check(Profile::Frugal, 200_000);
    check(Profile::Local, 10_000);
    check(Profile::Standard, 200_000);
}

#[test]
fn frugal_profile_sizes_the_room_by_cache_price() {
    let marks = |window, class, hard| {
        let settings = CompactionSettings {
            profile: Profile::Frugal,
            cache_price: class,
            hard,
            ..CompactionSettings::default()
        };
        let marks = Policy::new(&settings, Tokens::new(window)).thresholds;
        assert!(marks.soft < marks.hard && marks.hard <= marks.window_hard_threshold);
        (marks.capacity.get(), marks.hard.get())
    };
    let usual = ThresholdSetting::Percent(90);
    assert_eq!(marks(200_000, None, usual), (32_000, 28_800));
    assert_eq!(marks(200_000, None, usual), marks(1_000_000, Some(CachePrice::Half), usual));
    assert_eq!(marks(200_000, Some(CachePrice::Fiftieth), usual), (40_000, 36_000));
    // A small window sets the threshold.
    assert_eq!(marks(16_000, None, usual), (11_900, 10_710));
    // The operator's number wins.
    let own = ThresholdSetting::Tokens(Tokens::new(100_000));
    assert_eq!(marks(200_000, None, own), (100_000, 100_000));
}

#[test]
fn clearing_is_weighed_unless_profile_or_settings_fix_its_numbers() {
    let weighs =
        |settings: CompactionSettings| Policy::new(&settings, Tokens::new(200_000)).weighs_clearing;
    let usual = CompactionSettings::default();
    assert!(weighs(usual.clone()));
    for profile in [Profile::Standard, Profile::Local] {
        assert!(!weighs(CompactionSettings { profile, ..usual.clone() }));
    }
    assert!(!weighs(CompactionSettings { minimum: Some(Tokens::new(20_000)), ..usual.clone() }));
    assert!(!weighs(CompactionSettings { protect: Some(Tokens::new(40_000)), ..usual.clone() }));
    assert!(!weighs(CompactionSettings { prune_trigger: Some(PruneTrigger::Always), ..usual }));
}
