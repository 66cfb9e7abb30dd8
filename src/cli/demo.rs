//! `longhaul demo`: plays a recorded session to a model too small for it, first directly and then
//! through longhaul. Prints a table of the outcome of each request.
//!
//! Ctrl-C needs no handler: everything runs in this process, which the system ends.

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

use crate::config::token_count;
use crate::error::Problem;
use longhaul_mock_model::ModelOptions;
pub(super) use play::{Summariser, play_through_proxy, yield_to_tasks};
pub(super) use report::{PlayOutcome, error_text as ending};
pub(super) use row::PlayRow;
pub(super) use session::{RecordedSession, invalid_session};
pub(super) use totals::{PlayTotals, percent};

use report::DemoReport;
use table::{Paint, RowSelection};

/// The model's default window, in tokens. Local servers often have this window, and the built-in
/// session is almost four times as long.
const DEFAULT_WINDOW: &str = "32768";
/// The smallest window, in tokens, that a request of realistic size can be expected to fit.
const MIN_WINDOW: u64 = 2_048;

/// The options of the command.
struct DemoOptions {
    window: u64,
    session: Option<PathBuf>,
    dialect: DemoDialect,
    summariser: Summariser,
    output: DemoFormat,
}

/// The API of the built-in session.
enum DemoDialect {
    Chat,
    Messages,
    Responses,
}

/// The output format.
enum DemoFormat {
    Json,
    Table(RowSelection),
}

/// Builds the `demo` subcommand. It shares no setting with the proxy, since the demo shows what the
/// defaults do.
pub(super) fn command() -> Command {
    let own = [
        Arg::new("window").value_name("TOKENS").help(format!(
            "The model's window, which longhaul does not know [default: {DEFAULT_WINDOW}]"
        )),
        Arg::new("session")
            .value_name("FILE")
            .help("Play this session instead, from its last request body, JSON, gzip or not"),
        Arg::new("dialect").value_name("chat|messages|responses").help(
            "API of the built-in session: chat completions, Messages for Claude Code, or Responses for Codex [default: chat]",
        ),
        Arg::new("summary-model")
            .value_name("own|none")
            .help("Writer of summaries: the model, or none, for digests [default: own]"),
        Arg::new("all")
            .action(ArgAction::SetTrue)
            .help("Print a row for every request, and the whole injected message"),
        Arg::new("json")
            .action(ArgAction::SetTrue)
            .help("Print everything as one JSON object"),
    ]
    .map(|option| {
        let name = option.get_id().clone();
        option.long(name)
    });
    Command::new("demo")
        .about("Show what longhaul does with a recorded session: no key, no network")
        .args(own)
}

/// Plays the session and prints the outcome. Returns exit code 0 if the session failed without
/// longhaul and finished with it.
///
/// # Errors
/// An option or the session's file cannot be used, or the output cannot be written.
pub(super) fn demo(matches: &ArgMatches) -> Result<ExitCode, Vec<Problem>> {
    let wanted = parse_options(matches).map_err(Problem::CommandLine)?;
    let session = match &wanted.session {
        Some(file) => RecordedSession::read(file)?,
        None => match wanted.dialect {
            DemoDialect::Chat => RecordedSession::built_in(),
            DemoDialect::Messages => RecordedSession::built_in_messages(),
            DemoDialect::Responses => RecordedSession::built_in_responses(),
        }
        .map_err(Problem::CommandLine)?,
    };
    let options = ModelOptions::with_window(wanted.window);
    let played =
        crate::cli::runtime()?.block_on(play::play_both(&session, options, wanted.summariser));
    let report = match played {
        Ok(report) => report,
        Err(error) => {
            return Ok(report_failures(&[format!(
                "cannot set up the demo: {error}"
            )]));
        }
    };
    crate::cli::print(&render(&report, &wanted.output))?;
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
    let window = token_count(window)
        .map(u64::from)
        .filter(|tokens| *tokens >= MIN_WINDOW)
        .ok_or_else(|| {
            format!(
                "--window {window}: expected a number of tokens, {MIN_WINDOW} or more, such as \
                 65536 or 64k"
            )
        })?;
    let summariser = match option("summary-model") {
        None | Some("own") => Summariser::Own,
        Some("none") => Summariser::Nobody,
        Some(other) => return Err(format!("--summary-model {other}: expected own or none")),
    };
    let dialect = match option("dialect") {
        None | Some("chat") => DemoDialect::Chat,
        Some("messages") => DemoDialect::Messages,
        Some("responses") => DemoDialect::Responses,
        Some(other) => {
            return Err(format!(
                "--dialect {other}: expected chat, messages or responses"
            ));
        }
    };
    let rows = if matches.get_flag("all") {
        RowSelection::All
    } else {
        RowSelection::Notable
    };
    Ok(DemoOptions {
        window,
        session: option("session").map(PathBuf::from),
        dialect,
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
            table::render_page(report, *rows, paint, crate::display::terminal::width())
        }
    }
}

fn report_failures(reasons: &[String]) -> ExitCode {
    for reason in reasons {
        crate::cli::print_error(&format!("longhaul: {reason}\n"));
    }
    ExitCode::FAILURE
}
