//! `longhaul quota`: the quota of the logins that a running longhaul forwards.

use clap::ArgMatches;

use super::own_client::{ask_admin, parse_answer};
use crate::cli::Done;
use crate::config::Config;
use crate::metrics::quota::{Quota, lines};
use crate::wall_clock;

/// Prints what the admin listener has. Fails if no longhaul answers there.
pub(super) fn quota(config: &Config, matches: &ArgMatches) -> Done {
    let body = ask_admin(config, "GET", "/quota")?;
    let text = if matches.get_flag("json") {
        format!("{}\n", String::from_utf8_lossy(&body))
    } else {
        match lines(&parse_answer::<Vec<Quota>>(&body)?, wall_clock::unix_seconds()) {
            none if none.is_empty() => "no reply has stated a quota yet\n".to_owned(),
            lines => lines,
        }
    };
    crate::cli::print(&text)
}
