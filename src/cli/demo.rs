//! `longhaul demo`: a recorded session played to a model too small for it, first direct, then
//! through longhaul, and a table of what became of each request.
//!
//! Ctrl-C needs no handler: everything lives in this process, and the system ends it.

mod client;
mod injected;
mod play;
mod progress;
mod report;
mod row;
mod session;
mod table;
mod totals;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::demo::ModelOptions;
use crate::error::Problem;
pub(super) use play::{Summariser, play_through_proxy};
pub(super) use report::{PlayOutcome, error_text as ending};
pub(super) use row::PlayRow;
pub(super) use session::{RecordedSession, invalid_session};
pub(super) use totals::{PlayTotals, percent};

use report::DemoReport;
use table::{Paint, RowSelection};

/// The window of the model where none is asked for, in tokens: what local servers often have, and
/// the session that the program brings is almost four of them long.
const DEFAULT_WINDOW: &str = "32768";
/// The smallest window that a request of real size may be expected to fit.
const MIN_WINDOW: u64 = 2_048;

/// What a person asked for.
struct DemoOptions {
    window: u64,
    session: Option<PathBuf>,
    summariser: Summariser,
    output: DemoFormat,
}

/// How the outcome is told.
enum DemoFormat {
    Json,
    Table(RowSelection),
}

/// The command and its options. It shares no setting with the proxy of every day: the show is what
/// the defaults do.
pub(super) fn command() -> Command {
    let own = [
        Arg::new("window").value_name("TOKENS").help(format!(
            "How many tokens the model holds; longhaul is not told [default: {DEFAULT_WINDOW}]"
        )),
        Arg::new("session")
            .value_name("FILE")
            .help("Play this instead: the last request body of a session, JSON, gzip or not"),
        Arg::new("summary-model")
            .value_name("own|none")
            .help("Who condenses history: the model, or nobody, and digests serve [default: own]"),
        Arg::new("all")
            .action(ArgAction::SetTrue)
            .help("Print a row for every request, and the injected message whole"),
        Arg::new("json")
            .action(ArgAction::SetTrue)
            .help("Print all of it as one JSON object"),
    ]
    .map(|option| {
        let name = option.get_id().clone();
        option.long(name)
    });
    Command::new("demo")
        .about("Show what longhaul does with a recorded session: no key, no network")
        .args(own)
}

/// Plays, prints, and ends with 0 if the session died without longhaul and was finished with it.
///
/// # Errors
/// An option or the session's file cannot be used, or the answer not be written.
pub(super) fn demo(matches: &ArgMatches) -> Result<ExitCode, Vec<Problem>> {
    let wanted = parse_options(matches).map_err(Problem::CommandLine)?;
    let session = match &wanted.session {
        Some(file) => RecordedSession::read(file)?,
        None => RecordedSession::built_in().map_err(Problem::CommandLine)?,
    };
    let options = ModelOptions::with_window(wanted.window);
    let played = super::runtime()?.block_on(play::play_both(&session, options, wanted.summariser));
    let report = match played {
        Ok(report) => report,
        Err(error) => {
            return Ok(report_failures(&[format!(
                "the show could not be set up: {error}"
            )]));
        }
    };
    super::print(&render(&report, &wanted.output))?;
    let failures = report.failures();
    Ok(if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        report_failures(&failures)
    })
}

fn parse_options(matches: &ArgMatches) -> Result<DemoOptions, String> {
    let option = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let window = option("window").unwrap_or(DEFAULT_WINDOW);
    let window = window
        .parse()
        .ok()
        .filter(|tokens| *tokens >= MIN_WINDOW)
        .ok_or_else(|| {
            format!("--window {window}: expected a number of tokens, {MIN_WINDOW} or more")
        })?;
    let summariser = match option("summary-model") {
        None | Some("own") => Summariser::Own,
        Some("none") => Summariser::Nobody,
        Some(other) => return Err(format!("--summary-model {other}: expected own or none")),
    };
    let rows = if matches.get_flag("all") {
        RowSelection::All
    } else {
        RowSelection::Notable
    };
    Ok(DemoOptions {
        window,
        session: option("session").map(PathBuf::from),
        summariser,
        output: if matches.get_flag("json") {
            DemoFormat::Json
        } else {
            DemoFormat::Table(rows)
        },
    })
}

fn render(report: &DemoReport, output: &DemoFormat) -> String {
    match output {
        DemoFormat::Json => report.json(),
        DemoFormat::Table(rows) => {
            let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let paint = if io::stdout().is_terminal() && !plain {
                Paint::Colours
            } else {
                Paint::Plain
            };
            table::render_page(report, *rows, paint)
        }
    }
}

fn report_failures(reasons: &[String]) -> ExitCode {
    for reason in reasons {
        super::print_error(&format!("longhaul: {reason}\n"));
    }
    ExitCode::FAILURE
}
