//! The report as a table for people.

use std::fmt::Write as _;

use super::report::{ExplainReport, MessageRow};
use crate::cli::explain::verdict::UntouchedReason;
use crate::cli::terminal;
use crate::cli::thousands::with_thousands;

/// The rows to print.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RowSelection {
    /// A row for every message.
    All,
    /// One row for adjacent messages that the digest replaces.
    Folded,
}

/// Renders the header, the messages, the totals and the hint. Reasons that do not fit `width`
/// columns continue on further lines.
pub(super) fn render(report: &ExplainReport, rows: RowSelection, width: Option<usize>) -> String {
    let mut page = String::new();
    write_header(&mut page, report);
    page.push('\n');
    write_messages(&mut page, report, rows, width);
    page.push('\n');
    write_totals(&mut page, report);
    page
}

/// Renders a request that was not read.
pub(super) fn render_untouched(why: UntouchedReason) -> String {
    format!("passed untouched: {}\n", why.description())
}

// Writing to a String cannot fail.

fn write_header(page: &mut String, report: &ExplainReport) {
    let window = &report.window;
    let marks = &report.marks;
    _ = writeln!(
        page,
        "window   {} tokens ({}), usable {}, soft mark {}, hard mark {}",
        with_thousands(window.tokens),
        window.source,
        with_thousands(marks.usable),
        with_thousands(marks.soft),
        with_thousands(marks.hard)
    );
    _ = writeln!(page, "profile  {}, mode {}", report.profile, report.mode);
    _ = match &report.prune {
        Some(prune) => writeln!(
            page,
            "prune    {}: protects {} tokens, frees more than {}, from {} user messages on",
            prune.when,
            with_thousands(prune.protect_tokens),
            with_thousands(prune.minimum_tokens),
            prune.min_user_turns
        ),
        None => writeln!(page, "prune    off"),
    };
}

fn write_messages(
    page: &mut String,
    report: &ExplainReport,
    rows: RowSelection,
    width: Option<usize>,
) {
    let mut lines = vec![ExplainLine::header()];
    let mut messages = report.messages.as_slice();
    while let [row, rest @ ..] = messages {
        messages = rest;
        if let Some(digest) = report
            .digest
            .as_ref()
            .filter(|digest| digest.from == row.number)
        {
            lines.push(ExplainLine {
                role: "user".into(),
                becomes: with_thousands(digest.tokens),
                action: "added".into(),
                reason: format!("digest of messages {} to {}", digest.from, digest.through),
                ..ExplainLine::default()
            });
        }
        let same = |next: &&MessageRow| next.verdict == SUMMARISED && row.verdict == SUMMARISED;
        let more = rest.iter().take_while(same).count();
        match (rows, rest.get(..more)) {
            (RowSelection::Folded, Some(others @ [.., last])) => {
                lines.push(ExplainLine::from_run(row, others, last));
                messages = rest.get(more..).unwrap_or_default();
            }
            (RowSelection::Folded, Some([]) | None) | (RowSelection::All, _) => {
                lines.push(ExplainLine::from_message(row));
            }
        }
    }
    let wide = |of: fn(&ExplainLine) -> &str| {
        lines
            .iter()
            .map(|line| of(line).chars().count())
            .max()
            .unwrap_or_default()
    };
    let at = wide(|line| &line.number);
    let role = wide(|line| &line.role);
    let tool = wide(|line| &line.tool);
    let tokens = wide(|line| &line.tokens);
    let becomes = wide(|line| &line.becomes);
    let action = wide(|line| &line.action);
    for line in &lines {
        let row = format!(
            "{:>at$}  {:role$}  {:tool$}  {:>tokens$}  {:>becomes$}  {:action$}  ",
            line.number, line.role, line.tool, line.tokens, line.becomes, line.action
        );
        page.push_str(&terminal::with_last_column(&row, &line.reason, width));
    }
}

/// The label of the verdict on a message that the digest replaces.
const SUMMARISED: &str = "summarised";

/// A line of the table, as text.
#[derive(Default)]
struct ExplainLine {
    number: String,
    role: String,
    tool: String,
    tokens: String,
    becomes: String,
    action: String,
    reason: String,
}

impl ExplainLine {
    fn header() -> Self {
        Self {
            number: "#".into(),
            role: "role".into(),
            tool: "tool".into(),
            tokens: "tokens".into(),
            becomes: "becomes".into(),
            action: "would be".into(),
            reason: "why".into(),
        }
    }

    /// Builds one line for `first` and the `others` after it, all replaced by the digest.
    fn from_run(first: &MessageRow, others: &[MessageRow], last: &MessageRow) -> Self {
        let tokens = others.iter().map(|row| u64::from(row.tokens)).sum::<u64>();
        Self {
            number: format!("{}–{}", first.number, last.number),
            tokens: with_thousands(tokens + u64::from(first.tokens)),
            becomes: "0".into(),
            action: first.action.into(),
            reason: format!(
                "{} messages, {}; --all lists them",
                others.len() + 1,
                first.reason
            ),
            ..Self::default()
        }
    }

    fn from_message(row: &MessageRow) -> Self {
        Self {
            number: row.number.to_string(),
            role: row.role.into(),
            tool: row.tool.clone(),
            tokens: with_thousands(row.tokens),
            becomes: with_thousands(row.becomes),
            action: row.action.into(),
            reason: row.reason.clone(),
        }
    }
}

fn write_totals(page: &mut String, report: &ExplainReport) {
    let totals = &report.totals;
    _ = writeln!(
        page,
        "before {} tokens, after {} (tool schemas in both: {}); messages: {}, user messages: {}",
        with_thousands(totals.before),
        with_thousands(totals.after),
        with_thousands(totals.tools),
        totals.messages,
        totals.user_messages
    );
    if let Some(untouched) = &report.untouched {
        _ = writeln!(page, "passed untouched: {}", untouched.reason);
    }
    if report.mode == "shadow" {
        page.push_str("in mode shadow this is only reported, and the request passes untouched\n");
    }
    if let Some(hint) = &report.hint {
        _ = writeln!(page, "hint: {hint}");
    }
}
