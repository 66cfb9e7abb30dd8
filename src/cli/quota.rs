//! `longhaul quota`: the quota of the logins that a running longhaul forwards.

use clap::ArgMatches;
use http::StatusCode;

use super::own_client::{admin_address, ask};
use crate::cli::Done;
use crate::config::Config;
use crate::error::Problem;
use crate::metrics::quota::{Quota, lines};
use crate::wall_clock;

/// Prints what the admin listener knows. Fails if no longhaul answers there.
pub(super) fn quota(config: &Config, matches: &ArgMatches) -> Done {
    let address = admin_address(config.admin)?;
    let failed = |why: &str| Problem::Unanswered(format!("http://{address}/quota: {why}"));
    let body = match ask(address, "/quota")?.map_err(|why| failed(&why))? {
        (StatusCode::OK, body) => body,
        (status, _) => return Err(failed(&format!("the answer is {status}")).into()),
    };
    let text = if matches.get_flag("json") {
        format!("{}\n", String::from_utf8_lossy(&body))
    } else {
        let accounts: Vec<Quota> = serde_json::from_slice(&body)
            .map_err(|_| failed("the answer is of another version of longhaul"))?;
        match lines(&accounts, wall_clock::unix_seconds()) {
            none if none.is_empty() => "no reply has stated a quota yet\n".to_owned(),
            lines => lines,
        }
    };
    crate::cli::print(&text)
}
