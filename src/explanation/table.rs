//! An explanation as a table for people.

use std::fmt::Write as _;
use std::time::Duration;

use crate::config::{ChoiceSetting, Mode};
use crate::explanation::report::{ExplanationReport, MessageRow, RequestReport};
use longhaul_console::amounts::{percent, short_duration, short_usd};
use longhaul_console::printable::printable_name;
use longhaul_console::table::{Align, Table};
use longhaul_console::terminal::wrapped;
use longhaul_console::thousands::with_thousands;
use longhaul_console::word::Word;
use longhaul_core::planning::explanation::{DigestNumbers, RequestLayer};
use longhaul_core::units::usd::Usd;

/// Renders the header, the layers, the messages, the totals and the hint, to fit `width` columns.
pub(crate) fn render(report: &ExplanationReport, width: Option<usize>) -> String {
    let mut head = Table::of_names();
    if let Some(newer) = &report.newer {
        head.push(["note".to_owned(), printable_name(newer)]);
    }
    if let Some(request) = &report.request {
        push_request(&mut head, request, report);
    }
    push_header(&mut head, report);
    let mut page = head.render(width);
    page.push('\n');
    if !report.numbers.layers.is_empty() {
        page.push_str(&layers(&report.numbers.layers).render(width));
        page.push('\n');
    }
    page.push_str(&messages(report, width.is_some_and(|width| width < WIDE)).render(width));
    page.push('\n');
    write_totals(&mut page, report, width);
    page
}

fn push_request(head: &mut Table, request: &RequestReport, report: &ExplanationReport) {
    let which = format!(
        "{}, number {} of conversation {}, {}",
        printable_name(&request.id),
        request.number,
        printable_name(&request.conversation),
        printable_name(&request.model)
    );
    head.push(["request".to_owned(), which]);
    let did = match request.actions.as_slice() {
        [] => "forwarded unchanged".to_owned(),
        actions => printable_name(&actions.join(", ")).replace("digest", "summary"),
    };
    let mut parts = vec![format!(
        "{did}: {} → {} tokens",
        with_thousands(report.numbers.totals.before.get()),
        with_thousands(report.numbers.totals.after.get())
    )];
    parts.push(match request.status {
        Some(status) => {
            let error = request.error.as_deref().map(|name| format!(" {}", printable_name(name)));
            format!("status {status}{}", error.unwrap_or_default())
        }
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
    head.push(["done".to_owned(), parts.join(", ")]);
    if let Some(why) = &report.why {
        head.push(["why".to_owned(), printable_name(why)]);
    }
    let (lost, dropped) = (request.lost_reasoning, request.dropped_reasoning);
    if lost > 0 || dropped > 0 {
        let lost = format!("{lost} items of reasoning behind edits of this conversation");
        let reported = match dropped {
            0 => String::new(),
            _ => format!("; a reply reports {dropped} as dropped"),
        };
        head.push(["lost".to_owned(), lost + &reported]);
    }
}

fn push_header(head: &mut Table, report: &ExplanationReport) {
    let window = &report.window;
    let marks = &report.numbers.marks;
    let described = format!(
        "{} tokens ({}), usable {}, soft mark {}, hard mark {}",
        with_thousands(window.tokens.get()),
        printable_name(&window.source),
        with_thousands(marks.usable.get()),
        with_thousands(marks.soft.get()),
        with_thousands(marks.hard.get())
    );
    head.push(["window".to_owned(), described]);
    let profile = format!("{}, mode {}", report.profile, report.mode.name());
    head.push(["profile".to_owned(), profile]);
    let prune = match &report.numbers.rule {
        Some(rule) => format!(
            "{}{}: protects {} tokens, frees more than {}, from {} user messages on",
            Word(rule.when),
            rule.at_tokens
                .map_or_else(String::new, |at| format!(", {} tokens", with_thousands(at.get()))),
            with_thousands(rule.protect_tokens.get()),
            with_thousands(rule.minimum_tokens.get()),
            rule.min_user_turns
        ),
        None => "off".to_owned(),
    };
    head.push(["prune".to_owned(), prune]);
}

/// Returns a row for each layer of the request as forwarded.
fn layers(layers: &[RequestLayer]) -> Table {
    let columns =
        ["#", "count", "cleared", "clipped", "tokens", "freed"].map(|name| (Align::Right, name));
    let columns = [(Align::Left, "layer")].into_iter().chain(columns);
    let mut table = Table::with_headings(columns);
    for layer in layers {
        table.push([
            Word(layer.kind).to_string(),
            range(layer.from, layer.through),
            layer.messages.to_string(),
            layer.cleared.to_string(),
            layer.clipped.to_string(),
            with_thousands(layer.tokens.get()),
            with_thousands(layer.freed.get()),
        ]);
    }
    table
}

/// Returns the index of one message, or of the first and the last of several.
fn range(from: usize, through: usize) -> String {
    if from == through {
        return from.to_string();
    }
    format!("{from}–{through}")
}

/// Minimum columns of a terminal that shows the tools of each message next to the reason.
const WIDE: usize = 100;

/// Returns a row for each message, and one for the text that replaces history. If `is_narrow`, the reason
/// begins with the tools.
fn messages(report: &ExplanationReport, is_narrow: bool) -> Table {
    let done = if report.request.is_some() { "was" } else { "would be" };
    let columns = [
        (Align::Right, "#"),
        (Align::Left, "role"),
        (Align::Left, "tool"),
        (Align::Right, "tokens"),
        (Align::Right, "becomes"),
        (Align::Left, done),
        (Align::Left, "why"),
    ];
    let is_shown = |at: usize| at != TOOL || !is_narrow;
    let columns = columns.into_iter().enumerate();
    let columns = columns.filter(|(at, _)| is_shown(*at));
    let mut table = Table::with_headings(columns.map(|(_, column)| column));
    let mut push = |mut cells: [String; 7]| {
        if is_narrow && !cells[TOOL].is_empty() {
            cells[REASON] = format!("{}: {}", cells[TOOL], cells[REASON]);
        }
        let cells = cells.into_iter().enumerate();
        table.push(cells.filter(|(at, _)| is_shown(*at)).map(|(_, cell)| cell));
    };
    let cells = |cells: [&str; 7]| cells.map(str::to_owned);
    let numbers = &report.numbers;
    if numbers.omitted > 0 {
        let reason = format!("{} older rows are not kept", numbers.omitted);
        push(cells(["…", "", "", "", "", "", &reason]));
    }
    for row in &report.messages {
        if let Some(digest) = &numbers.digest
            && digest.from == row.row.number
        {
            let becomes = with_thousands(digest.tokens.get());
            let reason = describe_digest(digest);
            push(cells(["", "user", "", "", &becomes, "added", &reason]));
        }
        push(message_cells(row));
    }
    table
}

/// Columns of the tools and of the reason.
const TOOL: usize = 2;
const REASON: usize = 6;

fn message_cells(message: &MessageRow) -> [String; 7] {
    let row = &message.row;
    let (number, role) = match row.through {
        Some(through) => (
            range(row.number, through),
            format!("{} messages", through.saturating_sub(row.number).saturating_add(1)),
        ),
        None => (
            row.number.to_string(),
            row.role.map_or_else(String::new, |role| Word(role).to_string()),
        ),
    };
    let mut reason = printable_name(&message.reason);
    if let Some(subject) = &message.subject {
        let subject = printable_name(subject);
        reason = match reason.as_str() {
            "" => subject,
            why => format!("{subject}: {why}"),
        };
    }
    if let Some(since) = message.since {
        // Writing to a String cannot fail.
        _ = write!(reason, "; since request {since}");
    }
    [
        number,
        role,
        printable_name(&row.tool),
        with_thousands(row.tokens.get()),
        with_thousands(row.becomes.get()),
        printable_name(&message.action),
        reason,
    ]
}

/// Describes the text that replaces history: the messages it covers, and where each segment ends if
/// there are several.
fn describe_digest(digest: &DigestNumbers) -> String {
    let mut text = format!("replaces messages {} to {}", digest.from, digest.through);
    if digest.segments.len() > 1 {
        let ends = digest.segments.iter().map(|segment| {
            let tokens = with_thousands(segment.tokens.get());
            format!("to {}: {tokens} tokens", segment.through)
        });
        let ends: Vec<String> = ends.collect();
        _ = write!(text, "; segments {}", ends.join(", "));
    }
    let shortened = digest.shortened;
    for (count, which) in [
        (shortened.clipped_messages, "messages of the user are clipped"),
        (shortened.left_out_messages, "messages of the user are left out"),
        (shortened.left_out_agreements, "agreements or rules are left out"),
    ] {
        if count > 0 {
            _ = write!(text, "; {count} {which}");
        }
    }
    if digest.words_wait {
        text.push_str(
            "; your words and rules stand in it alone, until your next message restates them",
        );
    }
    text
}

fn write_totals(page: &mut String, report: &ExplanationReport, width: Option<usize>) {
    let totals = &report.numbers.totals;
    let mut push = |line: &str| page.push_str(&wrapped("", line, 0, width));
    push(&format!(
        "before {} tokens, after {} (tool schemas in both: {}); messages: {}, user messages: {}",
        with_thousands(totals.before.get()),
        with_thousands(totals.after.get()),
        with_thousands(totals.tools.get()),
        totals.messages,
        totals.user_messages
    ));
    if let Some(untouched) = &report.untouched {
        push(&format!("passed untouched: {}", untouched.reason));
    }
    if report.mode == Mode::Shadow {
        push("in mode shadow this is only reported, and the request passes untouched");
    }
    if let Some(hint) = &report.hint {
        push(&format!("hint: {hint}"));
    }
}
