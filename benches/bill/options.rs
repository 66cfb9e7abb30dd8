//! Command line options.

use crate::play::Summaries;
use crate::sessions::{Api, Part};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use longhaul_mock_model::TokenDensity;

/// Parsed command line options.
pub(crate) struct Options {
    /// Report to produce.
    pub(crate) report: Report,
    pub(crate) api: Api,
    pub(crate) rows: Rows,
    /// Windows, in tokens.
    pub(crate) windows: Vec<u64>,
    pub(crate) profiles: Vec<String>,
    /// Substrings of session names to select; all sessions if empty.
    pub(crate) sessions: Vec<String>,
    pub(crate) part: Part,
    pub(crate) summaries: Summaries,
    pub(crate) density: TokenDensity,
    /// Source of the window size.
    pub(crate) window_from: WindowFrom,
    /// Additional settings of the proxy, by key.
    pub(crate) settings: Vec<(String, String)>,
}

/// Report to produce.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Report {
    /// The bill of each profile and window, with the goals.
    Bill,
    /// Only the session of three windows, with its goals.
    Three,
}

/// Level of detail of a bill.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Rows {
    /// A row per session, in addition to the sums.
    Sessions,
    /// A row for all sessions together.
    Sums,
}

/// Source of the window size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WindowFrom {
    /// The model's refusal.
    Refusal,
    /// The window setting.
    Setting,
}

impl Options {
    /// Reads the arguments of this process; exits if they are invalid.
    pub(crate) fn read() -> Self {
        let matches = command().get_matches();
        let all = |name: &str| -> Vec<String> {
            let values = matches.get_many::<String>(name);
            values.unwrap_or_default().cloned().collect()
        };
        Self {
            report: if matches.get_flag("three") { Report::Three } else { Report::Bill },
            api: matches
                .get_one::<String>("dialect")
                .and_then(|name| Api::from_name(name))
                .unwrap_or(Api::ChatCompletions),
            rows: if matches.get_flag("each") { Rows::Sessions } else { Rows::Sums },
            windows: numbers(&matches, "windows"),
            profiles: all("profile"),
            sessions: all("sessions"),
            part: matches
                .get_one::<String>("part")
                .and_then(|name| Part::from_name(name))
                .unwrap_or(Part::All),
            summaries: if matches.get_flag("summaries") { Summaries::Own } else { Summaries::None },
            density: TokenDensity::from_tenths(
                numbers(&matches, "density").first().copied().unwrap_or(0),
            ),
            window_from: if matches.get_flag("untold") {
                WindowFrom::Refusal
            } else {
                WindowFrom::Setting
            },
            settings: all("set").iter().filter_map(|set| pair(set)).collect(),
        }
    }
}

fn pair(set: &str) -> Option<(String, String)> {
    let (key, value) = set.split_once('=')?;
    Some((key.to_owned(), value.to_owned()))
}

fn numbers(matches: &ArgMatches, name: &str) -> Vec<u64> {
    let values = matches.get_many::<u64>(name);
    values.unwrap_or_default().copied().collect()
}

fn command() -> Command {
    let value = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_delimiter(',').default_value(default).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("bill")
        .about("What sessions cost with longhaul, beside no proxy and a window without end")
        .arg(
            value("windows", "8000,16000,32000,64000,128000,200000", "Windows, in tokens")
                .value_parser(value_parser!(u64).range(1_000..)),
        )
        .arg(value("profile", "auto,standard,frugal", "Profiles"))
        .arg(
            Arg::new("sessions")
                .long("sessions")
                .value_delimiter(',')
                .help("Parts of the names of the sessions to play; all if absent"),
        )
        .arg(
            value("dialect", Api::NAMES[0], "The API whose sessions are played")
                .value_parser(Api::NAMES),
        )
        .arg(
            Arg::new("part")
                .long("part")
                .value_parser(["all", "build", "judge"])
                .help("Sessions on which numbers were chosen, or those that judge the choice"),
        )
        .arg(
            value("density", "40", "Tenths of a byte that the model counts a token for")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .action(ArgAction::Append)
                .value_name("KEY=VALUE")
                .value_parser(|set: &str| {
                    let told = pair(set).map(|_| set.to_owned());
                    told.ok_or("expected KEY=VALUE")
                })
                .help("A setting of the proxy"),
        )
        .arg(flag("each", "Print a row for each session too"))
        .arg(flag("untold", "Leave the proxy to learn the window from a refusal"))
        .arg(flag("summaries", "Have the model write summaries; else digests stand for history"))
        .arg(flag("three", "The session of three windows of 32,000 alone"))
        // Cargo passes this flag to every benchmark.
        .arg(flag("bench", "").hide(true))
}
