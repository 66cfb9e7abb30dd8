//! What is asked for on the command line.

use crate::play::Summaries;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use longhaul::demo::TokenDensity;

/// What is asked for.
pub(crate) struct Options {
    /// What is made out.
    pub(crate) report: Report,
    pub(crate) rows: Rows,
    /// Of the session of a hundred windows, every so many-th request is sent.
    pub(crate) stride: usize,
    /// Windows, in tokens.
    pub(crate) windows: Vec<u64>,
    pub(crate) profiles: Vec<String>,
    /// Parts of the names of the sessions; all for none.
    pub(crate) sessions: Vec<String>,
    pub(crate) summaries: Summaries,
    pub(crate) density: TokenDensity,
    /// Who says how large the window is.
    pub(crate) window_from: WindowFrom,
    /// What else the proxy is told: settings by their keys.
    pub(crate) settings: Vec<(String, String)>,
}

/// What is made out.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Report {
    /// The bill of each profile and window, and the goals.
    Bill,
    /// The bill over the numbers of the rule.
    Sweep,
    /// A session of a hundred windows, chained from the recorded ones, and its goals.
    Hundred,
    /// The session of three windows alone, and its goals.
    Three,
}

/// How far a bill goes into detail.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Rows {
    /// A row for each session too.
    Sessions,
    /// A row for all sessions together.
    Sums,
}

/// Who says how large the window is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WindowFrom {
    /// The model, by refusing.
    Refusal,
    /// The setting.
    Setting,
}

impl Options {
    /// Reads the arguments of this process; ends it where they make no sense.
    pub(crate) fn read() -> Self {
        let matches = command().get_matches();
        let all = |name: &str| -> Vec<String> {
            let values = matches.get_many::<String>(name);
            values.unwrap_or_default().cloned().collect()
        };
        Self {
            report: if matches.get_flag("sweep") {
                Report::Sweep
            } else if matches.get_flag("three") {
                Report::Three
            } else if matches.get_flag("hundred") {
                Report::Hundred
            } else {
                Report::Bill
            },
            rows: if matches.get_flag("each") {
                Rows::Sessions
            } else {
                Rows::Sums
            },
            stride: matches.get_one("stride").copied().unwrap_or(1),
            windows: numbers(&matches, "windows"),
            profiles: all("profile"),
            sessions: all("sessions"),
            summaries: if matches.get_flag("summaries") {
                Summaries::Own
            } else {
                Summaries::None
            },
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
        Arg::new(name)
            .long(name)
            .value_delimiter(',')
            .default_value(default)
            .help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .help(help)
    };
    Command::new("bill")
        .about("What sessions cost with longhaul, beside no proxy and a window without end")
        .arg(
            value(
                "windows",
                "8000,16000,32000,64000,128000,200000",
                "Windows, in tokens",
            )
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
            value(
                "density",
                "40",
                "Tenths of a byte that the model counts a token for",
            )
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
        .arg(flag(
            "untold",
            "Leave the proxy to learn the window from a refusal",
        ))
        .arg(flag(
            "summaries",
            "Have the model write summaries; else digests stand for history",
        ))
        .arg(flag(
            "three",
            "The session of three windows of 32,000 alone",
        ))
        .arg(
            Arg::new("stride")
                .long("stride")
                .default_value("2")
                .value_parser(|text: &str| match text.parse::<usize>() {
                    Ok(stride) if stride > 0 => Ok(stride),
                    Ok(_) | Err(_) => Err("expected a number from 1 up"),
                })
                .help("Of the session of a hundred windows, send every so many-th request"),
        )
        .arg(flag(
            "hundred",
            "A session of a hundred windows of 32,000, chained from the recorded ones",
        ))
        .arg(flag(
            "sweep",
            "The profile standard at 200,000 over protect x minimum x user turns",
        ))
        // Cargo says so to every benchmark.
        .arg(flag("bench", "").hide(true))
}
