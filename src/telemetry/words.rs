//! Words of a person for values of closed sets, in the formats `console` and `text`. The format `json` has the values.

use std::fmt;
use std::sync::LazyLock;

use chrono::{Local, SecondsFormat};
use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

use longhaul_console::printable::printable_name;
use longhaul_core::collections::StaticMap;

/// The values of each field with their words. A line has the field, the value and the words.
static WORDS: LazyLock<StaticMap<&str, Vec<[&str; 2]>>> = LazyLock::new(|| {
    let mut fields = StaticMap::<_, Vec<_>>::default();
    for line in include_str!("words.tsv").lines() {
        if let [field, value, words] = line.splitn(3, '\t').collect::<Vec<_>>()[..] {
            fields.entry(field).or_default().push([value, words]);
        }
    }
    fields
});

/// Returns the words for a value of `field`; a value without words as it is.
pub(crate) fn words_for<'v>(field: &str, value: &'v str) -> &'v str {
    let mut rows = WORDS.get(field).into_iter().flatten();
    rows.find(|[known, _]| *known == value).map_or(value, |[_, words]| words)
}

/// Writes the local time of a line in the format `text`.
pub(super) fn write_time(writer: &mut Writer<'_>) -> fmt::Result {
    writer.write_str(&Local::now().to_rfc3339_opts(SecondsFormat::Micros, false))
}

/// Writes a field of the format `text`: the message, or `name=value` in words.
pub(super) fn write_field(
    writer: &mut Writer<'_>,
    field: &Field,
    value: &dyn fmt::Debug,
) -> fmt::Result {
    let text = format!("{value:?}");
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let text = if is_plain { text } else { printable_name(&text) };
    let name = field.name();
    if name == "message" {
        return writer.write_str(&text);
    }
    // Source locations of libraries that use the `log` crate.
    if name.starts_with("log.") {
        return Ok(());
    }
    // Formatting by a macro costs more than the parts.
    writer.write_char(' ')?;
    writer.write_str(name)?;
    writer.write_char('=')?;
    if !WORDS.contains_key(name) {
        return writer.write_str(&text);
    }
    let plain = text.trim_matches('"');
    let words: Vec<&str> = plain.split(", ").map(|value| words_for(name, value)).collect();
    match words.join(", ") {
        words if words == plain => writer.write_str(&text),
        words => write!(writer, "{words:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Action, Ending, Label, LostBy, SummaryOutcome, UnreadReason};
    use longhaul_core::dialect::bypass::Bypass;
    use longhaul_core::window::source::WindowSource;

    fn has_words(field: &str, value: &str) -> bool {
        WORDS[field].iter().any(|[known, _]| *known == value)
    }

    fn check<L: Label>(field: &str) {
        for value in L::ALL.iter().map(|label| label.label()) {
            let is_word = value == "complete";
            assert!(is_word || has_words(field, value), "{field} {value}");
        }
    }

    #[test]
    fn each_value_of_a_closed_set_has_words() {
        check::<Action>("action");
        check::<Ending>("ended");
        check::<Bypass>("bypass");
        check::<SummaryOutcome>("why");
        check::<SummaryOutcome>("outcome");
        check::<LostBy>("by");
        check::<UnreadReason>("reason");
        for source in WindowSource::ALL {
            assert!(has_words("window_source", source.label()), "{source:?}");
        }
        let mut rows = WORDS.values().flatten();
        assert!(rows.all(|[_, words]| !words.contains(['_', '"'])));
    }
}
