//! `longhaul statusline`: one line about the session on standard input, for Claude Code.

use std::fmt::Write as _;
use std::io::{self, Read as _};

use http::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::own_client::ask_admin;
use crate::cli::Done;
use crate::config::Config;
use crate::metrics::quota::Quota;
use longhaul_console::amounts::{percent, short_tokens};

/// Maximum bytes of the input, which has some 2,000.
const MAX_INPUT: u64 = 1 << 20;
/// Cells of the bar.
const CELLS: u64 = 5;
/// Length of the quota window that the line shows, in minutes.
const QUOTA_MINUTES: u64 = 5 * 60;

#[derive(Deserialize)]
struct List {
    conversations: Vec<Listed>,
    quota: Vec<Quota>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    model: String,
    #[serde(default)]
    session: String,
}

#[derive(Deserialize)]
struct Details {
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    after: u64,
    window: u64,
    rewritten: bool,
    is_error: bool,
}

/// Prints the line; nothing if no running longhaul has the session. Fails if the output cannot be written.
pub(super) fn statusline(config: &Config) -> Done {
    let mut input = String::new();
    _ = io::stdin().take(MAX_INPUT).read_to_string(&mut input);
    crate::cli::print(&line(config, &input).unwrap_or_default())
}

fn line(config: &Config, input: &str) -> Option<String> {
    let input: Value = serde_json::from_str(input).ok()?;
    let session = input.get("session_id")?.as_str().filter(|session| !session.is_empty())?;
    let model = input.pointer("/model/id")?.as_str()?.trim_end_matches("[1m]");
    let list: List = get(config, "/conversations")?;
    // The newest comes first. Titles and the like come from other models.
    let is_this = |seen: &&Listed| seen.session == session && seen.model == model;
    let seen = list.conversations.iter().find(is_this)?;
    let details: Details = get(config, &format!("/conversations/{}", seen.id))?;
    let last = details.points.iter().rfind(|point| !point.is_error)?;
    let share = percent(last.after, last.window)?;
    let filled = (share * CELLS).div_ceil(100).min(CELLS);
    let cells = (0..CELLS).map(|cell| if cell < filled { '▰' } else { '▱' });
    let cells: String = cells.collect();
    let mut line = format!("{cells} {share}% of {}", short_tokens(last.window));
    _ = match details.points.iter().filter(|point| point.rewritten).count() {
        0 => Ok(()),
        1 => line.write_str(" · cleared once"),
        times => write!(line, " · cleared {times} times"),
    };
    if let [account] = &list.quota[..]
        && let Some(window) = account.windows.iter().find(|it| it.minutes == QUOTA_MINUTES)
    {
        _ = write!(line, " · 5 h {:.0}%", window.used_percent);
    }
    Some(line + "\n")
}

fn get<T: DeserializeOwned>(config: &Config, path: &str) -> Option<T> {
    serde_json::from_slice(&ask_admin(config, Request::get(path)).ok()?).ok()
}
