//! The settings to compare: one arm for each combination of the flags that may be repeated.

use clap::{Arg, ArgAction, ArgMatches};

use crate::config::{ChoiceSetting, Config, Layers, SummaryStyle};
use crate::error::Problem;
use longhaul_core::policy::Profile;
use longhaul_core::pruning::placeholder::Placeholder;

/// A flag that may be repeated.
struct Choice {
    flag: &'static str,
    /// The key of the setting.
    key: &'static str,
    help: &'static str,
    values: fn() -> Vec<&'static str>,
}

const CHOICES: [Choice; 3] = [
    Choice {
        flag: "profile",
        key: "profile",
        help: "Evaluate this profile; repeat to compare several [default: the configured one]",
        values: names::<Profile>,
    },
    Choice {
        flag: "placeholder",
        key: "prune.placeholder",
        help: "Evaluate this text in place of cleared results; repeat to compare several",
        values: names::<Placeholder>,
    },
    Choice {
        flag: "summary-style",
        key: "summary.style",
        help: "Evaluate this style of summary calls; repeat to compare several",
        values: names::<SummaryStyle>,
    },
];

/// Most arms. Each one costs as much as the original.
const MAX_ARMS: usize = 12;

/// Settings to evaluate.
pub(super) struct Arm {
    /// The values that distinguish the arm, for people.
    pub(super) name: String,
    pub(super) config: Config,
}

pub(super) fn flags() -> impl Iterator<Item = Arg> {
    CHOICES.iter().map(|choice| {
        Arg::new(choice.flag)
            .long(choice.flag)
            .value_name("NAME")
            .action(ArgAction::Append)
            .value_parser((choice.values)())
            .help(choice.help)
    })
}

/// Returns an arm for each combination of the values in `matches`, over the settings of `layers`.
/// Fails if the settings are invalid, or there are more than [`MAX_ARMS`] combinations.
pub(super) fn arms(
    layers: impl Fn() -> Layers,
    matches: &ArgMatches,
) -> Result<Vec<Arm>, Vec<Problem>> {
    let mut combinations: Vec<Vec<(&Choice, String)>> = vec![Vec::new()];
    for choice in &CHOICES {
        let Some(values) = matches.get_many::<String>(choice.flag) else {
            continue;
        };
        let mut distinct: Vec<&String> = Vec::new();
        for value in values {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        combinations = combinations
            .into_iter()
            .flat_map(|before| {
                distinct.iter().map(move |value| {
                    let mut next: Vec<(&Choice, String)> = Vec::new();
                    next.extend(
                        before
                            .iter()
                            .map(|(choice, value)| (*choice, value.clone())),
                    );
                    next.push((choice, (*value).clone()));
                    next
                })
            })
            .collect();
        if combinations.len() > MAX_ARMS {
            let reason = format!("more than {MAX_ARMS} combinations of settings; name fewer");
            return Err(Problem::CommandLine(reason).into());
        }
    }
    combinations
        .into_iter()
        .map(|values| {
            let mut layers = layers();
            for (choice, value) in &values {
                layers.apply_flag(choice.key, choice.flag, value);
            }
            let names: Vec<String> = values
                .iter()
                .map(|(choice, value)| format!("{} {value}", choice.flag))
                .collect();
            Ok(Arm {
                name: if names.is_empty() {
                    "as configured".to_owned()
                } else {
                    names.join(", ")
                },
                config: Config::from_resolved(&layers.resolve()?)?,
            })
        })
        .collect()
}

fn names<T: ChoiceSetting>() -> Vec<&'static str> {
    T::ALL.iter().map(|(name, _)| *name).collect()
}
