//! Conversations as the admin listener of a running longhaul lists them.

use std::cmp::Reverse;

use bytes::Bytes;
use longhaul_console::amounts::percent;
use serde::Deserialize;

use super::own_client::{ask_admin, ask_own, parse_answer};
use crate::config::Config;
use crate::dashboard::dto::{ConversationDetails, ConversationDto, RequestPoint};
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

/// Asks for the requests of `seen` after number `after`.
pub(super) fn points(
    config: &Config,
    seen: &ConversationDto,
    after: u64,
) -> Result<Vec<RequestPoint>, Problem> {
    let path = format!("/conversations/{}?after={after}", seen.id);
    let page = pages(config, &path)?.into_iter().next();
    let details = page.map(|page| parse_answer::<ConversationDetails>(&page)).transpose()?;
    Ok(details.map(|details| details.points).unwrap_or_default())
}

/// Returns the share of the window that a request takes, as a bar and in percent.
pub(super) fn bar(point: &RequestPoint) -> Option<String> {
    let share = percent(point.after, point.window)?;
    let filled = (share * CELLS).div_ceil(100).min(CELLS);
    let cells: String = (0..CELLS).map(|cell| if cell < filled { '▰' } else { '▱' }).collect();
    Some(format!("{cells} {share}%"))
}

/// Returns a page of each longhaul that has it.
fn pages(config: &Config, path: &str) -> Result<Vec<Bytes>, Problem> {
    let own = ask_own(config, "GET", path)?;
    if own.is_empty() { Ok(vec![ask_admin(config, "GET", path)?]) } else { Ok(own) }
}
