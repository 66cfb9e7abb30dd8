//! A client of longhaul's own listeners, in plain HTTP.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode, request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;

use crate::config::{AdminListener, reachable_address};
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

/// Waits for the page of [`fetch_page`], for a bounded time. The inner error states why there is no
/// answer. Fails if no runtime can start.
pub(super) fn ask(
    address: SocketAddr,
    path: &str,
) -> Result<Result<(StatusCode, Bytes), String>, Problem> {
    let page = async { timeout(ANSWER_TIMEOUT, fetch_page(address, path)).await };
    let answer = crate::cli::runtime()?.block_on(page);
    Ok(answer.unwrap_or_else(|_| Err("no answer".to_owned())))
}

/// Requests one page of the admin listener and returns the status and the body of the response. The
/// error states that nothing listens there, or that the answer is not longhaul's.
pub(super) async fn fetch_page(
    address: SocketAddr,
    path: &str,
) -> Result<(StatusCode, Bytes), String> {
    let request = Request::get(path).header(HOST, address.to_string());
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
