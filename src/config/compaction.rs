//! Reads compaction settings.

use super::resolved::ResolvedSettings;
use super::settings;
use crate::error::Problem;
use longhaul_core::policy::{CompactionSettings, StandingWords, ThresholdSetting};
use std::sync::Arc;

/// Reads the compaction settings. Fails if the soft threshold is above the hard threshold.
pub(super) fn compaction_settings(found: &ResolvedSettings) -> Result<CompactionSettings, Problem> {
    let settings = CompactionSettings {
        profile: found.value(&settings::PROFILE)?,
        prune: !found.value(&settings::PRUNE_DISABLED)?,
        proactive: !found.value(&settings::COMPACT_AUTO_DISABLED)?,
        recover: !found.value(&settings::COMPACT_OVERFLOW_DISABLED)?,
        remove_thinking: !found.value(&settings::THINKING_REMOVAL_DISABLED)?,
        adds_cache_mark: !found.value(&settings::CACHE_MARK_DISABLED)?,
        protect: found.value(&settings::PRUNE_PROTECT)?,
        minimum: found.value(&settings::PRUNE_MINIMUM)?,
        user_turns: found.value(&settings::PRUNE_MIN_USER_TURNS)?,
        prune_trigger: found.value(&settings::PRUNE_WHEN)?,
        exempt_tools: found.value(&settings::PRUNE_EXEMPT_TOOLS)?,
        words: Arc::new(StandingWords {
            rule_files: found.value(&settings::COMPACT_RULE_FILES)?,
            kept: Vec::new(),
        }),
        keep_errors: found.value(&settings::PRUNE_KEEP_ERRORS)?,
        placeholder: found.value(&settings::PRUNE_PLACEHOLDER)?,
        // The model of each request decides.
        by_provider: false,
        clip_above: found.value(&settings::PRUNE_CLIP_ABOVE)?,
        hard: found.value(&settings::COMPACT_HARD)?,
        soft: found.value(&settings::COMPACT_SOFT)?,
        keep_recent: found.value(&settings::COMPACT_KEEP_RECENT)?,
        cache_price: found.value(&settings::COMPACT_CACHE_PRICE)?,
        placement: found.value(&settings::SUMMARY_PLACEMENT)?.initial_placement(),
        recall: None,
    };
    if always_above(settings.soft, settings.hard) {
        return Err(found.value_problem(
            &settings::COMPACT_SOFT,
            format!(
                "found {}, expected at most {}, which is {} from {}",
                threshold_text(settings.soft),
                settings::COMPACT_HARD.key,
                threshold_text(settings.hard),
                found.origin(&settings::COMPACT_HARD),
            ),
        ));
    }
    Ok(settings)
}

/// Whether `soft` is above `hard` in every window. A share and a number of tokens compare
/// differently in each window, so there the lower one applies.
fn always_above(soft: ThresholdSetting, hard: ThresholdSetting) -> bool {
    match (soft, hard) {
        (ThresholdSetting::Percent(soft), ThresholdSetting::Percent(hard)) => soft > hard,
        (ThresholdSetting::Tokens(soft), ThresholdSetting::Tokens(hard)) => soft > hard,
        (ThresholdSetting::Percent(_), ThresholdSetting::Tokens(_))
        | (ThresholdSetting::Tokens(_), ThresholdSetting::Percent(_)) => false,
    }
}

fn threshold_text(threshold: ThresholdSetting) -> String {
    match threshold {
        ThresholdSetting::Percent(percent) => format!("{percent}%"),
        ThresholdSetting::Tokens(tokens) => format!("{tokens} tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Mode, SummaryModel};
    use longhaul_core::policy::cache_price::CachePrice;
    use longhaul_core::policy::placement::Placement;
    use longhaul_core::policy::{Profile, PruneTrigger};
    use longhaul_core::pruning::placeholder::Placeholder;
    use longhaul_core::units::tokens::Tokens;

    fn config(changes: &[(&str, &str)]) -> Config {
        Config::default_with(changes.iter().copied()).unwrap()
    }

    #[test]
    fn empty_configuration_equals_the_core_defaults() {
        let config = config(&[]);
        assert_eq!(config.compaction, CompactionSettings::default());
        assert_eq!(config.window, Tokens::new(200_000));
        assert_eq!(config.window_place, None);
        assert_eq!(config.summary.model, SummaryModel::SameAsConversation);
        assert_eq!(config.mode, Mode::On);
    }

    #[test]
    fn each_setting_reaches_the_compaction_settings() {
        let config = config(&[
            ("profile", "frugal"),
            ("prune.protect_tokens", "1"),
            ("prune.minimum_tokens", "2"),
            ("prune.min_user_turns", "3"),
            ("prune.when", "mark"),
            ("prune.exempt_tools", "todo, plan"),
            ("prune.keep_errors", "yes"),
            ("prune.placeholder", "described"),
            ("prune.clip_above", "500"),
            ("compact.rule_files", "RULES.md"),
            ("compact.cache_price", "half"),
            ("compact.hard", "0.80"),
            ("compact.soft", "0.6"),
            ("thinking.removal_disabled", "yes"),
            ("compact.cache_mark_disabled", "yes"),
            ("compact.keep_recent_tokens", "4"),
            ("summary.placement", "merge"),
        ]);
        let expect = CompactionSettings {
            profile: Profile::Frugal,
            prune: true,
            proactive: true,
            recover: true,
            remove_thinking: false,
            adds_cache_mark: false,
            protect: Some(Tokens::new(1)),
            minimum: Some(Tokens::new(2)),
            user_turns: Some(3),
            prune_trigger: Some(PruneTrigger::HardThreshold),
            exempt_tools: vec!["todo".into(), "plan".into()],
            words: Arc::new(StandingWords {
                rule_files: vec!["RULES.md".into()],
                kept: Vec::new(),
            }),
            keep_errors: true,
            placeholder: Some(Placeholder::Described),
            by_provider: false,
            clip_above: Some(Tokens::new(500)),
            cache_price: Some(CachePrice::Half),
            hard: ThresholdSetting::Percent(80),
            soft: ThresholdSetting::Percent(60),
            keep_recent: Some(Tokens::new(4)),
            placement: Placement::Merged,
            recall: None,
        };
        assert_eq!(config.compaction, expect);
    }

    #[test]
    fn each_switch_disables_one_feature_and_all_three_the_proxy() {
        let acts = |config: &Config| {
            let settings = &config.compaction;
            (settings.prune, settings.proactive, settings.recover)
        };
        let prune = ("prune.disabled", "1");
        let auto = ("compact.auto_disabled", "1");
        let overflow = ("compact.overflow_disabled", "1");
        assert_eq!(acts(&config(&[prune])), (false, true, true));
        assert_eq!(acts(&config(&[auto])), (true, false, true));
        assert_eq!(acts(&config(&[overflow])), (true, true, false));
        assert_eq!(config(&[prune, auto]).mode, Mode::On);
        assert_eq!(config(&[prune, auto, overflow]).mode, Mode::Off);
    }

    #[test]
    fn a_window_given_wins_over_the_profile() {
        let local = ("profile", "local");
        let assumed = config(&[local]);
        assert_eq!(assumed.window, Tokens::new(10_000));
        assert_eq!(assumed.window_place, None);
        let given = config(&[local, ("window", "200000")]);
        assert_eq!(given.window, Tokens::new(200_000));
        assert!(given.window_place.is_some());
    }

    #[test]
    fn soft_threshold_may_not_exceed_the_hard_threshold() {
        let marks = |soft, hard| {
            Config::default_with([("compact.soft", soft), ("compact.hard", hard)]).is_ok()
        };
        assert!(marks("0.9", "0.9"));
        assert!(!marks("0.91", "0.9"));
        assert!(marks("100000", "150000"));
        assert!(!marks("150001", "150000"));
        assert!(marks("0.85", "150000"), "in each window the lower one holds");
        assert!(marks("150000", "0.2"), "in each window the lower one holds");
    }
}
