//! The settings to compare: one arm for each combination of the flags that may be repeated.

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};

use crate::error::LabError;
use crate::proxy::Settings;

/// The flags that may be repeated.
#[derive(Args)]
pub(super) struct ArmFlags {
    #[arg(long, value_name = "NAME")]
    #[arg(help = "Evaluate this profile; repeat to compare several [default: the configured one]")]
    profile: Vec<String>,
    /// Evaluate this text in place of cleared results; repeat to compare several
    #[arg(long, value_name = "NAME")]
    placeholder: Vec<String>,
    /// Evaluate this style of summary calls; repeat to compare several
    #[arg(id = "summary-style", long, value_name = "NAME")]
    summary_style: Vec<String>,
}

/// The values of settings that may be compared.
#[derive(Clone, Debug)]
pub struct ChoiceNames {
    /// Values of the setting `profile`.
    pub profiles: Vec<&'static str>,
    /// Values of the setting `prune.placeholder`.
    pub placeholders: Vec<&'static str>,
    /// Values of the setting `summary.style`.
    pub summary_styles: Vec<&'static str>,
}

/// A value of one setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingChange<'a> {
    /// Name of the flag, without dashes.
    pub flag: &'a str,
    /// Key of the setting.
    pub key: &'a str,
    /// The value.
    pub value: &'a str,
}

/// Maximum arms. Each costs as much as the original.
const MAX_ARMS: usize = 12;

/// Settings to evaluate.
pub(super) struct Arm {
    /// The values that distinguish the arm, for people.
    pub(super) name: String,
    pub(super) settings: Settings,
    /// Whether the newest messages stand in the place of the forwarded ones, in the same size.
    pub(super) is_newest: bool,
}

impl ArmFlags {
    /// Returns an arm for each combination of the values, under the settings that `settings` returns. With
    /// `has_newest`, another one has the newest messages. Fails if the settings are invalid, or there are
    /// more than [`MAX_ARMS`] combinations.
    pub(super) fn arms<E: From<LabError>>(
        &self,
        has_newest: bool,
        settings: impl Fn(&[SettingChange<'_>]) -> Result<Settings, Vec<E>>,
    ) -> Result<Vec<Arm>, Vec<E>> {
        let choices = [
            ("profile", "profile", &self.profile),
            ("placeholder", "prune.placeholder", &self.placeholder),
            ("summary-style", "summary.style", &self.summary_style),
        ];
        let mut combinations: Vec<Vec<SettingChange<'_>>> = vec![Vec::new()];
        for (flag, key, values) in choices {
            let mut distinct: Vec<&str> = Vec::new();
            for value in values {
                if !distinct.contains(&value.as_str()) {
                    distinct.push(value);
                }
            }
            if !distinct.is_empty() {
                let with = |before: &Vec<_>| {
                    let next = |value| {
                        let change = SettingChange { flag, key, value };
                        [before.as_slice(), &[change]].concat()
                    };
                    distinct.iter().copied().map(next).collect::<Vec<_>>()
                };
                combinations = combinations.iter().flat_map(with).collect();
            }
            if combinations.len() > MAX_ARMS {
                let reason = format!("more than {MAX_ARMS} combinations of settings; name fewer");
                return Err(vec![LabError::CommandLine(reason).into()]);
            }
        }
        let kinds = [false, true].into_iter().filter(|is_newest| has_newest || !is_newest);
        let each = |changes| kinds.clone().map(move |is_newest| (changes, is_newest));
        let arms = combinations.iter().flat_map(each).map(|(changes, is_newest)| {
            let names = changes.iter();
            let names = names.map(|change| format!("{} {}", change.flag, change.value));
            let name = names.collect::<Vec<_>>().join(", ");
            let name = if name.is_empty() { "as configured".to_owned() } else { name };
            let name = if is_newest { format!("newest messages (size: {name})") } else { name };
            Ok(Arm { name, settings: settings(changes)?, is_newest })
        });
        arms.collect()
    }
}

/// Adds the values of the flags to the command that has them.
pub(super) fn with_names(command: Command, names: ChoiceNames) -> Command {
    command
        .mut_arg("profile", |flag| flag.value_parser(parser(names.profiles)))
        .mut_arg("placeholder", |flag| flag.value_parser(parser(names.placeholders)))
        .mut_arg("summary-style", |flag| flag.value_parser(parser(names.summary_styles)))
}

fn parser(names: Vec<&'static str>) -> PossibleValuesParser {
    PossibleValuesParser::new(names)
}
