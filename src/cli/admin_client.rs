//! A client of the admin listener on this machine.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::config::{AdminListener, reachable_address};
use crate::error::Problem;

/// Maximum bytes of a page. An explanation of 400 rows with their text takes less.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Returns the admin listener's address as reachable from this machine.
pub(super) fn admin_address(at: AdminListener) -> Result<SocketAddr, Problem> {
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

/// Requests one page and returns the status and the body of the response. The error says that
/// nothing listens there, or that the answer is not longhaul's.
pub(super) async fn fetch(address: SocketAddr, path: &str) -> Result<(StatusCode, Bytes), String> {
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
    let answer = sender.send_request(request).await.map_err(no_http)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_PAGE_BYTES)
        .collect()
        .await;
    let body =
        body.map_err(|error| format!("{address} is not longhaul's admin listener: {error}"))?;
    Ok((status, body.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expect: &str) {
        let asked = admin_address(AdminListener::Required(address.parse().unwrap())).unwrap();
        assert_eq!(asked.to_string(), expect);
    }

    #[test]
    fn health_check_of_a_wildcard_address_uses_loopback() {
        check("0.0.0.0:8485", "127.0.0.1:8485");
        check("[::]:8485", "[::1]:8485");
        check("192.0.2.7:8485", "192.0.2.7:8485");
    }

    #[test]
    fn queries_no_address_if_the_listener_is_off_or_on_port_zero() {
        assert!(admin_address(AdminListener::Off).is_err());
        assert!(admin_address(AdminListener::IfFree(([127, 0, 0, 1], 0).into())).is_err());
    }
}
