//! A client of longhaul's own listeners, in plain HTTP.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode, request};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;

use crate::config::{AdminListener, Config, reachable_address};
use crate::dashboard::shared::{self, MAX_PAGE_BYTES};
use crate::error::Problem;

/// Maximum time for the answer of a listener on this machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the admin listener's address as reachable from this machine.
pub(super) fn admin_address(at: AdminListener) -> Result<SocketAddr, Problem> {
    let refused = |why: &str| Err(Problem::CommandLine(why.into()));
    match at.address() {
        None => refused(
            "admin.listen is off, so there is no listener to ask; set --admin (LONGHAUL_ADMIN) to an \
             address",
        ),
        Some(address) if address.port() == 0 => refused(
            "admin.listen has port 0, a different port at each start, so the listener cannot be \
             found; set --admin (LONGHAUL_ADMIN) to an address with a port",
        ),
        Some(address) => Ok(reachable_address(address)),
    }
}

/// Asks the running longhauls of the user at their sockets: all, or the one at the address that the settings
/// name. Returns the answers 200. No port receives the token. Fails if no runtime can start.
pub(super) fn ask_own(config: &Config, method: &str, path: &str) -> Result<Vec<Bytes>, Problem> {
    let Some(folder) = config.state_folder.as_deref() else {
        return Ok(Vec::new());
    };
    let wanted = match config.admin {
        AdminListener::Required(address) if address.port() != 0 => Some(address.to_string()),
        AdminListener::Required(_) | AdminListener::IfFree(_) | AdminListener::Off => None,
    };
    crate::cli::runtime()?.block_on(async {
        let mut answers = Vec::new();
        for process in shared::processes(folder) {
            let page = async || shared::ask(folder, process, Request::get("/page")).await;
            if let Some(wanted) = &wanted
                && page().await.is_none_or(|page| page != *wanted)
            {
                continue;
            }
            let request = Request::builder().method(method).uri(path);
            answers.extend(shared::ask(folder, process, request).await);
        }
        Ok(answers)
    })
}

/// Returns the origins at which the running longhauls of the user serve agents. Fails if no runtime can start.
pub(super) fn agent_origins(config: &Config) -> Result<Vec<String>, Problem> {
    let origin = |page: Bytes| {
        let page: Value = serde_json::from_slice(&page).ok()?;
        Some(page.get("agent_url")?.as_str()?.trim_end_matches("/v1").to_owned())
    };
    Ok(ask_own(config, "GET", "/conversations")?.into_iter().filter_map(origin).collect())
}

/// Sends a request to the running longhauls of the user, or else to the admin listener of `config`. Returns the
/// body of an answer 200: of several explanations, the newest. Fails if there is none.
pub(super) fn ask_admin(config: &Config, method: &str, path: &str) -> Result<Bytes, Problem> {
    let at = |body: &Bytes| {
        let report: Value = serde_json::from_slice(body).unwrap_or_default();
        report.pointer("/request/at").and_then(Value::as_u64)
    };
    if let Some(newest) = ask_own(config, method, path)?.into_iter().max_by_key(at) {
        return Ok(newest);
    }
    let unknown = || {
        let what = match path.split('/').collect::<Vec<_>>()[..] {
            ["", "conversations", id, ..] => format!("conversation {id}"),
            ["", "requests", id] if id != "last" => format!("request {id}"),
            _ => "the last request".to_owned(),
        };
        Err(Problem::Unanswered(format!(
            "{what} is unknown to your longhaul: too old, or the upstream never received it. `longhaul \
             top` lists the conversations, the log shows the fault of a request, and `longhaul doctor` \
             tests the upstream"
        )))
    };
    // Every longhaul has the page of quotas.
    if !ask_own(config, "GET", "/quota")?.is_empty() {
        return unknown();
    }
    let address = admin_address(config.admin)?;
    let failed = |why: &str| {
        Problem::Unanswered(format!(
            "no longhaul of yours answers: {why}; start `longhaul`, or `longhaul run -- AGENT`"
        ))
    };
    let answer = fetch_answer(address, Request::builder().method(method).uri(path));
    let answer = async { timeout(ANSWER_TIMEOUT, answer).await };
    let answer = crate::cli::runtime()?.block_on(answer);
    let answer = answer.unwrap_or_else(|_| Err("no answer".to_owned()));
    match answer.map_err(|why| failed(&why))? {
        (StatusCode::OK, body) => Ok(body),
        (StatusCode::NOT_FOUND, _) => unknown(),
        (status, _) => Err(failed(&format!("the answer is {status}"))),
    }
}

/// Parses an answer of the admin listener.
pub(super) fn parse_answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let why = "the answer is of another version of longhaul";
    serde_json::from_slice(body).map_err(|_| Problem::Unanswered(why.to_owned()))
}

/// Sends a request to the admin listener and returns the status and the body of the response. The
/// error states that nothing listens there, or that the answer is not longhaul's.
pub(super) async fn fetch_answer(
    address: SocketAddr,
    request: request::Builder,
) -> Result<(StatusCode, Bytes), String> {
    let request = request.header(HOST, address.to_string());
    let answer = fetch(address, request, MAX_PAGE_BYTES).await;
    answer.map_err(|failure| match failure {
        FetchError::Unreachable(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            format!("not running (nothing listens on {address})")
        }
        FetchError::Unreachable(error) => format!("{address} cannot be reached: {error}"),
        FetchError::NotHttp(error) => {
            format!("{address} is not longhaul's admin listener: {error}")
        }
    })
}

/// Reason why no answer arrived.
pub(super) enum FetchError {
    Unreachable(io::Error),
    /// The answer is not HTTP, or is not complete within the limit.
    NotHttp(Box<dyn Error + Send + Sync>),
}

/// Sends a request without a body. Returns the status and the body of the answer, at most
/// `max_bytes` of it.
pub(super) async fn fetch(
    address: impl ToSocketAddrs,
    request: request::Builder,
    max_bytes: usize,
) -> Result<(StatusCode, Bytes), FetchError> {
    let socket = TcpStream::connect(address).await.map_err(FetchError::Unreachable)?;
    shared::exchange(socket, request, max_bytes).await.map_err(FetchError::NotHttp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_check_of_a_wildcard_address_uses_loopback() {
        for (address, expect) in [
            ("0.0.0.0:8485", "127.0.0.1:8485"),
            ("[::]:8485", "[::1]:8485"),
            ("192.0.2.7:8485", "192.0.2.7:8485"),
        ] {
            let found = admin_address(AdminListener::Required(address.parse().unwrap())).unwrap();
            assert_eq!(found.to_string(), expect);
        }
    }

    #[test]
    fn queries_no_address_if_the_listener_is_off_or_on_port_zero() {
        assert!(admin_address(AdminListener::Off).is_err());
        assert!(admin_address(AdminListener::IfFree(([127, 0, 0, 1], 0).into())).is_err());
    }
}
