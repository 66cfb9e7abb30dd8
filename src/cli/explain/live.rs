//! `longhaul explain --last`: fetches the explanation of a request from a running longhaul.

use std::time::Duration;

use clap::ArgMatches;
use http::StatusCode;
use tokio::time::timeout;

use crate::cli::own_client::{admin_address, fetch_page};
use crate::config::Config;
use crate::error::Problem;
use crate::explanation::report::ExplanationReport;
use crate::explanation::table;
use longhaul_console::json::pretty_json;
use longhaul_console::terminal;

/// Maximum time for the answer of a listener on this machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the admin page that the arguments ask for; `None` if they name a file.
pub(super) fn page(matches: &ArgMatches) -> Option<String> {
    let id = |name: &str| matches.get_one::<String>(name).map(|id| encoded(id));
    if matches.get_flag("last") {
        Some("/requests/last".to_owned())
    } else if let Some(id) = id("conversation") {
        Some(format!("/conversations/{id}/last"))
    } else {
        id("request").map(|id| format!("/requests/{id}"))
    }
}

/// Leaves only the characters of an id, so that any argument is a valid path.
fn encoded(id: &str) -> String {
    let letters = id.chars().take(64);
    letters.filter(char::is_ascii_alphanumeric).collect()
}

/// Asks the admin listener for the explanation at `path` and prints it. Fails if no longhaul answers
/// there, or the explanation is not kept.
pub(super) fn explain_live(config: &Config, path: &str, json: bool) -> Result<(), Vec<Problem>> {
    let address = admin_address(config.admin)?;
    let page = async { timeout(ANSWER_TIMEOUT, fetch_page(address, path)).await };
    let failed = |why: &str| {
        Problem::Unanswered(format!(
            "http://{address}: {why}; is `longhaul serve` running, or `longhaul run` with --admin \
             {address}?"
        ))
    };
    let answer = match crate::cli::runtime()?.block_on(page) {
        Ok(answer) => answer.map_err(|why| failed(&why))?,
        Err(_) => return Err(failed("no answer").into()),
    };
    match answer {
        (StatusCode::OK, body) => {
            let report: ExplanationReport = serde_json::from_slice(&body)
                .map_err(|_| failed("the answer is of another version of longhaul"))?;
            crate::cli::print(&if json {
                pretty_json(&report)
            } else {
                table::render(&report, terminal::width())
            })
        }
        (StatusCode::NOT_FOUND, _) => Err(Problem::Unanswered(format!(
            "http://{address}{path}: no explanation is kept: the request is unknown or too old, or the \
             upstream never received it. The log and the dashboard show the fault of such a request, \
             and `longhaul doctor` tests the upstream"
        ))
        .into()),
        (status, _) => Err(failed(&format!("the answer is {status}")).into()),
    }
}
