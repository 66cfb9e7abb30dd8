//! `longhaul demo`: plays a recorded session to a model too small for it, first directly and then
//! through longhaul. Prints a table of the outcome of each request.
//!
//! Ctrl-C needs no handler: everything runs in this process, which the system ends.

mod client;
mod injected;
mod play;
mod report;
mod row;
mod session;
mod table;
mod totals;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches as _, ValueEnum};

use crate::cli::flags::hide_defaults;
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

/// The smallest window, in tokens, that a request of realistic size can be expected to fit.
const MIN_WINDOW: u32 = 2_048;

/// The options of the command. None is a setting of the proxy: the demo shows what the defaults do.
#[derive(Args)]
struct DemoOptions {
    /// Local servers often have the default window, and the built-in session is almost four times as
    /// long.
    #[arg(long, value_name = "TOKENS", default_value = "32768")]
    #[arg(help = "The model's window, which longhaul does not know [default: 32768]")]
    #[arg(value_parser = window)]
    window: u32,
    /// Play this session instead, from its last request body, JSON, gzip or not
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,
    #[arg(
        long,
        value_name = "chat|messages|responses",
        value_enum,
        default_value = "chat"
    )]
    #[arg(
        help = "API of the built-in session: chat completions, Messages for Claude Code, or Responses for Codex [default: chat]"
    )]
    #[arg(hide_possible_values = true)]
    dialect: DemoDialect,
    #[arg(
        long = "summary-model",
        value_name = "own|none",
        value_enum,
        default_value = "own"
    )]
    #[arg(help = "Writer of summaries: the model, or none, for digests [default: own]")]
    #[arg(hide_possible_values = true)]
    summariser: Summariser,
    /// Print a row for every request, and the whole injected message
    #[arg(long)]
    all: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
}

/// The API of the built-in session.
#[derive(Clone, Copy, ValueEnum)]
enum DemoDialect {
    Chat,
    Messages,
    Responses,
}

pub(super) fn command() -> Command {
    hide_defaults(DemoOptions::augment_args(Command::new("demo")))
        .about("Show what longhaul does with a recorded session: no key, no network")
}

/// Plays the session and prints the outcome. Returns exit code 0 if the session failed without
/// longhaul and finished with it. Fails if an option or the session's file cannot be used, or the
/// output cannot be written.
pub(super) fn demo(matches: &ArgMatches) -> Result<ExitCode, Vec<Problem>> {
    let wanted = DemoOptions::from_arg_matches(matches);
    let wanted = wanted.map_err(|error| Problem::CommandLine(error.to_string()))?;
    let session = match &wanted.session {
        Some(file) => RecordedSession::read(file)?,
        None => match wanted.dialect {
            DemoDialect::Chat => RecordedSession::built_in(),
            DemoDialect::Messages => RecordedSession::built_in_messages(),
            DemoDialect::Responses => RecordedSession::built_in_responses(),
        }
        .map_err(Problem::CommandLine)?,
    };
    let options = ModelOptions::with_window(wanted.window.into());
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
    crate::cli::print(&render(&report, &wanted))?;
    let failures = report.failures();
    Ok(if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        report_failures(&failures)
    })
}

fn window(text: &str) -> Result<u32, String> {
    let window = token_count(text).filter(|tokens| *tokens >= MIN_WINDOW);
    window.ok_or_else(|| {
        format!("expected a number of tokens, {MIN_WINDOW} or more, such as 65536 or 64k")
    })
}

fn render(report: &DemoReport, options: &DemoOptions) -> String {
    if options.json {
        return report.json();
    }
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let paint = if io::stdout().is_terminal() && !plain {
        Paint::Colours
    } else {
        Paint::Plain
    };
    let rows = if options.all {
        RowSelection::All
    } else {
        RowSelection::Notable
    };
    table::render_page(report, rows, paint, crate::display::terminal::width())
}

fn report_failures(reasons: &[String]) -> ExitCode {
    for reason in reasons {
        crate::cli::print_error(&format!("longhaul: {reason}\n"));
    }
    ExitCode::FAILURE
}
