//! Conversations as the admin listener of a running longhaul lists them.

use std::cmp::Reverse;

use bytes::Bytes;
use longhaul_console::amounts::percent;
use serde::Deserialize;

use super::own_client::{ask_admin, ask_own, parse_answer};
use crate::config::Config;
use crate::dashboard::ConversationDto;
use crate::error::Problem;
use crate::metrics::quota::Quota;

/// Cells of a bar.
const CELLS: u64 = 5;

#[derive(Deserialize)]
pub(super) struct LiveList {
    /// The newest comes first.
    pub(super) conversations: Vec<ConversationDto>,
    pub(super) quota: Vec<Quota>,
}

#[derive(Deserialize)]
struct Details {
    points: Vec<LivePoint>,
}

/// A request that has ended.
#[derive(Deserialize)]
pub(super) struct LivePoint {
    pub(super) after: u64,
    pub(super) window: u64,
    pub(super) rewritten: bool,
    pub(super) is_error: bool,
    pub(super) acts: Vec<String>,
}

impl LiveList {
    /// Asks for the lists and joins them. Fails if no longhaul answers.
    pub(super) fn ask(config: &Config) -> Result<Self, Problem> {
        let mut joined = Self { conversations: Vec::new(), quota: Vec::new() };
        for page in pages(config, "/conversations")? {
            let list: Self = parse_answer(&page)?;
            joined.conversations.extend(list.conversations);
            joined.quota.extend(list.quota);
        }
        joined.conversations.sort_by_key(|seen| Reverse(seen.last));
        Ok(joined)
    }
}

impl LivePoint {
    /// Asks for the requests of `seen` after number `after`.
    pub(super) fn ask(
        config: &Config,
        seen: &ConversationDto,
        after: u64,
    ) -> Result<Vec<Self>, Problem> {
        let path = format!("/conversations/{}?after={after}", seen.id);
        let mut details = pages(config, &path)?.into_iter().map(|page| parse_answer(&page));
        details.next().map_or_else(|| Ok(Vec::new()), |one| one.map(|one: Details| one.points))
    }

    /// Returns the share of the window as a bar and in percent.
    pub(super) fn bar(&self) -> Option<String> {
        let share = percent(self.after, self.window)?;
        let filled = (share * CELLS).div_ceil(100).min(CELLS);
        let cells: String = (0..CELLS).map(|cell| if cell < filled { '▰' } else { '▱' }).collect();
        Some(format!("{cells} {share}%"))
    }
}

/// Returns a page of each longhaul that has it.
fn pages(config: &Config, path: &str) -> Result<Vec<Bytes>, Problem> {
    let own = ask_own(config, "GET", path)?;
    if own.is_empty() { Ok(vec![ask_admin(config, "GET", path)?]) } else { Ok(own) }
}
