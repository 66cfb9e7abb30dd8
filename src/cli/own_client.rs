//! A client of longhaul's own listeners, in plain HTTP.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode, Uri, request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;

use crate::config::{AdminListener, Config, reachable_address};
use crate::error::Problem;

/// Maximum time for the answer of a listener on this machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of a page. An explanation of 400 rows with their text takes less.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Returns the admin listener's address as reachable from this machine.
pub(super) fn admin_address(at: AdminListener) -> Result<SocketAddr, Problem> {
    let is_off = || {
        let advice = "admin.listen is off, so there is no listener to ask; set --admin \
                      (LONGHAUL_ADMIN) to an address";
        Problem::CommandLine(advice.into())
    };
    let address = at.address().ok_or_else(is_off)?;
    if address.port() == 0 {
        return Err(Problem::CommandLine(
            "admin.listen has port 0, a different port at each start, so the listener cannot be \
             found; set --admin (LONGHAUL_ADMIN) to an address with a port"
                .into(),
        ));
    }
    Ok(reachable_address(address))
}

/// Sends `request` to the admin listener of `config`. Returns the body of an answer 200, else the problem.
pub(super) fn ask_admin(config: &Config, request: request::Builder) -> Result<Bytes, Problem> {
    let address = admin_address(config.admin)?;
    let path = request.uri_ref().map_or("/", Uri::path).to_owned();
    let failed = |why: &str| Problem::Unanswered(format!("http://{address}{path}: {why}"));
    match ask(address, request)?.map_err(|why| failed(&why))? {
        (StatusCode::OK, body) => Ok(body),
        (status, _) => Err(failed(&format!("the answer is {status}"))),
    }
}

/// Parses an answer of the admin listener.
pub(super) fn parse_answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let why = "the answer is of another version of longhaul";
    serde_json::from_slice(body).map_err(|_| Problem::Unanswered(why.to_owned()))
}

/// Waits for the answer to `request`, for a bounded time. The inner error states why there is none. Fails if no
/// runtime can start.
pub(super) fn ask(
    address: SocketAddr,
    request: request::Builder,
) -> Result<Result<(StatusCode, Bytes), String>, Problem> {
    let answer = async { timeout(ANSWER_TIMEOUT, fetch_answer(address, request)).await };
    let answer = crate::cli::runtime()?.block_on(answer);
    Ok(answer.unwrap_or_else(|_| Err("no answer".to_owned())))
}

/// Requests one page of the admin listener and returns the status and the body of the response. The
/// error states that nothing listens there, or that the answer is not longhaul's.
pub(super) async fn fetch_page(
    address: SocketAddr,
    path: &str,
) -> Result<(StatusCode, Bytes), String> {
    fetch_answer(address, Request::get(path)).await
}

async fn fetch_answer(
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

impl<E: Error + Send + Sync + 'static> From<E> for FetchError {
    fn from(error: E) -> Self {
        Self::NotHttp(error.into())
    }
}

/// Sends a request without a body. Returns the status and the body of the answer, at most
/// `max_bytes` of it.
pub(super) async fn fetch(
    address: impl ToSocketAddrs,
    request: request::Builder,
    max_bytes: usize,
) -> Result<(StatusCode, Bytes), FetchError> {
    let request = request.body(Empty::<Bytes>::new())?;
    let socket = TcpStream::connect(address).await;
    let socket = TokioIo::new(socket.map_err(FetchError::Unreachable)?);
    let (mut sender, connection) = http1::handshake(socket).await?;
    // The task ends with the process. If no response arrives, `send_request` returns the error.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), max_bytes).collect().await;
    Ok((status, body.map_err(FetchError::NotHttp)?.to_bytes()))
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
