//! The admin listener: one request per connection, and small limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::admin::Admin;
use crate::server::acceptor::Acceptor;

/// Maximum size of a request head on the admin listener, in bytes. hyper accepts no smaller buffer.
const ADMIN_BUFFER: usize = 8 * 1024;
/// Maximum duration of a connection to the admin listener.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections to the admin listener; further ones wait. Its clients are a probe,
/// a scraper and a person.
const ADMIN_CONNECTIONS: usize = 32;

/// Serves until dropped, which ends all its connections.
pub(super) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    let mut acceptor = Acceptor::new(listener, ADMIN_CONNECTIONS, "ADMIN_CONNECTIONS");
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // Reaps finished tasks, so that the set does not grow with uptime.
            Some(_) = tasks.join_next() => continue,
            accepted = acceptor.accept() => accepted,
        };
        let Some((socket, place)) = accepted else {
            continue;
        };
        let admin = Arc::clone(&admin);
        tasks.spawn(async move {
            // No legitimate request takes longer.
            _ = timeout(ADMIN_TIMEOUT, serve_connection(socket, &admin)).await;
            drop(place);
        });
    }
}

async fn serve_connection(socket: TcpStream, admin: &Admin) {
    let Ok(peer) = socket.peer_addr() else { return };
    let service = service_fn(|request: Request<Incoming>| {
        let answer = admin.respond(&request, peer.ip()).map(Full::new);
        async { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(ADMIN_BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "admin connection ended");
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, pause};

    use super::*;
    use crate::admin::Overview;
    use crate::config::Config;
    use crate::services::Services;

    /// Starts an admin listener that serves until the set is dropped.
    async fn served() -> (SocketAddr, JoinSet<()>) {
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        let services = Services::new(config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let admin = Admin::new(Overview::from_services(&services), String::new(), address);
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::new(admin)));
        (address, serving)
    }

    /// Sends a probe's request with these header fields.
    async fn probe(address: SocketAddr, fields: &str) -> TcpStream {
        let mut probe = TcpStream::connect(address).await.unwrap();
        let ask = format!("GET /livez HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n");
        probe.write_all(ask.as_bytes()).await.unwrap();
        probe
    }

    async fn answered(mut probe: TcpStream) -> String {
        let mut answer = Vec::new();
        _ = probe.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_probe_waits_for_the_silent_as_long_as_they_may_be_silent() {
        let (address, _serving) = served().await;
        let began = Instant::now();
        let mut silent = Vec::new();
        for _ in 0..ADMIN_CONNECTIONS + 8 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let probe = probe(address, "").await;
        // From here on, the clock jumps to the next deadline.
        pause();
        let answer = answered(probe).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let waited = began.elapsed();
        let bounds = ADMIN_TIMEOUT..2 * ADMIN_TIMEOUT;
        assert!(bounds.contains(&waited), "{waited:?}");
    }

    #[tokio::test]
    async fn a_head_that_no_probe_has_is_refused() {
        let (address, _serving) = served().await;
        for (length, status) in [(ADMIN_BUFFER / 2, 200), (2 * ADMIN_BUFFER, 431)] {
            let fields = format!("x-long: {}\r\n", "x".repeat(length));
            let answer = answered(probe(address, &fields).await).await;
            let line = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&line), "{length} bytes: {answer}");
        }
    }
}
