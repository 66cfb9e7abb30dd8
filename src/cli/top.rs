//! `longhaul top`: the conversations of a running longhaul, each second.

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use longhaul_console::amounts::{percent, short_usd};
use longhaul_console::printable::{printable_name, shortened};
use longhaul_console::table::{Align, Table};
use longhaul_console::terminal;
use longhaul_core::units::usd::Usd;

use super::live::{LiveList, bar, points};
use super::quota::lines;
use crate::cli::Done;
use crate::config::Config;
use crate::dashboard::{ConversationDto, RequestPoint};
use crate::error::Problem;
use crate::telemetry::{SHOWN_DIGITS, words_for};

/// Maximum conversations shown, the newest ones.
const MAX_ROWS: usize = 20;
/// Maximum characters of a title and of a model's name.
const MAX_TITLE: usize = 32;
const MAX_MODEL: usize = 24;
/// Minimum columns of a terminal for identifiers: they fit beside the longest title and model.
const WIDE: usize = 120;
/// Stands where no agent has asked anything yet.
const NO_ROWS: &str = "no conversation yet: is your agent pointed at longhaul?\n";
const INTERVAL: Duration = Duration::from_secs(1);
/// Moves the cursor of a terminal to the top and clears what follows.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Prints the rows: each second on a terminal, once into a pipe. Fails if no longhaul answers.
pub(super) fn top(config: &Config) -> Done {
    if !stdout().is_terminal() {
        return crate::cli::print(&page(config, None)?);
    }
    loop {
        crate::cli::print(&format!("{CLEAR}{}", page(config, terminal::width())?))?;
        std::thread::sleep(INTERVAL);
    }
}

fn page(config: &Config, width: Option<usize>) -> Result<String, Problem> {
    let list = LiveList::ask(config)?;
    let [left, right] = [Align::Left, Align::Right];
    let headings = [
        (left, "id"),
        (left, "conversation"),
        (left, "model"),
        (left, "window"),
        (right, "cached"),
        (right, "cost"),
        (left, "last request"),
    ];
    let hidden = usize::from(width.is_some_and(|width| width < WIDE));
    let mut table = Table::with_headings(headings.into_iter().skip(hidden));
    for seen in list.conversations.iter().take(MAX_ROWS) {
        table.push(row(config, seen).into_iter().skip(hidden));
    }
    let hint = if list.conversations.is_empty() { NO_ROWS } else { "" };
    Ok(table.render(width) + hint + &lines(&list.quota))
}

/// Says why a request failed: its status, and the fault of longhaul or the name of the provider's error.
fn failure(last: &RequestPoint) -> String {
    let name = last.fault.as_deref().or(last.error.as_deref());
    let name = name.map_or_else(String::new, |name| format!(" {}", printable_name(name)));
    match last.status {
        None => "failed: no answer".to_owned(),
        Some(..400) => "failed: the reply broke off".to_owned(),
        Some(status) => format!("failed: status {status}{name}"),
    }
}

/// Returns the cells of a conversation. Unknown numbers stay empty.
fn row(config: &Config, seen: &ConversationDto) -> [String; 7] {
    let earlier = seen.numbers.requests.saturating_sub(1);
    let points = points(config, seen, earlier).unwrap_or_default();
    let last = points.last();
    let action = last.map(|last| match &last.acts[..] {
        _ if last.is_error => failure(last),
        [] => "unchanged".to_owned(),
        acts => acts.iter().map(|act| words_for("action", act)).collect::<Vec<_>>().join(", "),
    });
    let is_known = seen.numbers.unknown == 0 && seen.numbers.cost > Usd::ZERO;
    let cost = is_known.then(|| short_usd(seen.numbers.cost));
    let cached = percent(seen.numbers.cached_tokens, seen.numbers.prompt_tokens);
    let name = if seen.title.is_empty() { &seen.id } else { &seen.title };
    [
        shortened(&seen.id, SHOWN_DIGITS),
        shortened(name, MAX_TITLE),
        shortened(&seen.model, MAX_MODEL),
        last.and_then(bar).unwrap_or_default(),
        cached.map_or_else(String::new, |cached| format!("{cached}%")),
        cost.unwrap_or_default(),
        action.unwrap_or_default(),
    ]
}
