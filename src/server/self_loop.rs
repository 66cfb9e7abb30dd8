//! Refuses an upstream that is longhaul's own listener: every request would loop forever.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::config::BaseUrl;
use crate::error::Problem;

/// Timeout of the lookup at start. A slow resolver must not delay the start: the loop check is a
/// courtesy, not a gate.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Refuses upstreams whose requests would come back to `listen`. Fails if an upstream is that
/// listener. Names that do not resolve are accepted.
pub(crate) async fn refuse_self_loop(
    bases: impl IntoIterator<Item = &BaseUrl>,
    listen: SocketAddr,
) -> Result<(), Problem> {
    for base in bases {
        if base.port() != listen.port() {
            continue;
        }
        let host = base.authority().host();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = timeout(LOOKUP_TIMEOUT, lookup_host((host, base.port()))).await;
        let Ok(Ok(mut found)) = found else {
            continue;
        };
        if found.any(|upstream| reaches_listener(upstream.ip().to_canonical(), listen)) {
            return Err(Problem::SelfLoop(format!(
                "upstream {base} is longhaul's own listener {listen}; set --upstream \
                 (LONGHAUL_UPSTREAM) to the endpoint that the agent would use without longhaul"
            )));
        }
    }
    Ok(())
}

/// Whether connecting to `upstream` reaches `listen`, given equal ports.
fn reaches_listener(upstream: IpAddr, listen: SocketAddr) -> bool {
    let listening = listen.ip().to_canonical();
    // Connecting to the unspecified address reaches this machine.
    let loops_back = upstream.is_loopback() || upstream.is_unspecified();
    upstream == listening
        || (upstream.is_unspecified() && listening.is_loopback())
        || (listening.is_unspecified() && (loops_back || is_local_address(upstream)))
}

/// Whether `address` belongs to this machine: sockets bind to local addresses only.
fn is_local_address(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn check(listen: &str, upstream: &str, expect_refused: bool) {
        let listener = TcpListener::bind((listen, 0)).await.unwrap();
        let listens = listener.local_addr().unwrap();
        let port = listens.port().to_string();
        let base = BaseUrl::parse(&upstream.replace("PORT", &port)).unwrap();
        assert_eq!(
            refuse_self_loop([&base], listens).await.is_err(),
            expect_refused,
            "{listen} {upstream}"
        );
    }

    #[tokio::test]
    async fn rejects_its_own_listener_under_every_name() {
        check("127.0.0.1", "http://127.0.0.1:PORT/v1", true).await;
        check("127.0.0.1", "http://localhost:PORT/v1", true).await;
        check("127.0.0.1", "http://0.0.0.0:PORT", true).await;
        check("127.0.0.1", "https://[::ffff:127.0.0.1]:PORT", true).await;
        check("0.0.0.0", "http://127.0.0.1:PORT", true).await;
        check("0.0.0.0", "http://0.0.0.0:PORT", true).await;
    }

    #[tokio::test]
    async fn accepts_another_port_or_host() {
        check("127.0.0.1", "http://127.0.0.1:1", false).await;
        check("0.0.0.0", "http://192.0.2.1:PORT", false).await;
        check("127.0.0.1", "http://does-not-exist.invalid:PORT", false).await;
    }
}
