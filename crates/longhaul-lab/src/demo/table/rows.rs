//! The rows of the table: the selection of notable rows and their text.

use super::Paint;
use crate::play::row::PlayRow;
use crate::play::totals::percent;
use longhaul_console::table::{Align, Table};
use longhaul_console::thousands::with_thousands;

/// Rows shown before and after a notable row.
const CONTEXT_ROWS: usize = 1;

/// The header's word for a retry.
const RETRY: &str = "retry";

/// The selection of rows to show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RowSelection {
    All,
    /// Rows in which something happened, their neighbours, the first and the last.
    Notable,
}

/// Returns the table of the selected rows.
pub(super) fn table(rows: &[PlayRow], which: RowSelection, paint: Paint) -> Table {
    let columns = [
        (Align::Right, "request"),
        (Align::Right, "messages"),
        (Align::Right, "tokens sent"),
        (Align::Right, "forwarded"),
        (Align::Right, "cached"),
        (Align::Left, "what was done"),
    ];
    let mut table =
        Table::with_headings(columns.map(|(align, heading)| (align, paint.bold(heading))));
    let mut left_out = 0;
    for (at, row) in rows.iter().enumerate() {
        if which == RowSelection::Notable && !is_selected(rows, at) {
            left_out += 1;
            continue;
        }
        push_gap(&mut table, &mut left_out, paint);
        let before = at.checked_sub(1).and_then(|before| rows.get(before));
        table.push(cells(row, before, paint));
    }
    push_gap(&mut table, &mut left_out, paint);
    table
}

fn is_selected(rows: &[PlayRow], at: usize) -> bool {
    let news = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| rows.get(before));
        rows.get(at).is_some_and(|row| row.is_notable_after(before))
    };
    at == 0
        || at + 1 == rows.len()
        || (at.saturating_sub(CONTEXT_ROWS)..=at + CONTEXT_ROWS).any(news)
}

fn push_gap(table: &mut Table, left_out: &mut usize, paint: Paint) {
    if *left_out > 0 {
        let rows = if *left_out == 1 { "request" } else { "requests" };
        let words = format!("{left_out} {rows} like the one above");
        table.push(["…", "", "", "", "", &words].map(|cell| match cell {
            "" => String::new(),
            cell => paint.faint(cell),
        }));
        *left_out = 0;
    }
}

fn cells(row: &PlayRow, before: Option<&PlayRow>, paint: Paint) -> [String; 6] {
    let messages = if row.messages_forwarded == row.messages_sent {
        row.messages_sent.to_string()
    } else {
        format!("{}→{}", row.messages_sent, row.messages_forwarded)
    };
    let done = describe_actions(row, before);
    let done = if row.error.is_some() {
        paint.bad(&done)
    } else if row.is_notable_after(before) {
        paint.good(&done)
    } else {
        done
    };
    [
        row.request.to_string(),
        messages,
        with_thousands(row.tokens_sent),
        with_thousands(row.tokens_forwarded),
        format!("{}%", percent(row.tokens_cached, row.tokens_forwarded)),
        done,
    ]
}

/// Describes the actions in words.
fn describe_actions(row: &PlayRow, before: Option<&PlayRow>) -> String {
    let mut words: Vec<String> = Vec::new();
    if row.refused > 0 {
        words.push("refused as too large".to_owned());
    }
    let still = row.rewritten
        && row.refused == 0
        && !row.prefix_changed
        && before.is_some_and(|before| before.rewritten && row.has_same_actions(before));
    if still {
        words.push("as before".to_owned());
    } else {
        // The retry comes after the other actions, whatever the order in the header.
        let (again, done): (Vec<_>, Vec<_>) = row.action.iter().partition(|word| *word == RETRY);
        words.extend(done.into_iter().chain(again).map(|word| action_phrase(word).to_owned()));
        if row.action.is_empty() && row.rewritten {
            words.push("rewritten".to_owned());
        }
    }
    match row.summaries {
        0 => {}
        1 => words.push("a summary requested".to_owned()),
        several => words.push(format!("{several} summaries requested")),
    }
    if let Some(error) = &row.error {
        words.push(format!("failed: {error}"));
    }
    if words.is_empty() { "–".to_owned() } else { words.join(", ") }
}

/// Translates a word of the header into a phrase. An unknown word stays as it is.
fn action_phrase(word: &str) -> &str {
    match word {
        "gave-up" => "gave up",
        "prune" => "old tool results cleared",
        RETRY => "retried",
        "digest" => "a digest for old history",
        "summary" => "a summary for old history",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(request: usize) -> PlayRow {
        PlayRow {
            request,
            messages_sent: 2 * request,
            messages_forwarded: 2 * request,
            tokens_sent: 1_000,
            tokens_forwarded: 1_000,
            tokens_cached: 500,
            ..PlayRow::default()
        }
    }

    fn condensed(request: usize) -> PlayRow {
        PlayRow {
            messages_forwarded: 3,
            rewritten: true,
            action: vec!["digest".to_owned()],
            ..row(request)
        }
    }

    fn check(rows: &[PlayRow], which: RowSelection, expect: &str) {
        let page = table(rows, which, Paint::Plain).render(None);
        let body: Vec<&str> = page.lines().skip(1).collect();
        assert_eq!(body.join("\n"), expect);
    }

    #[test]
    fn collapses_similar_rows_into_one_line() {
        let mut rows: Vec<PlayRow> = (1..=5).map(row).collect();
        let retried = PlayRow {
            refused: 1,
            prefix_changed: true,
            action: vec!["retry".to_owned(), "digest".to_owned()],
            ..condensed(6)
        };
        rows.push(retried);
        rows.extend((7..=9).map(condensed));
        check(
            &rows,
            RowSelection::Notable,
            "      1         2        1,000      1,000     50%  –
      …                                            3 requests like the one above
      5        10        1,000      1,000     50%  –
      6      12→3        1,000      1,000     50%  refused as too large, a digest for old history, retried
      7      14→3        1,000      1,000     50%  as before
      …                                            1 request like the one above
      9      18→3        1,000      1,000     50%  as before",
        );
    }

    #[test]
    fn shows_every_row_if_all_are_selected() {
        let rows: Vec<PlayRow> = (1..=40).map(row).collect();
        let page = table(&rows, RowSelection::All, Paint::Plain).render(None);
        assert_eq!(page.lines().count(), 41);
    }

    #[test]
    fn row_shows_errors_and_the_number_of_summaries() {
        let failed = PlayRow {
            summaries: 2,
            action: vec!["gave-up".to_owned()],
            error: Some("no room".to_owned()),
            ..row(1)
        };
        check(
            &[failed],
            RowSelection::Notable,
            "      1         2        1,000      1,000     50%  gave up, 2 summaries requested, failed: no room",
        );
    }
}
