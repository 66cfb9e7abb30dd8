//! `longhaul health`: checks whether a running longhaul is healthy. Intended for health checks of
//! containers whose image has no other program.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;
use http::{Request, StatusCode};
use tokio::time::timeout;

use super::own_client::{admin_address, fetch_answer};
use crate::cli::Done;
use crate::config::Config;

/// The time limit of `longhaul health`: less than the 3 s of the image's health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// Queries the admin listener and returns the exit code. Fails if the settings have no admin
/// listener with a fixed address.
pub(super) fn health(config: &Config, matches: &ArgMatches) -> Done<ExitCode> {
    let address = admin_address(config.admin)?;
    let path = if matches.get_flag("ready") { "/readyz" } else { "/livez" };
    let page = async { timeout(HEALTH_TIMEOUT, fetch_answer(address, Request::get(path))).await };
    let answer = match crate::cli::runtime()?.block_on(page) {
        Ok(answer) => answer.map(|(status, _)| status),
        Err(_) => {
            Err(format!("http://{address}{path}: no answer within {} s", HEALTH_TIMEOUT.as_secs()))
        }
    };
    let why = match answer {
        Ok(StatusCode::OK) => return Ok(ExitCode::SUCCESS),
        Ok(status) => format!("http://{address}{path}: the answer is {status}"),
        Err(why) => why,
    };
    crate::cli::print_error(&format!("longhaul: {why}\n"));
    Ok(ExitCode::FAILURE)
}

/// Whether a longhaul answers at `address`, within the time limit of `longhaul health`.
pub(super) async fn is_alive(address: SocketAddr) -> bool {
    let answer = timeout(HEALTH_TIMEOUT, fetch_answer(address, Request::get("/livez"))).await;
    matches!(answer, Ok(Ok((StatusCode::OK, _))))
}
