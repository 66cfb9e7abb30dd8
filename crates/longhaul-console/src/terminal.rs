//! Fitting of text to the width of a terminal.

use super::table::shown_width;

/// Columns of a paragraph that goes to a pipe or to a wider terminal.
const PARAGRAPH: usize = 100;

/// Returns the columns of the terminal that standard output is. `None` for a pipe or a file, whose
/// reader wants whole lines.
pub fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(width.0))
}

/// Returns the lines of a paragraph, which fit the terminal.
pub fn paragraph(text: &str, width: Option<usize>) -> String {
    let width = width.unwrap_or(PARAGRAPH).min(PARAGRAPH);
    wrapped("", text, 0, Some(width))
}

/// Returns `row` and `text`, which continues `indent` columns from the left where a line would
/// exceed `width` columns.
pub fn wrapped(row: &str, text: &str, indent: usize, width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX);
    let mut page = String::new();
    let mut line = row.to_owned();
    let mut used = shown_width(row);
    let mut is_first = true;
    for word in text.split(' ') {
        let length = shown_width(word);
        if !is_first && used + 1 + length > width {
            page.push_str(line.trim_end());
            page.push('\n');
            line = " ".repeat(indent);
            used = indent;
        } else if !is_first {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
        is_first = false;
    }
    page.push_str(line.trim_end());
    page.push('\n');
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_continues_at_its_indent() {
        let text = "older than the newest forty thousand tokens";
        let lines = "12  older than the newest forty\n    thousand tokens\n";
        assert_eq!(wrapped("12  ", text, 4, Some(32)), lines);
        assert_eq!(wrapped("12  ", text, 4, None), format!("12  {text}\n"));
        assert_eq!(wrapped("12  ", "", 4, Some(80)), "12\n");
    }

    #[test]
    fn a_paragraph_fits_the_terminal_and_is_never_wider_than_a_page() {
        let text = "word ".repeat(60);
        for (width, expect) in [(Some(40), 39), (Some(300), 99), (None, 99)] {
            let lines = paragraph(&text, width);
            let widest = lines.lines().map(|line| line.chars().count()).max();
            assert_eq!(widest, Some(expect), "{width:?}");
        }
    }
}
