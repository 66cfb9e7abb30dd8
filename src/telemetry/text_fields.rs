//! Formats the fields of a text log line in the library's default format, but faster. The library
//! computes styles for each field even if unused; this code does not. Values that need no
//! formatting are written directly.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Formats the fields of a log line.
pub(super) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = FieldWriter {
            writer,
            is_empty: true,
            written: Ok(()),
        };
        fields.record(&mut line);
        line.written
    }
}

/// A line under construction.
struct FieldWriter<'w> {
    writer: Writer<'w>,
    is_empty: bool,
    written: fmt::Result,
}

impl FieldWriter<'_> {
    /// Appends what `write` writes, after a space if the line is not empty.
    fn write_field(&mut self, write: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        let Self {
            writer, is_empty, ..
        } = self;
        self.written = self.written.and_then(|()| {
            if !std::mem::take(is_empty) {
                writer.write_char(' ')?;
            }
            write(writer)
        });
    }
}

impl Visit for FieldWriter<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.write_field(|line| write!(line, "{value:?}")),
            // Source locations of libraries that use the `log` crate.
            name if name.starts_with("log.") => {}
            name => self.write_field(|line| write!(line, "{name}={value:?}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        if field.name() == "message" || !value.bytes().all(is_plain) {
            return self.record_debug(field, &value);
        }
        self.write_field(|line| {
            line.write_str(field.name())?;
            line.write_str("=\"")?;
            line.write_str(value)?;
            line.write_char('"')
        });
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write_field(|line| {
            line.write_str(field.name())?;
            line.write_char('=')?;
            line.write_str(itoa::Buffer::new().format(value))
        });
    }
}
