//! The admin listener, beside the proxy's own: one page a connection, and little of everything.

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
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::accept;
use crate::admin::Admin;

/// Bytes of the head of a request to the admin listener; hyper takes no less for a buffer.
const ADMIN_BUFFER: usize = 8 * 1024;
/// How long one connection to the admin listener may take from its beginning to its end.
const ADMIN_CONNECTION: Duration = Duration::from_secs(10);
/// Connections to the admin listener at once; more wait. It is asked by a probe, a scraper and a
/// person.
const ADMIN_CONNECTIONS: usize = 32;

/// Serves until dropped, which ends its connections.
pub(super) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    let places = Arc::new(Semaphore::new(ADMIN_CONNECTIONS));
    let mut tasks = JoinSet::new();
    let mut told = None;
    loop {
        let accepted = tokio::select! {
            // Reaps what has ended, so that the set does not grow with the uptime.
            Some(_) = tasks.join_next() => continue,
            accepted = accept(&listener, &places, &mut told) => accepted,
        };
        let Some((socket, place)) = accepted else {
            continue;
        };
        let admin = Arc::clone(&admin);
        tasks.spawn(async move {
            // Who takes longer than that has not come for a page.
            _ = timeout(ADMIN_CONNECTION, answer(socket, &admin)).await;
            drop(place);
        });
    }
}

async fn answer(socket: TcpStream, admin: &Admin) {
    let Ok(peer) = socket.peer_addr() else { return };
    let service = service_fn(|request: Request<Incoming>| {
        let answer = admin.answer(&request, peer.ip()).map(Full::new);
        async { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(ADMIN_BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "an admin connection ended");
    }
}
