//! `longhaul health`: asks a running longhaul whether it is healthy. Intended for health checks of
//! containers whose image has no other program.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgMatches, Command};
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::flags::switch;
use super::serve::reachable_address;
use crate::config::{AdminListener, Config};
use crate::error::Problem;

/// The time limit of `longhaul health`: less than the 3 s of the image's health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// Builds the `health` subcommand.
pub(super) fn command() -> Command {
    Command::new("health")
        .about("Ask a running longhaul on this machine whether it is alive")
        .long_about(
            "Asks the admin listener that these settings name, on this machine. Exits with 0 if \
             longhaul is healthy, with 1 if it is not or does not answer within 2 s, with 64 if the \
             settings are invalid or have no admin listener.",
        )
        .arg(
            switch("ready", "Also ask whether it accepts new requests: not while shutting down"),
        )
}

/// Queries the admin listener and returns the exit code.
///
/// # Errors
/// The settings have no admin listener with a fixed address.
pub(super) fn health(config: &Config, matches: &ArgMatches) -> Result<ExitCode, Vec<Problem>> {
    let address = admin_address(config.admin)?;
    let path = if matches.get_flag("ready") {
        "/readyz"
    } else {
        "/livez"
    };
    let asked = async { timeout(HEALTH_TIMEOUT, fetch_status(address, path)).await };
    let answer = match crate::cli::runtime()?.block_on(asked) {
        Ok(answer) => answer,
        Err(_) => Err(format!(
            "http://{address}{path}: no answer within {} s",
            HEALTH_TIMEOUT.as_secs()
        )),
    };
    Ok(match answer {
        Ok(StatusCode::OK) => ExitCode::SUCCESS,
        Ok(status) => report_unhealthy(address, path, &format!("the answer is {status}")),
        Err(why) => {
            crate::cli::print_error(&format!("longhaul: {why}\n"));
            ExitCode::FAILURE
        }
    })
}

fn report_unhealthy(address: SocketAddr, path: &str, why: &str) -> ExitCode {
    crate::cli::print_error(&format!("longhaul: http://{address}{path}: {why}\n"));
    ExitCode::FAILURE
}

/// Returns the admin listener's address as reachable from this machine.
fn admin_address(at: AdminListener) -> Result<SocketAddr, Problem> {
    let address = match at {
        AdminListener::Required(address) | AdminListener::IfFree(address) => address,
        AdminListener::Off => {
            return Err(Problem::CommandLine(
                "admin.listen is off, so there is no listener to ask; set --admin (LONGHAUL_ADMIN) \
                 to an address"
                    .into(),
            ));
        }
    };
    if address.port() == 0 {
        return Err(Problem::CommandLine(
            "admin.listen has port 0, a different port at each start, so the listener cannot be \
             found; set --admin (LONGHAUL_ADMIN) to an address with a port"
                .into(),
        ));
    }
    Ok(reachable_address(address))
}

/// Whether a longhaul answers at `address`, within the time limit of `longhaul health`.
pub(super) async fn is_alive(address: SocketAddr) -> bool {
    let status = timeout(HEALTH_TIMEOUT, fetch_status(address, "/livez")).await;
    matches!(status, Ok(Ok(StatusCode::OK)))
}

/// Requests one page and returns the status of the response.
async fn fetch_status(address: SocketAddr, path: &str) -> Result<StatusCode, String> {
    let socket = TcpStream::connect(address).await.map_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            format!("not running (nothing listens on {address})")
        } else {
            format!("{address} cannot be reached: {error}")
        }
    })?;
    let no_http =
        |error: hyper::Error| format!("{address} is not longhaul's admin listener: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(no_http)?;
    let request = Request::get(path)
        .header(HOST, address.to_string())
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    // The task ends with the process. If no response arrives, `send_request` returns the error.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    Ok(answer.map_err(no_http)?.status())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expect: &str) {
        let asked = admin_address(AdminListener::Required(address.parse().unwrap())).unwrap();
        assert_eq!(asked.to_string(), expect);
    }

    #[test]
    fn a_listener_on_every_address_is_asked_on_loopback() {
        check("0.0.0.0:8485", "127.0.0.1:8485");
        check("[::]:8485", "[::1]:8485");
        check("192.0.2.7:8485", "192.0.2.7:8485");
    }

    #[test]
    fn nobody_is_asked_where_nobody_can_be_found() {
        assert!(admin_address(AdminListener::Off).is_err());
        assert!(admin_address(AdminListener::IfFree(([127, 0, 0, 1], 0).into())).is_err());
    }
}
