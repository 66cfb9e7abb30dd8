//! `longhaul dashboard`: prints the link of the page that shows the user's longhauls.

use clap::ArgMatches;

use super::own_client::{admin_address, ask_own};
use crate::cli::Done;
use crate::config::Config;
use crate::dashboard::shared;
use crate::error::Problem;

/// Prints the link, with the token. Fails if no longhaul of the user serves a page.
pub(super) fn dashboard(config: &Config, matches: &ArgMatches) -> Done {
    let page = ask_own(config, "GET", "/page")?.into_iter().next();
    let page = page.and_then(|page| String::from_utf8(page.to_vec()).ok());
    let link = match (config.state_folder.as_deref(), page) {
        (None, _) => format!("http://{}", admin_address(config.admin)?),
        (Some(_), None) => {
            let why =
                "no longhaul of yours serves a page; start `longhaul`, or `longhaul run -- AGENT`";
            return Err(Problem::Unanswered(why.into()).into());
        }
        (Some(folder), Some(address)) => {
            let failed = |error| Problem::System(format!("no token of the page: {error}"));
            format!("http://{address}/#token={}", shared::token(folder).map_err(failed)?)
        }
    };
    if matches.get_flag("open") {
        super::open_in_browser(&link);
    }
    super::print(&format!("{link}\n"))
}
