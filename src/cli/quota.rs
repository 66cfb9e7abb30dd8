//! `longhaul quota`: the quota of the logins that a running longhaul forwards.

use std::time::Duration;

use clap::ArgMatches;
use http::StatusCode;
use tokio::time::timeout;

use super::own_client::{admin_address, fetch_page};
use crate::config::Config;
use crate::error::Problem;
use crate::metrics::quota::{Quota, lines};
use crate::wall_clock;

/// Time limit for the answer of a program on this machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Prints what the admin listener knows. Fails if no longhaul answers there.
pub(super) fn quota(config: &Config, matches: &ArgMatches) -> Result<(), Vec<Problem>> {
    let address = admin_address(config.admin)?;
    let failed = |why: &str| Problem::Unanswered(format!("http://{address}/quota: {why}"));
    let page = async { timeout(ANSWER_TIMEOUT, fetch_page(address, "/quota")).await };
    let body = match crate::cli::runtime()?.block_on(page) {
        Ok(Ok((StatusCode::OK, body))) => body,
        Ok(Ok((status, _))) => return Err(failed(&format!("the answer is {status}")).into()),
        Ok(Err(why)) => return Err(failed(&why).into()),
        Err(_) => return Err(failed("no answer").into()),
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
