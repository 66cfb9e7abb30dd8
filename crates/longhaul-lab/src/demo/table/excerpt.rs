//! The injected message on the page: its beginning and its end, in lines that fit a terminal.

use std::fmt::Write as _;

use super::{Paint, RowSelection};
use crate::play::outcome::InjectedMessage;

/// The maximum number of lines shown from the beginning.
const FIRST_LINES: usize = 28;
/// The maximum number of lines shown from the end.
const LAST_LINES: usize = 12;
/// The maximum number of characters in a line.
const LINE_CHARS: usize = 100;
/// The number of characters in a line on the narrowest terminal.
const LEAST_CHARS: usize = 20;
/// The columns before a line.
const MARGIN: usize = 4;

/// Writes the message. Writing to a String cannot fail.
pub(super) fn write_excerpt(
    page: &mut String,
    injected: &InjectedMessage,
    rows: RowSelection,
    paint: Paint,
    width: Option<usize>,
) {
    let room = width.map_or(LINE_CHARS, |width| width.saturating_sub(MARGIN));
    let room = room.clamp(LEAST_CHARS, LINE_CHARS);
    let title = format!(
        "What the model read in place of old history, from request {} on:",
        injected.request
    );
    _ = writeln!(page, "{}\n", paint.bold(&title));
    let lines: Vec<String> = injected.text.lines().flat_map(|line| wrapped(line, room)).collect();
    let kept = match rows {
        RowSelection::All => lines.len(),
        RowSelection::Notable => FIRST_LINES,
    };
    let bar = paint.faint("│");
    let (first, rest) = lines.split_at(kept.min(lines.len()));
    let (left_out, last) = rest.split_at(rest.len().saturating_sub(LAST_LINES));
    for line in first {
        _ = writeln!(page, "  {bar} {line}");
    }
    if !left_out.is_empty() {
        let words = format!("… {} more lines; --all prints them …", left_out.len());
        _ = writeln!(page, "  {bar} {}", paint.faint(&words));
    }
    for line in last {
        _ = writeln!(page, "  {bar} {line}");
    }
}

/// Wraps a line at `room` characters, at spaces where possible.
fn wrapped(line: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = line;
    while let Some((most, _)) = rest.char_indices().nth(room) {
        let (front, _) = rest.split_at(most);
        let end = front.rfind(' ').filter(|end| *end > 0).unwrap_or(most);
        let (front, behind) = rest.split_at(end);
        lines.push(front.to_owned());
        rest = behind.strip_prefix(' ').unwrap_or(behind);
    }
    lines.push(rest.to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, rows: RowSelection, expect: &[&str]) {
        let injected = InjectedMessage { request: 7, action: Vec::new(), text: text.to_owned() };
        let mut page = String::new();
        write_excerpt(&mut page, &injected, rows, Paint::Plain, None);
        assert!(page.contains("from request 7 on"), "{page}");
        let lines: Vec<&str> = page.lines().skip(2).collect();
        assert_eq!(lines, expect);
    }

    #[test]
    fn a_short_message_is_shown_whole() {
        check("a\n\nb", RowSelection::Notable, &["  │ a", "  │ ", "  │ b"]);
    }

    #[test]
    fn long_lines_are_broken_at_spaces_or_else_between_characters() {
        let words = format!("{} {}", "é".repeat(60), "e".repeat(60));
        assert_eq!(wrapped(&words, LINE_CHARS), ["é".repeat(60), "e".repeat(60)]);
        let word = "é".repeat(LINE_CHARS + 1);
        assert_eq!(wrapped(&word, LINE_CHARS), ["é".repeat(LINE_CHARS), "é".to_owned()]);
        assert_eq!(wrapped(&"a".repeat(LINE_CHARS), LINE_CHARS), ["a".repeat(LINE_CHARS)]);
    }

    #[test]
    fn omits_the_middle_of_a_long_message_unless_all_is_selected() {
        let numbers: Vec<String> = (1..=100).map(|number| number.to_string()).collect();
        let text = numbers.join("\n");
        let all: Vec<String> = numbers.iter().map(|line| format!("  │ {line}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        check(&text, RowSelection::All, &all);
        let middle = ["  │ … 60 more lines; --all prints them …"];
        let short = [&all[..28], &middle, &all[88..]].concat();
        check(&text, RowSelection::Notable, &short);
    }
}
