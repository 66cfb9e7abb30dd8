//! Tables for people, fitted to the width of a terminal.

use std::fmt::Write as _;

use super::terminal::wrapped;

/// The minimum width of a last column that continues below itself; a narrower one would be one word
/// per line.
const LEAST_TEXT: usize = 24;
/// The minimum width of a first column that is shortened; longer cells have a line of their own.
const LEAST_NAME: usize = 8;
/// Spaces between two columns.
const GAP: usize = 2;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Align {
    /// At the left edge of its column.
    Left,
    /// At the right edge, as numbers are.
    Right,
}

/// Rows of cells. Cells may hold ANSI styles.
pub struct Table {
    columns: Vec<Align>,
    headings: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without headings.
    pub fn new(columns: impl IntoIterator<Item = Align>) -> Self {
        Self { columns: columns.into_iter().collect(), headings: None, rows: Vec::new() }
    }

    /// Makes a table of lines that begin with a name.
    pub fn of_names() -> Self {
        Self::new([Align::Left, Align::Left])
    }

    /// Makes a table of columns with headings.
    pub fn with_headings<T: Into<String>>(columns: impl IntoIterator<Item = (Align, T)>) -> Self {
        let (columns, headings): (Vec<Align>, Vec<String>) =
            columns.into_iter().map(|(align, heading)| (align, heading.into())).unzip();
        Self { headings: Some(headings), ..Self::new(columns) }
    }

    /// Makes a table of numbers behind a name, with headings.
    pub fn of_numbers<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Self {
        let columns = [Align::Left].into_iter().chain(std::iter::repeat(Align::Right));
        Self::with_headings(columns.zip(headings))
    }

    /// Appends a row. Cells beyond the number of columns are dropped.
    pub fn push<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(Into::into);
        self.rows.push(cells.take(self.columns.len()).collect());
    }

    /// Renders the table with lines of at most `width` columns, in the first of these forms that
    /// fits:
    ///
    /// - every row on a line;
    /// - a last column of text that continues below its own beginning, and longer names on lines of
    ///   their own;
    /// - with headings, every row as a list of its cells.
    ///
    /// `None` renders every row on a line, for programs that read lines.
    pub fn render(&self, width: Option<usize>) -> String {
        let Some(width) = width else {
            return self.rows_of(&self.widths(usize::MAX), None);
        };
        let widths = self.widths(usize::MAX);
        if total(&widths) <= width {
            return self.rows_of(&widths, None);
        }
        let has_text = self.columns.last() == Some(&Align::Left);
        let fixed = fixed_width(&widths, has_text);
        let name = width.saturating_sub(fixed);
        if name >= LEAST_NAME {
            return self.rows_of(&self.widths(name), has_text.then_some(width));
        }
        match &self.headings {
            Some(headings) => self.lists(headings, width),
            None => self.rows_of(&widths, Some(width)),
        }
    }

    /// Returns the width of each column, without the first cells that are longer than `name`.
    fn widths(&self, name: usize) -> Vec<usize> {
        let wide = |column: usize| {
            let most = if column == 0 { name } else { usize::MAX };
            let cells = self.lines().filter_map(|cells| cells.get(column));
            let widths = cells.map(|cell| shown_width(cell));
            widths.filter(|width| *width <= most).max().unwrap_or(0)
        };
        (0..self.columns.len()).map(wide).collect()
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        self.headings.iter().chain(&self.rows)
    }

    fn rows_of(&self, widths: &[usize], width: Option<usize>) -> String {
        let mut page = String::new();
        for cells in self.lines() {
            self.write_row(&mut page, cells, widths, width);
        }
        page
    }

    /// Writes a row. Writing to a String cannot fail.
    fn write_row(
        &self,
        page: &mut String,
        cells: &[String],
        widths: &[usize],
        width: Option<usize>,
    ) {
        let mut row = String::new();
        let last = self.columns.len().saturating_sub(1);
        for (column, (align, room)) in self.columns.iter().zip(widths).enumerate() {
            let mut cell = cells.get(column).map_or("", String::as_str);
            let gap = if column == 0 { 0 } else { GAP };
            _ = write!(row, "{:gap$}", "");
            if column == last && *align == Align::Left {
                let indent = widths.iter().take(last).map(|width| width + GAP).sum();
                page.push_str(&wrapped(&row, cell, indent, width));
                return;
            }
            if column == 0 && shown_width(cell) > *room {
                page.push_str(cell);
                page.push('\n');
                cell = "";
            }
            let pad = room.saturating_sub(shown_width(cell));
            _ = match align {
                Align::Left => write!(row, "{cell}{:pad$}", ""),
                Align::Right => write!(row, "{:pad$}{cell}", ""),
            };
        }
        page.push_str(row.trim_end());
        page.push('\n');
    }

    /// Lays out each row vertically: the first cell, then `heading: cell` lines.
    fn lists(&self, headings: &[String], width: usize) -> String {
        let mut page = String::new();
        for row in &self.rows {
            let mut cells = headings.iter().zip(row);
            let mut list = Self::of_names();
            if let Some((heading, name)) = cells.next() {
                page.push_str(&wrapped("", &format!("{heading} {name}"), 2, Some(width)));
            }
            for (heading, cell) in cells.filter(|(_, cell)| !cell.is_empty()) {
                list.push([format!("  {heading}"), cell.clone()]);
            }
            page.push_str(&list.render(Some(width)));
        }
        page
    }
}

/// Returns the columns that a row takes besides its first cell, with the minimum room for text.
fn fixed_width(widths: &[usize], has_text: bool) -> usize {
    let last = widths.len().saturating_sub(1);
    let others = widths.iter().enumerate().skip(1);
    others
        .map(|(column, width)| {
            let least = if column == last && has_text { LEAST_TEXT.min(*width) } else { *width };
            GAP + least
        })
        .sum()
}

/// Returns the columns of a row with the widths `widths`.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Returns the columns that a terminal shows for `text`: its characters without ANSI styles.
pub(super) fn shown_width(text: &str) -> usize {
    let mut in_style = false;
    text.chars()
        .filter(|letter| {
            let was = in_style;
            match letter {
                '\u{1b}' => in_style = true,
                'm' => in_style = false,
                _ => {}
            }
            !was && !in_style
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::Align::{Left, Right};
    use super::*;

    fn table() -> Table {
        let mut table = Table::with_headings([(Left, "model"), (Right, "tokens"), (Left, "why")]);
        table.push(["gpt-4o", "12", "older than the newest forty thousand tokens"]);
        table.push(["a-model-with-a-long-name", "3,456", "short"]);
        table
    }

    #[test]
    fn a_row_is_a_line_where_there_is_room_or_no_terminal() {
        let expect = "\
model                     tokens  why
gpt-4o                        12  older than the newest forty thousand tokens
a-model-with-a-long-name   3,456  short
";
        for width in [None, Some(77)] {
            assert_eq!(table().render(width), expect, "{width:?}");
        }
    }

    #[test]
    fn text_continues_below_its_beginning_and_long_names_have_their_own_lines() {
        let expect = "\
model                     tokens  why
gpt-4o                        12  older than the newest forty
                                  thousand tokens
a-model-with-a-long-name   3,456  short
";
        assert_eq!(table().render(Some(64)), expect);
        let expect = "\
model   tokens  why
gpt-4o      12  older than the newest forty
                thousand tokens
a-model-with-a-long-name
         3,456  short
";
        assert_eq!(table().render(Some(46)), expect);
    }

    #[test]
    fn a_table_without_room_is_a_list() {
        let expect = "\
model gpt-4o
  tokens  12
  why     older than the newest
          forty thousand tokens
model a-model-with-a-long-name
  tokens  3,456
  why     short
";
        assert_eq!(table().render(Some(34)), expect);
    }

    #[test]
    fn no_line_exceeds_the_terminal() {
        for width in 34..90 {
            let page = table().render(Some(width));
            let widest = page.lines().map(shown_width).max();
            assert!(widest <= Some(width), "{width}: {page}");
        }
    }

    #[test]
    fn styles_take_no_room() {
        let mut table = Table::new([Left, Right]);
        table.push(["\u{1b}[1mok\u{1b}[0m", "1"]);
        table.push(["failed", "22"]);
        assert_eq!(table.render(None), "\u{1b}[1mok\u{1b}[0m       1\nfailed  22\n");
    }
}
