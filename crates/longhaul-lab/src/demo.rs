//! `longhaul demo`: plays a recorded session to a model too small for it, first directly and then
//! through longhaul. Prints a table of the outcome of each request.
//!
//! Ctrl-C needs no handler: everything runs in this process, which the system ends.

mod report;
mod table;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Args, Command, FromArgMatches as _};

use crate::command::{hide_defaults, runtime};
use crate::error::LabError;
use crate::play::{Summariser, play_directly, play_through_proxy};
use crate::proxy::{DefaultsWith, ProxyRole};
use crate::recorded_session::{BUILT_IN, RecordedSession};
use longhaul_console::amounts::token_count;
use longhaul_mock_model::ModelOptions;

use report::DemoReport;
use table::{Paint, RowSelection};

/// The smallest window, in tokens, that a request of realistic size can be expected to fit.
const MIN_WINDOW: u32 = 2_048;

/// The pause before each request that the dashboard shows: a twentieth of the 6 s that agents take for a step.
const OPEN_PAUSE: Duration = Duration::from_millis(300);

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
        value_parser = PossibleValuesParser::new(BUILT_IN.map(|(api, ..)| api)),
        default_value = "chat"
    )]
    #[arg(
        help = "API of the built-in session: chat completions, Messages for Claude Code, or Responses for Codex [default: chat]"
    )]
    #[arg(hide_possible_values = true)]
    dialect: String,
    #[arg(long = "summary-model", value_name = "own|none", value_enum, default_value = "own")]
    #[arg(help = "Writer of summaries: the model, or none, for digests [default: own]")]
    #[arg(hide_possible_values = true)]
    summariser: Summariser,
    /// Print a row for every request, and the whole injected message
    #[arg(long)]
    all: bool,
    /// Play the session on the dashboard, 20 times as fast as an agent works, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    open: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
}

/// Returns the command `demo` with its options.
pub fn command() -> Command {
    hide_defaults(DemoOptions::augment_args(Command::new("demo")))
        .about("Show what longhaul does with a recorded session: no key, no network")
}

/// The outcome of the command, for the program to print.
#[derive(Debug)]
pub struct DemoOutcome {
    /// The page for standard output.
    pub page: String,
    /// Deviations from the expected outcome: without longhaul the session fails, and with it finishes.
    pub failures: Vec<String>,
}

/// Plays the session. `settings` returns those of the proxy. Fails if an option or the session's file
/// cannot be used.
pub fn demo(settings: DefaultsWith, matches: &ArgMatches) -> Result<DemoOutcome, LabError> {
    let wanted = DemoOptions::from_arg_matches(matches);
    let wanted = wanted.map_err(|error| LabError::CommandLine(error.to_string()))?;
    let session = match &wanted.session {
        Some(file) => RecordedSession::read(file)?.with_moving_mark(),
        None => RecordedSession::built_in(&wanted.dialect).map_err(LabError::CommandLine)?,
    };
    let played = runtime()?.block_on(play_both(&session, settings, &wanted));
    Ok(match played {
        Ok(report) => DemoOutcome { page: render(&report, &wanted), failures: report.failures() },
        Err(error) => DemoOutcome {
            page: String::new(),
            failures: vec![format!("cannot set up the demo: {error}")],
        },
    })
}

/// Plays the session to two models of the same kind, one directly and one through longhaul.
async fn play_both(
    session: &RecordedSession,
    settings: DefaultsWith,
    wanted: &DemoOptions,
) -> io::Result<DemoReport> {
    let options = ModelOptions::with_window(wanted.window.into());
    let (role, pause) = if wanted.open {
        (ProxyRole::WithPage, OPEN_PAUSE)
    } else {
        (ProxyRole::AsConfigured, Duration::ZERO)
    };
    let direct = play_directly(session, options.clone()).await?;
    let start = async |base: &str| {
        // The demo is about a window that only refusals reveal.
        let mut changes = vec![("upstream.base", base), ("upstream.ask", "false")];
        match wanted.summariser {
            Summariser::Nobody => changes.push(("summary.model", "none")),
            Summariser::Own => {}
        }
        let settings = settings(&changes).map_err(io::Error::other)?;
        settings.start(role).await
    };
    let played = play_through_proxy(session, options, (wanted.summariser, pause), start);
    let (longhaul, injected) = played.await?;
    Ok(DemoReport {
        session: session.name.clone(),
        requests: session.len(),
        window: wanted.window.into(),
        direct,
        longhaul,
        injected,
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
    let paint = if io::stdout().is_terminal() && !plain { Paint::Colours } else { Paint::Plain };
    let rows = if options.all { RowSelection::All } else { RowSelection::Notable };
    let mut page = table::render_page(report, rows, paint, longhaul_console::terminal::width());
    if let (Some(row), None) = (report.direct.failed_request(), report.longhaul.failed_request()) {
        let (died, all) = (row.request, report.requests);
        _ = writeln!(
            page,
            "\nWithout longhaul, the session dies at request {died} of {all}. With longhaul, it finishes."
        );
    }
    page + "\nNext: longhaul run -- claude, or another agent.\nYour own past sessions: longhaul wrapped\n"
}
