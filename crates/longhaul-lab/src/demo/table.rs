//! The outcome as a page for people: the result, the notable rows, the injected message and totals.

mod excerpt;
mod rows;

use std::fmt::Write as _;

use super::report::DemoReport;
use crate::play::outcome::{PlayOutcome, error_text};
use crate::play::totals::{PlayTotals, percent};
use longhaul_console::table::Table;
use longhaul_console::terminal::{paragraph, wrapped};
use longhaul_console::thousands::with_thousands;

pub(super) use rows::RowSelection;

/// Explains the columns of the table.
const LEGEND: &str = include_str!("legend.txt");

/// Whether the page is coloured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Paint {
    Colours,
    Plain,
}

impl Paint {
    fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Wraps text in a code and a reset. The reset ends all codes, so `text` must not contain any.
    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

/// Renders the whole page, with tables that fit `width` columns.
pub(super) fn render_page(
    report: &DemoReport,
    rows: RowSelection,
    paint: Paint,
    width: Option<usize>,
) -> String {
    let mut page = String::new();
    write_outcome(&mut page, report, paint, width);
    page.push('\n');
    page.push_str(&rows::table(&report.longhaul.rows, rows, paint).render(width));
    page.push('\n');
    page.push_str(&paragraph(LEGEND, width));
    if let Some(injected) = &report.injected {
        page.push('\n');
        excerpt::write_excerpt(&mut page, injected, rows, paint, width);
    }
    page.push('\n');
    write_totals(&mut page, report, paint, width);
    page
}

/// Writes the outcome in three sentences. Writing to a String cannot fail.
fn write_outcome(page: &mut String, report: &DemoReport, paint: Paint, width: Option<usize>) {
    let (requests, window) = (report.requests, with_thousands(report.window));
    let played = format!(
        "{}: {requests} requests, played to a strict model that holds {window} tokens.",
        report.session
    );
    page.push_str(&wrapped("", &played, 0, width));
    page.push('\n');
    let finished = format!("finished, {requests} of {requests} requests answered");
    for (name, played) in [("direct", &report.direct), ("through longhaul", &report.longhaul)] {
        match played.failed_request() {
            None => _ = writeln!(page, "{name:<18}{}", paint.good(&finished)),
            Some(row) => {
                let died = format!("died at request {} of {requests}:", row.request);
                _ = writeln!(page, "{name:<18}{}", paint.bad(&died));
                page.push_str(&wrapped("  ", &error_text(row), 2, width));
            }
        }
    }
}

fn write_totals(page: &mut String, report: &DemoReport, paint: Paint, width: Option<usize>) {
    let (direct, longhaul) = (&report.direct.totals, &report.longhaul.totals);
    let answered = |answered: usize| format!("{answered} of {}", report.requests);
    let saved = |played: &PlayOutcome| {
        let PlayTotals { tokens_saved: saved, tokens_sent: sent, .. } = played.totals;
        let sign = if saved < 0 { "-" } else { "" };
        let tokens = saved.unsigned_abs();
        match saved {
            0 => "–".to_owned(),
            _ => format!("{sign}{} ({sign}{}%)", with_thousands(tokens), percent(tokens, sent)),
        }
    };
    let cached = |percent: u64| format!("{percent}%");
    let lines = [
        ("requests answered", answered(direct.answered), answered(longhaul.answered)),
        ("refused by the model", direct.refused.to_string(), longhaul.refused.to_string()),
        ("tokens sent", with_thousands(direct.tokens_sent), with_thousands(longhaul.tokens_sent)),
        (
            "tokens forwarded",
            with_thousands(direct.tokens_forwarded),
            with_thousands(longhaul.tokens_forwarded),
        ),
        (
            "tokens read for summaries",
            with_thousands(direct.tokens_for_summaries),
            with_thousands(longhaul.tokens_for_summaries),
        ),
        ("tokens saved", saved(&report.direct), saved(&report.longhaul)),
        (
            "found in the prompt cache",
            cached(direct.cached_percent()),
            cached(longhaul.cached_percent()),
        ),
        ("prefix changes", direct.prefix_changes.to_string(), longhaul.prefix_changes.to_string()),
        ("summaries requested", direct.summaries.to_string(), longhaul.summaries.to_string()),
    ];
    let headings = ["totals", "direct", "through longhaul"].map(|heading| paint.bold(heading));
    let mut table = Table::of_numbers(headings);
    for (name, direct, longhaul) in lines {
        table.push([name.to_owned(), direct, longhaul]);
    }
    page.push_str(&table.render(width));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_output_has_no_colour_codes() {
        assert_eq!(Paint::Plain.bad("x"), "x");
        assert_eq!(Paint::Colours.bad("x"), "\x1b[31mx\x1b[0m");
    }
}
