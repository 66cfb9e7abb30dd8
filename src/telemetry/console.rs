//! Log lines for people: the local time of day, then what happened, in the order in which people ask.
//!
//! The line of a request reads: time, model, conversation, what was done, sizes, cache, cost, status,
//! duration. Machines read the formats `text` and `json`, which have every field.

mod request_line;

use std::fmt::{self, Write as _};

use clap::builder::styling::{AnsiColor, Style};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::words::words_for;
use crate::wall_clock;
use longhaul_console::printable::printable_name;
use longhaul_console::thousands::with_thousands;
use request_line::RequestLine;

/// Message of the line that ends a request.
pub(super) const REQUEST: &str = "request";
/// Digits of a conversation's identifier that a line shows. `longhaul explain --conversation` takes
/// the beginning of an identifier.
pub(crate) const SHOWN_DIGITS: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct ConsoleFormat {
    pub(super) has_colour: bool,
}

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = PLAIN.bold();
pub(super) const DIM: Style = PLAIN.dimmed();
pub(super) const CYAN: Style = AnsiColor::Cyan.on_default();
pub(super) const GREEN: Style = AnsiColor::Green.on_default();
pub(super) const RED: Style = AnsiColor::Red.on_default();
pub(super) const YELLOW: Style = AnsiColor::Yellow.on_default();

pub(super) struct Line {
    text: String,
    has_colour: bool,
}

impl Line {
    /// Appends `text`, after two spaces unless the line is empty.
    pub(super) fn push(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("  ");
        }
        let style = if self.has_colour { style } else { PLAIN };
        _ = write!(self.text, "{style}{text}{style:#}");
    }
}

impl<S, N> FormatEvent<S, N> for ConsoleFormat
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let now = wall_clock::local(wall_clock::unix_seconds(), "%H:%M:%S%:z");
        let line = self.line(&now, *event.metadata().level(), &fields);
        writeln!(writer, "{line}")
    }
}

impl ConsoleFormat {
    /// Formats one event that happened at `now`.
    fn line(self, now: &str, level: Level, fields: &EventFields) -> String {
        let mut line = Line { text: String::with_capacity(128), has_colour: self.has_colour };
        line.push(now, DIM);
        if fields.message == REQUEST {
            RequestLine::new(fields).write(&mut line);
            return line.text;
        }
        let (word, style) = match level {
            Level::ERROR => ("ERROR", RED),
            Level::WARN => ("WARN", YELLOW),
            Level::INFO => ("", PLAIN),
            Level::DEBUG => ("debug", DIM),
            Level::TRACE => ("trace", DIM),
        };
        line.push(word, style);
        line.push(fields.text("model").unwrap_or_default(), CYAN);
        let id = fields.text("conversation").unwrap_or_default();
        line.push(id.get(..SHOWN_DIGITS).unwrap_or(id), DIM);
        line.push(&fields.message, PLAIN);
        let rest = fields.values.iter();
        let rest = rest.filter(|(name, _)| !matches!(*name, "model" | "conversation"));
        let rest: Vec<String> = rest.map(|(name, value)| in_words(name, value)).collect();
        line.push(&rest.join(", "), DIM);
        line.text
    }
}

/// Fields of an event, as text that is safe for a terminal.
#[derive(Debug, Default)]
pub(super) struct EventFields {
    message: String,
    values: Vec<(&'static str, String)>,
}

impl EventFields {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    fn set(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            // Source locations of libraries that use the `log` crate.
            name if name.starts_with("log.") => {}
            name => self.values.push((name, value)),
        }
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, printable_name(&format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, printable_name(value));
    }
}

/// Returns a field as people write it: `refused tokens 37,140`.
fn in_words(name: &str, value: &str) -> String {
    let words = || words_for(name, value).to_owned();
    let value = value.parse().map_or_else(|_| words(), |number: u64| with_thousands(number));
    format!("{} {value}", name.replace('_', " "))
}

#[cfg(test)]
mod tests;
