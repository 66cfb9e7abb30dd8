//! Formats the fields of a text log line in the library's default format, but faster. The library
//! computes styles for each field even if unused; this code does not. Values that need no
//! formatting are written directly.

use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Initial room for the fields of a line, in bytes: those of a request take about 400.
const LINE_BYTES: usize = 512;

/// Formats the fields of a log line.
pub(super) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = FieldWriter(String::with_capacity(LINE_BYTES));
        fields.record(&mut line);
        writer.write_str(&line.0)
    }
}

/// A line under construction. A string takes each part directly; the writer would take it through two
/// trait objects.
struct FieldWriter(String);

impl FieldWriter {
    /// Appends the name of a field and an equals sign, after a space if the line is not empty.
    fn begin(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        if name != "message" {
            self.0.push_str(name);
            self.0.push('=');
        }
    }
}

impl Visit for FieldWriter {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Source locations of libraries that use the `log` crate.
        if field.name().starts_with("log.") {
            return;
        }
        self.begin(field.name());
        // A string takes all that is written.
        _ = write!(self.0, "{value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        if field.name() == "message" || !value.bytes().all(is_plain) {
            return self.record_debug(field, &value);
        }
        self.begin(field.name());
        self.0.push('"');
        self.0.push_str(value);
        self.0.push('"');
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.begin(field.name());
        self.0.push_str(itoa::Buffer::new().format(value));
    }
}
