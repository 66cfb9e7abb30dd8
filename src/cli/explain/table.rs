//! The report as a table for people.

use std::fmt::Write as _;

use super::super::number::number;
use super::report::{Report, Row};
use super::why::Untouched;

/// The head, the messages, the sums and what could be set.
pub(super) fn render(report: &Report) -> String {
    let mut page = String::new();
    head(&mut page, report);
    page.push('\n');
    messages(&mut page, report);
    page.push('\n');
    sums(&mut page, report);
    page
}

/// A request that was not read.
pub(super) fn untouched(why: Untouched) -> String {
    format!("passed untouched: {}\n", why.reason())
}

// Writing to a String cannot fail.

fn head(page: &mut String, report: &Report) {
    let window = &report.window;
    let marks = &report.marks;
    _ = writeln!(
        page,
        "window   {} tokens ({}), usable {}, soft mark {}, hard mark {}",
        number(window.tokens),
        window.source,
        number(marks.usable),
        number(marks.soft),
        number(marks.hard)
    );
    _ = writeln!(page, "profile  {}, mode {}", report.profile, report.mode);
    _ = match &report.prune {
        Some(prune) => writeln!(
            page,
            "prune    {}: protects {} tokens, frees more than {}, from {} user messages on",
            prune.when,
            number(prune.protect_tokens),
            number(prune.minimum_tokens),
            prune.min_user_turns
        ),
        None => writeln!(page, "prune    off"),
    };
}

fn messages(page: &mut String, report: &Report) {
    let mut lines = vec![Line::title()];
    for row in &report.messages {
        if let Some(digest) = report
            .digest
            .as_ref()
            .filter(|digest| digest.from == row.number)
        {
            lines.push(Line {
                role: "user".into(),
                becomes: number(digest.tokens),
                action: "added".into(),
                reason: format!("digest of messages {} to {}", digest.from, digest.through),
                ..Line::default()
            });
        }
        lines.push(Line::of(row));
    }
    let wide = |of: fn(&Line) -> &str| {
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

/// One line of the table, as texts.
#[derive(Default)]
struct Line {
    number: String,
    role: String,
    tool: String,
    tokens: String,
    becomes: String,
    action: String,
    reason: String,
}

impl Line {
    fn title() -> Self {
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

    fn of(row: &Row) -> Self {
        Self {
            number: row.number.to_string(),
            role: row.role.into(),
            tool: row.tool.clone(),
            tokens: number(row.tokens),
            becomes: number(row.becomes),
            action: row.action.into(),
            reason: row.reason.clone(),
        }
    }
}

fn sums(page: &mut String, report: &Report) {
    let totals = &report.totals;
    _ = writeln!(
        page,
        "before {} tokens, after {} ({} of tool schemas in both); messages: {}, of the user: {}",
        number(totals.before),
        number(totals.after),
        number(totals.tools),
        totals.messages,
        totals.user_messages
    );
    if let Some(untouched) = &report.untouched {
        _ = writeln!(page, "passed untouched: {}", untouched.reason);
    }
    if report.mode == "shadow" {
        page.push_str("in the mode shadow this is reported, and the request passes untouched\n");
    }
    if let Some(hint) = &report.hint {
        _ = writeln!(page, "hint: {hint}");
    }
}
