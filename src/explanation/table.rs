//! An explanation as a table for people.

use std::fmt::Write as _;
use std::time::Duration;

use crate::config::{ChoiceSetting, Mode};
use crate::explanation::cause::{clearing, folding};
use crate::explanation::report::{ExplanationReport, MessageRow, RequestReport};
use longhaul_console::amounts::{percent, short_duration, short_usd};
use longhaul_console::printable::printable_name;
use longhaul_console::table::{Align, Table};
use longhaul_console::terminal::wrapped;
use longhaul_console::thousands::with_thousands;
use longhaul_console::word::Word;
use longhaul_core::planning::explanation::{DigestNumbers, RequestLayer};
use longhaul_core::units::tokens::Tokens;
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
    let shared = shared_reasons(report);
    page.push_str(&messages(report, &shared).render(width));
    for (reason, letter) in &shared {
        page.push_str(&wrapped("", &format!("({letter}) {}", printable_name(reason)), 4, width));
    }
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
        actions => printable_name(&actions.join(", ")).replace("prune", "old results cleared"),
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
    head.push(["why".to_owned(), printable_name(&report.why)]);
    let window = &report.window;
    let marks = &report.numbers.marks;
    let tokens = |tokens: Tokens| with_thousands(tokens.get());
    let described = format!(
        "{} tokens ({}), of which the reply leaves {}",
        tokens(window.tokens),
        printable_name(&window.source),
        tokens(marks.usable)
    );
    head.push(["window".to_owned(), described]);
    head.push(["history".to_owned(), folding(marks)]);
    head.push(["results".to_owned(), clearing(report.numbers.rule.as_ref())]);
    let schemas = &report.numbers.tool_schemas;
    if let Some(share) = report.tool_share.filter(|_| !schemas.largest.is_empty()) {
        let largest = schemas.largest.iter();
        let largest =
            largest.map(|(name, size)| [&printable_name(name), " ", &tokens(*size)].concat());
        let largest = largest.collect::<Vec<_>>().join(", ");
        let all = tokens(schemas.tokens);
        let row =
            format!("{all} tokens of schemas, {share}% of the window; the largest: {largest}");
        head.push(["tools".to_owned(), row]);
    }
    let profile = format!("{}, mode {}", report.profile, report.mode.name());
    head.push(["profile".to_owned(), profile]);
}

/// Returns a row for each layer of the request as forwarded.
fn layers(layers: &[RequestLayer]) -> Table {
    let columns = ["layer", "#", "count", "cleared", "clipped", "tokens", "freed"];
    let mut table = Table::of_numbers(columns);
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

/// Returns the reasons of several rows, each with the letter that stands for it in the rows.
fn shared_reasons(report: &ExplanationReport) -> Vec<(&str, char)> {
    let reasons = || report.messages.iter().map(|row| &*row.reason);
    let mut shared: Vec<&str> = Vec::new();
    for reason in reasons().filter(|reason| !reason.is_empty()) {
        if !shared.contains(&reason) && reasons().filter(|it| *it == reason).nth(1).is_some() {
            shared.push(reason);
        }
    }
    shared.into_iter().zip('a'..='z').collect()
}

/// Returns a row for each message, and one for the text that replaces history.
fn messages(report: &ExplanationReport, shared: &[(&str, char)]) -> Table {
    let done = if report.request.is_some() { "was" } else { "would be" };
    let mut table = Table::with_headings([
        (Align::Right, "#"),
        (Align::Left, "role"),
        (Align::Right, "tokens"),
        (Align::Right, "becomes"),
        (Align::Left, done),
    ]);
    let numbers = &report.numbers;
    if numbers.omitted > 0 {
        table.push(["…", "", "", "", &format!("left out: {} older rows", numbers.omitted)]);
    }
    for row in &report.messages {
        if let Some(digest) = &numbers.digest
            && digest.from == row.row.number
        {
            let becomes = with_thousands(digest.tokens.get());
            table.push(["", "user", "", &becomes, &describe_digest(digest)]);
        }
        table.push(message_cells(row, shared));
    }
    table
}

fn message_cells(message: &MessageRow, shared: &[(&str, char)]) -> [String; 5] {
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
    let subject = message.subject.as_deref().unwrap_or_default();
    let words = [&*message.action, &row.tool, subject].into_iter().filter(|word| !word.is_empty());
    let mut done = words.map(printable_name).collect::<Vec<_>>().join(" ");
    if let Some((_, letter)) = shared.iter().find(|(reason, _)| *reason == message.reason) {
        // Writing to a String cannot fail.
        _ = write!(done, " ({letter})");
    } else if !message.reason.is_empty() {
        _ = write!(done, ": {}", printable_name(&message.reason));
    }
    if let Some(since) = message.since {
        _ = write!(done, "; since request {since}");
    }
    let becomes =
        if row.becomes == row.tokens { String::new() } else { with_thousands(row.becomes.get()) };
    [number, role, with_thousands(row.tokens.get()), becomes, done]
}

/// Describes the text that replaces history: the messages it covers, its segments if there are several, and
/// what it leaves out.
fn describe_digest(digest: &DigestNumbers) -> String {
    let mut text = format!("added: replaces messages {} to {}", digest.from, digest.through);
    if digest.segments.len() > 1 {
        _ = write!(text, ", in {} segments", digest.segments.len());
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
    let forwards = match (report.mode, &report.request) {
        (Mode::Shadow, _) => "In mode shadow, the request passes unchanged. longhaul would forward",
        (_, None) => "longhaul would forward",
        (_, Some(_)) => "longhaul forwarded",
    };
    push(&format!(
        "{forwards} {} of {} tokens. The request has {} messages, {} of them the user's.",
        with_thousands(totals.after.get()),
        with_thousands(totals.before.get()),
        totals.messages,
        totals.user_messages
    ));
    if let Some(hint) = &report.hint {
        push(&format!("Hint: {hint}."));
    }
    if let Some(block) = &report.block {
        push("\nThe provider's block, which stands for history:");
        block.lines().for_each(|line| push(&printable_name(line)));
    }
}
