//! Log lines to standard error, at the level and in the form the settings say, and traces to where
//! the variables of OpenTelemetry say.

mod collector;
mod line;
mod lines;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(not(feature = "otlp"))]
mod unexported;

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Format, Level, Log};
use crate::error::Problem;
pub(crate) use collector::Wanted;
use line::Fields;
use lines::Lines;
pub(crate) use lines::Waits;
#[cfg(feature = "otlp")]
pub(crate) use otlp::Exporting;
#[cfg(not(feature = "otlp"))]
pub(crate) use unexported::Exporting;

/// Has traces sent as it is wanted, by the runtime that this is called in. What keeps them from it
/// is told, and no reason not to serve.
pub(crate) fn export(wanted: &Wanted) -> Option<Exporting> {
    let begun = match wanted {
        Wanted::At(collector) => Exporting::begin(collector),
        Wanted::Not(why) => Err(why.clone()),
        Wanted::Nowhere => return None,
    };
    begun
        .inspect_err(|why| tracing::warn!("there are no traces: {why}"))
        .ok()
}

/// Starts the log. A second call, which only tests make, changes nothing.
///
/// Libraries below us are heard from `warn` on: their finer lines may hold header values.
///
/// # Errors
/// There is no thread that could write it.
pub(crate) fn start(log: Log) -> Result<Waits, Problem> {
    let tell = |lines| {
        tracing::warn!(
            lines,
            "lines of the log were lost: nobody read them in time"
        );
    };
    let (lines, waits) = Lines::to(io::stderr(), tell)
        .map_err(|error| Problem::System(format!("the system gives no threads: {error}")))?;
    let ours = match log.level {
        Level::Debug => LevelFilter::DEBUG,
        Level::Error => LevelFilter::ERROR,
        Level::Info => LevelFilter::INFO,
        Level::Off => LevelFilter::OFF,
        Level::Trace => LevelFilter::TRACE,
        Level::Warn => LevelFilter::WARN,
    };
    let targets = Targets::new()
        .with_default(ours.min(LevelFilter::WARN))
        .with_target(env!("CARGO_PKG_NAME"), ours);
    let registry = tracing_subscriber::registry().with(targets);
    let started = match log.format {
        Format::Json => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_writer(lines),
            )
            .try_init(),
        Format::Text => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .with_ansi(false)
                    .with_target(false)
                    .fmt_fields(Fields)
                    .with_writer(lines),
            )
            .try_init(),
    };
    debug_assert!(started.is_ok(), "the log was started twice");
    Ok(waits)
}
