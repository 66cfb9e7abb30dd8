//! `longhaul statusline`: one line about the session on standard input, for Claude Code.

use std::fmt::Write as _;
use std::io::{self, Read as _};

use longhaul_console::amounts::short_tokens;
use serde_json::Value;

use super::live::{LiveList, bar, points};
use crate::cli::Done;
use crate::config::Config;
use crate::dashboard::ConversationDto;

/// Maximum bytes of the input, which has some 2,000.
const MAX_INPUT: u64 = 1 << 20;
/// Length of the quota window that the line shows, in minutes.
const QUOTA_MINUTES: u64 = 5 * 60;

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
    let list = LiveList::ask(config).ok()?;
    // Titles and the like come from other models.
    let is_this = |seen: &&ConversationDto| seen.session == session && seen.model == model;
    let seen = list.conversations.iter().find(is_this)?;
    let points = points(config, seen, 0).ok()?;
    let last = points.iter().rfind(|point| !point.is_error)?;
    let mut line = format!("{} of {}", bar(last)?, short_tokens(last.window));
    _ = match points.iter().filter(|point| point.rewritten).count() {
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
