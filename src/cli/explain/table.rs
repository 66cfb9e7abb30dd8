//! The report as a table for people.

use std::fmt::Write as _;

use super::report::{DigestReport, ExplainReport, MessageRow, SegmentReport};
use crate::cli::explain::verdict::UntouchedReason;
use crate::cli::thousands::with_thousands;

/// Renders the header, the messages, the totals and the hint.
pub(super) fn render(report: &ExplainReport) -> String {
    let mut page = String::new();
    write_header(&mut page, report);
    page.push('\n');
    write_messages(&mut page, report);
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

fn write_messages(page: &mut String, report: &ExplainReport) {
    let mut lines = vec![ExplainLine::header()];
    for row in &report.messages {
        if let Some(digest) = report
            .digest
            .as_ref()
            .filter(|digest| digest.from == row.number)
        {
            lines.push(ExplainLine {
                role: "user".into(),
                becomes: with_thousands(digest.tokens),
                action: "added".into(),
                reason: describe_digest(digest),
                ..ExplainLine::default()
            });
        }
        lines.push(ExplainLine::from_message(row));
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
            "{:>at$}  {:role$}  {:tool$}  {:>tokens$}  {:>becomes$}  {:action$}  {}",
            line.number, line.role, line.tool, line.tokens, line.becomes, line.action, line.reason
        );
        page.push_str(row.trim_end());
        page.push('\n');
    }
}

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

/// Describes the digest: the messages it covers, and where each segment ends if there are several.
fn describe_digest(digest: &DigestReport) -> String {
    let DigestReport {
        from,
        through,
        segments,
        ..
    } = digest;
    let mut text = format!("digest of messages {from} to {through}");
    if segments.len() > 1 {
        let ends = segments.iter().map(|segment| {
            let SegmentReport {
                through, tokens, ..
            } = segment;
            format!("to {through}: {} tokens", with_thousands(*tokens))
        });
        let ends: Vec<String> = ends.collect();
        _ = write!(text, "; segments {}", ends.join(", "));
    }
    text
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
