//! Fitting of tables to the width of a terminal.

/// The least width of a last column that is wrapped; a narrower one would be one word per line.
const LEAST_COLUMN: usize = 24;

/// Returns the columns of the terminal that standard output is. `None` for a pipe or a file, whose
/// reader wants whole lines.
pub(crate) fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(width.0))
}

/// Returns `row` and its last column `text`, which continues below its own beginning if the line
/// would exceed `width` columns.
pub(crate) fn with_last_column(row: &str, text: &str, width: Option<usize>) -> String {
    let indent = row.chars().count();
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent));
    let mut lines = row.to_owned();
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && room >= LEAST_COLUMN && used + 1 + length > room {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
    }
    let mut page: String = lines
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    if page.is_empty() {
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_column_continues_below_its_beginning() {
        let text = "older than the newest forty thousand tokens";
        let wrapped = "12  older than the newest forty\n    thousand tokens\n";
        assert_eq!(with_last_column("12  ", text, Some(32)), wrapped);
        let whole = format!("12  {text}\n");
        assert_eq!(with_last_column("12  ", text, None), whole);
        assert_eq!(
            with_last_column("12  ", text, Some(20)),
            whole,
            "no room to wrap"
        );
        assert_eq!(with_last_column("12  ", "", Some(80)), "12\n");
    }
}
