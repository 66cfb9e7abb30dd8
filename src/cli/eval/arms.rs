//! The settings to compare: one arm for each combination of the flags that may be repeated.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::config::{ChoiceSetting, Config, Layers, SummaryStyle};
use crate::error::Problem;
use longhaul_core::policy::Profile;
use longhaul_core::pruning::placeholder::Placeholder;

/// The flags that may be repeated.
#[derive(Args)]
pub(super) struct ArmFlags {
    #[arg(long, value_name = "NAME", value_parser = names::<Profile>())]
    #[arg(help = "Evaluate this profile; repeat to compare several [default: the configured one]")]
    profile: Vec<String>,
    /// Evaluate this text in place of cleared results; repeat to compare several
    #[arg(long, value_name = "NAME", value_parser = names::<Placeholder>())]
    placeholder: Vec<String>,
    /// Evaluate this style of summary calls; repeat to compare several
    #[arg(id = "summary-style", long, value_name = "NAME", value_parser = names::<SummaryStyle>())]
    summary_style: Vec<String>,
}

/// Most arms. Each one costs as much as the original.
const MAX_ARMS: usize = 12;

/// Settings to evaluate.
pub(super) struct Arm {
    /// The values that distinguish the arm, for people.
    pub(super) name: String,
    pub(super) config: Config,
}

impl ArmFlags {
    /// Returns an arm for each combination of the values, over the settings of `layers`. Fails if the
    /// settings are invalid, or there are more than [`MAX_ARMS`] combinations.
    pub(super) fn arms(&self, layers: impl Fn() -> Layers) -> Result<Vec<Arm>, Vec<Problem>> {
        // Flag, key of the setting, and values.
        let choices = [
            ("profile", "profile", &self.profile),
            ("placeholder", "prune.placeholder", &self.placeholder),
            ("summary-style", "summary.style", &self.summary_style),
        ];
        let mut combinations: Vec<Vec<(&str, &str, &str)>> = vec![Vec::new()];
        for (flag, key, values) in choices {
            let mut distinct: Vec<&str> = Vec::new();
            for value in values {
                if !distinct.contains(&value.as_str()) {
                    distinct.push(value);
                }
            }
            if !distinct.is_empty() {
                let with = |before: &Vec<_>| {
                    let next = |value| [before.as_slice(), &[(flag, key, value)]].concat();
                    distinct.iter().copied().map(next).collect::<Vec<_>>()
                };
                combinations = combinations.iter().flat_map(with).collect();
            }
            if combinations.len() > MAX_ARMS {
                let reason = format!("more than {MAX_ARMS} combinations of settings; name fewer");
                return Err(Problem::CommandLine(reason).into());
            }
        }
        let arms = combinations.into_iter().map(|values| {
            let mut layers = layers();
            for (flag, key, value) in &values {
                layers.apply_flag(key, flag, value);
            }
            let names = values
                .iter()
                .map(|(flag, _, value)| format!("{flag} {value}"));
            let names: Vec<String> = names.collect();
            Ok(Arm {
                name: if names.is_empty() {
                    "as configured".to_owned()
                } else {
                    names.join(", ")
                },
                config: Config::from_resolved(&layers.resolve()?)?,
            })
        });
        arms.collect()
    }
}

/// Returns the parser of the words of a setting.
fn names<T: ChoiceSetting>() -> PossibleValuesParser {
    PossibleValuesParser::new(T::ALL.iter().map(|(name, _)| *name))
}
