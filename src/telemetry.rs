//! Log lines to standard error, with the configured level and format, and traces to the collector
//! that the OpenTelemetry variables name.

mod collector;
pub(crate) mod log_buffer;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(not(feature = "otlp"))]
pub(crate) mod otlp_disabled;
pub(crate) mod text_fields;

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogConfig, LogFormat, LogLevel};
use crate::error::Problem;
pub(crate) use collector::TraceDestination;
pub(crate) use log_buffer::LogFlushGuard;
use log_buffer::LogWriter;
#[cfg(feature = "otlp")]
pub(crate) use otlp::TraceExport;
#[cfg(not(feature = "otlp"))]
pub(crate) use otlp_disabled::TraceExport;
use text_fields::TextFields;

/// Starts the trace export on the current runtime. If the export cannot start, logs the reason and
/// returns `None`: the proxy serves without traces.
pub(crate) fn start_export(wanted: &TraceDestination) -> Option<TraceExport> {
    let begun = match wanted {
        TraceDestination::Collector(collector) => TraceExport::start(collector),
        TraceDestination::Unusable(why) => Err(why.clone()),
        TraceDestination::Disabled => return None,
    };
    begun
        .inspect_err(|why| tracing::warn!("there are no traces: {why}"))
        .ok()
}

/// Whether standard error is a terminal that wants colours: `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`
/// and `TERM` decide.
fn has_colours() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// Starts the log. A second call, which only tests make, changes nothing.
///
/// Libraries log at `warn` and above only: their finer lines may hold header values.
///
/// # Errors
/// The log thread could not be spawned.
pub(crate) fn start_log(log: LogConfig) -> Result<LogFlushGuard, Problem> {
    let tell = |lines| {
        tracing::warn!(lines, "log lines were dropped because the output stalled");
    };
    let (lines, waits) = LogWriter::spawn(io::stderr(), tell)
        .map_err(|error| Problem::System(format!("could not spawn the log thread: {error}")))?;
    let ours = match log.level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Warn => LevelFilter::WARN,
    };
    let targets = Targets::new()
        .with_default(ours.min(LevelFilter::WARN))
        .with_target(env!("CARGO_PKG_NAME"), ours);
    let registry = tracing_subscriber::registry().with(targets);
    let started = match log.format {
        LogFormat::Json => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_writer(lines),
            )
            .try_init(),
        LogFormat::Text => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .with_ansi(has_colours())
                    .with_target(false)
                    .fmt_fields(TextFields)
                    .with_writer(lines),
            )
            .try_init(),
    };
    debug_assert!(started.is_ok(), "the log was started twice");
    Ok(waits)
}
