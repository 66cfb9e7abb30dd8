//! Words of a person for values of closed sets, in the formats `console` and `text`. The format `json` has the values.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

use longhaul_console::printable::printable_name;

/// The words for each value of a field. A line has the field, the value and the words.
static WORDS: LazyLock<HashMap<(&str, &str), &str>> = LazyLock::new(|| {
    let lines = include_str!("words.tsv").lines();
    let rows = lines.map(|line| line.splitn(3, '\t'));
    rows.filter_map(|mut row| Some(((row.next()?, row.next()?), row.next()?))).collect()
});

/// Returns the words for a value of `field`; a value without words as it is.
pub(super) fn words_for<'v>(field: &'v str, value: &'v str) -> &'v str {
    WORDS.get(&(field, value)).copied().unwrap_or(value)
}

/// Writes a field of the format `text`: the message, or `name=value` in words.
pub(super) fn write_field(
    writer: &mut Writer<'_>,
    field: &Field,
    value: &dyn fmt::Debug,
) -> fmt::Result {
    let text = printable_name(&format!("{value:?}"));
    let name = field.name();
    if name == "message" {
        return writer.write_str(&text);
    }
    // Source locations of libraries that use the `log` crate.
    if name.starts_with("log.") {
        return Ok(());
    }
    let plain = text.trim_matches('"');
    let words: Vec<&str> = plain.split(", ").map(|value| words_for(name, value)).collect();
    match words.join(", ") {
        words if words == plain => write!(writer, " {name}={text}"),
        words => write!(writer, " {name}={words:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Action, Ending, Label, LostBy, SummaryOutcome, UnreadReason};
    use longhaul_core::dialect::bypass::Bypass;
    use longhaul_core::window::source::WindowSource;

    fn check<L: Label>(field: &str) {
        for value in L::ALL.iter().map(|label| label.label()) {
            let is_word = value == "complete";
            assert!(is_word || WORDS.contains_key(&(field, value)), "{field} {value}");
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
            assert!(WORDS.contains_key(&("window_source", source.label())), "{source:?}");
        }
        assert!(WORDS.values().all(|words| !words.contains(['_', '"'])));
    }
}
