//! Log lines to standard error, with the configured level and format, and traces to the collector
//! that the OpenTelemetry variables name.

mod collector;
mod console;
pub(crate) mod log_buffer;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(not(feature = "otlp"))]
pub(crate) mod otlp_disabled;
pub(crate) mod repeats;
mod words;

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{ChoiceSetting as _, LogConfig, LogFormat};
use crate::error::Problem;
pub(crate) use collector::TraceDestination;
use console::ConsoleFormat;
pub(crate) use console::SHOWN_DIGITS;
pub(crate) use log_buffer::LogFlushGuard;
use log_buffer::LogWriter;
#[cfg(feature = "otlp")]
pub(crate) use otlp::TraceExport;
#[cfg(not(feature = "otlp"))]
pub(crate) use otlp_disabled::TraceExport;
use repeats::RepeatFilter;
pub(crate) use words::words_for;

/// Starts the trace export on the current runtime. If the export cannot start, logs the reason and
/// returns `None`: the proxy serves without traces.
pub(crate) fn start_export(wanted: &TraceDestination) -> Option<TraceExport> {
    let begun = match wanted {
        TraceDestination::Collector(collector) => TraceExport::start(collector),
        TraceDestination::Unusable(why) => Err(why.clone()),
        TraceDestination::Disabled => return None,
    };
    begun.inspect_err(|why| tracing::warn!("there are no traces: {why}")).ok()
}

/// Starts the log. A second call, which only tests make, changes nothing.
///
/// Libraries log at `warn` and above only: their finer lines may hold header values. Fails if the
/// log thread could not be spawned.
pub(crate) fn start_log(log: LogConfig) -> Result<LogFlushGuard, Problem> {
    start_log_to(log, io::stderr(), shows_colour())
}

/// Like [`start_log`], with `path` in place of standard error. Lines are appended. Fails if the
/// file cannot be written, or the log thread could not be spawned.
pub(crate) fn start_log_file(mut log: LogConfig, path: &Path) -> Result<LogFlushGuard, Problem> {
    if log.format == LogFormat::Auto {
        log.format = LogFormat::Console;
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| {
        Problem::CommandLine(format!("--log {}: cannot write: {error}", path.display()))
    })?;
    start_log_to(log, file, false)
}

fn start_log_to(
    mut log: LogConfig,
    out: impl Write + Send + 'static,
    has_colour: bool,
) -> Result<LogFlushGuard, Problem> {
    let tell = |lines| {
        tracing::warn!(lines, "log lines were dropped because the output stalled");
    };
    let (lines, waits) = LogWriter::spawn(out, tell)
        .map_err(|error| Problem::System(format!("could not spawn the log thread: {error}")))?;
    // The library reads the same words.
    let ours = log.level.name().parse().unwrap_or(LevelFilter::INFO);
    let targets = Targets::new()
        .with_default(ours.min(LevelFilter::WARN))
        .with_target(env!("CARGO_PKG_NAME"), ours);
    let repeats = RepeatFilter::start()
        .map_err(|error| Problem::System(format!("could not spawn a log thread: {error}")))?;
    let registry = tracing_subscriber::registry().with(targets).with(repeats);
    let lines = tracing_subscriber::fmt::layer().with_writer(lines);
    // People read a terminal, programs read everything else.
    if log.format == LogFormat::Auto && io::stderr().is_terminal() {
        log.format = LogFormat::Console;
    }
    let layer = match log.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Console => lines.event_format(ConsoleFormat { has_colour }).boxed(),
        LogFormat::Auto | LogFormat::Text => lines
            .with_ansi(has_colour)
            .with_target(false)
            .with_timer(words::write_time as fn(&mut Writer<'_>) -> fmt::Result)
            .fmt_fields(debug_fn(words::write_field))
            .boxed(),
    };
    let started = registry.with(layer).try_init();
    debug_assert!(started.is_ok(), "the log was started twice");
    Ok(waits)
}

/// Whether standard error shows colours: only a terminal does, and only if nobody objects
/// (<https://no-color.org>).
fn shows_colour() -> bool {
    let objects = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    io::stderr().is_terminal() && !objects && !is_dumb
}
