//! `longhaul quota`: the quota of the logins that a running longhaul forwards.

use std::fmt::Write as _;

use clap::ArgMatches;

use super::own_client::{ask_admin, parse_answer};
use crate::cli::Done;
use crate::config::Config;
use crate::metrics::quota::{DAY_MINUTES, Quota, QuotaWindow};
use crate::wall_clock;

/// Prints what the admin listener has. Fails if no longhaul answers there.
pub(super) fn quota(config: &Config, matches: &ArgMatches) -> Done {
    let body = ask_admin(config, "GET", "/quota")?;
    let text = if matches.get_flag("json") {
        format!("{}\n", String::from_utf8_lossy(&body))
    } else {
        match lines(&parse_answer::<Vec<Quota>>(&body)?) {
            none if none.is_empty() => "no reply has stated a quota yet\n".to_owned(),
            lines => lines,
        }
    };
    crate::cli::print(&text)
}

/// Returns a line for each window of the accounts, for people.
pub(super) fn lines(accounts: &[Quota]) -> String {
    let mut page = String::new();
    for quota in accounts {
        let name = if accounts.len() > 1 {
            format!("{} {}", quota.source, quota.account)
        } else {
            quota.source.clone()
        };
        for window in &quota.windows {
            _ = writeln!(page, "{name}, {}", sentence(window));
        }
        if quota.is_refused {
            _ = writeln!(
                page,
                "{name}: the provider refuses requests at present, perhaps of one model"
            );
        }
    }
    page
}

/// Returns a window in words.
fn sentence(window: &QuotaWindow) -> String {
    let mut text = match window.minutes {
        minutes if minutes.is_multiple_of(DAY_MINUTES) => {
            format!("{} d", minutes / DAY_MINUTES)
        }
        minutes if minutes.is_multiple_of(60) => format!("{} h", minutes / 60),
        minutes => format!("{minutes} min"),
    };
    if !window.limit.is_empty() {
        _ = write!(text, " ({} alone)", window.limit);
    }
    _ = write!(text, ": {:.0}% used", window.used_percent);
    if let Some(at) = window.resets_at {
        let is_far = at.saturating_sub(wall_clock::unix_seconds()) >= DAY_MINUTES * 60;
        let format = if is_far { ", resets %d %b %H:%M %:z" } else { ", resets %H:%M %:z" };
        text += &wall_clock::local(at, format);
    }
    if let Some(without) = window.without_percent {
        _ = write!(text, "; about {without:.0}% without longhaul");
    }
    text
}
