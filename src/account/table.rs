//! An account as a table for people.

use std::fmt::Write as _;
use std::time::Duration;

use crate::account::report::{
    AccountReport, DigestReport, MessageRow, RequestReport, printable_name,
};
use crate::account::verdict::UntouchedReason;
use crate::display::amounts::{percent, short_duration, short_usd};
use crate::display::terminal;
use crate::display::thousands::with_thousands;
use longhaul_core::units::usd::Usd;

/// Renders the header, the messages, the totals and the hint. Reasons that do not fit `width`
/// columns continue on further lines.
pub(crate) fn render(report: &AccountReport, width: Option<usize>) -> String {
    let mut page = String::new();
    if let Some(request) = &report.request {
        write_request(&mut page, request, report);
    }
    write_header(&mut page, report);
    page.push('\n');
    write_messages(&mut page, report, width);
    page.push('\n');
    write_totals(&mut page, report);
    page
}

/// Renders a request that was not read.
pub(crate) fn render_untouched(why: UntouchedReason) -> String {
    format!("passed untouched: {}\n", why.description())
}

// Writing to a String cannot fail.

fn write_request(page: &mut String, request: &RequestReport, report: &AccountReport) {
    _ = writeln!(
        page,
        "request  {}, number {} of conversation {}, {}",
        printable_name(&request.id),
        request.number,
        printable_name(&request.conversation),
        printable_name(&request.model)
    );
    let did = match request.actions.as_slice() {
        [] => "forwarded unchanged".to_owned(),
        actions => printable_name(&actions.join(", ")),
    };
    let mut parts = vec![format!(
        "{did}: {} → {} tokens",
        with_thousands(report.totals.before),
        with_thousands(report.totals.after)
    )];
    parts.push(match request.status {
        Some(status) => format!("status {status}"),
        None => "the client left before an answer".to_owned(),
    });
    parts.push(short_duration(Duration::from_millis(request.duration_ms)));
    let cached = request.cached_tokens.zip(request.prompt_tokens);
    if let Some(share) = cached.and_then(|(part, all)| percent(part.into(), all.into())) {
        parts.push(format!("{share}% from the provider's cache"));
    }
    if let Some(cost) = request.cost {
        parts.push(short_usd(Usd::from_nanos(cost)));
    }
    _ = writeln!(page, "done     {}", parts.join(", "));
    if let Some(why) = &report.why {
        _ = writeln!(page, "why      {}", printable_name(why));
    }
}

fn write_header(page: &mut String, report: &AccountReport) {
    let window = &report.window;
    let marks = &report.marks;
    _ = writeln!(
        page,
        "window   {} tokens ({}), usable {}, soft mark {}, hard mark {}",
        with_thousands(window.tokens),
        printable_name(&window.source),
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

fn write_messages(page: &mut String, report: &AccountReport, width: Option<usize>) {
    let mut lines = vec![ExplainLine::header(report.request.is_some())];
    if report.omitted > 0 {
        lines.push(ExplainLine {
            number: "…".into(),
            reason: format!("{} older rows are not kept", report.omitted),
            ..ExplainLine::default()
        });
    }
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
            "{:>at$}  {:role$}  {:tool$}  {:>tokens$}  {:>becomes$}  {:action$}  ",
            line.number, line.role, line.tool, line.tokens, line.becomes, line.action
        );
        page.push_str(&terminal::with_last_column(&row, &line.reason, width));
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
    /// Returns the names of the columns, for a request that passed through or for one that would.
    fn header(is_live: bool) -> Self {
        Self {
            number: "#".into(),
            role: "role".into(),
            tool: "tool".into(),
            tokens: "tokens".into(),
            becomes: "becomes".into(),
            action: if is_live { "was" } else { "would be" }.into(),
            reason: "why".into(),
        }
    }

    fn from_message(row: &MessageRow) -> Self {
        let (number, role) = match row.through {
            Some(through) => (
                format!("{}–{through}", row.number),
                format!("{} messages", through - row.number + 1),
            ),
            None => (row.number.to_string(), printable_name(&row.role)),
        };
        let mut reason = printable_name(&row.reason);
        if let Some(subject) = &row.subject {
            let subject = printable_name(subject);
            reason = match reason.as_str() {
                "" => subject,
                why => format!("{subject}: {why}"),
            };
        }
        if let Some(since) = row.since {
            // Writing to a String cannot fail.
            _ = write!(reason, "; since request {since}");
        }
        Self {
            number,
            role,
            tool: printable_name(&row.tool),
            tokens: with_thousands(row.tokens),
            becomes: with_thousands(row.becomes),
            action: printable_name(&row.action),
            reason,
        }
    }
}

/// Describes the text that replaces history: the messages it covers, and where each segment ends if
/// there are several.
fn describe_digest(digest: &DigestReport) -> String {
    let mut text = format!("replaces messages {} to {}", digest.from, digest.through);
    if digest.segments.len() > 1 {
        let ends = digest.segments.iter().map(|segment| {
            let tokens = with_thousands(segment.tokens);
            format!("to {}: {tokens} tokens", segment.through)
        });
        let ends: Vec<String> = ends.collect();
        _ = write!(text, "; segments {}", ends.join(", "));
    }
    text
}

fn write_totals(page: &mut String, report: &AccountReport) {
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
