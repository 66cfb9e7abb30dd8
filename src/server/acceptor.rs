//! Accepts connections up to a limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

use crate::body::budget::Exhausted;
use crate::request::peer_address::PeerAddress;
use crate::server::connections::{Connections, OpenConnection};

/// Delay before the next accept after the process ran out of descriptors. Connections may end
/// meanwhile, and clients do not notice the delay.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// Interval at which a connection that waits for a place looks for one.
const PLACE_INTERVAL: Duration = Duration::from_millis(20);
/// Minimum interval between two log lines about the same condition.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Waits for one of `places` and then for a connection. Returns `None` after an error, which costs at most
/// a short delay. `failure_logged_at` is the time of the last log line about one.
pub(super) async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    failure_logged_at: &mut Option<Instant>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((socket, _)) => Some((socket, place)),
        Err(error) => {
            back_off(&error, failure_logged_at).await;
            None
        }
    }
}

/// Accepts connections of clients. Idle ones make room for further ones.
pub(crate) struct ClientAcceptor {
    listener: TcpListener,
    connections: Arc<Connections>,
    /// A connection that waits until another one ends.
    waiting: Option<(TcpStream, PeerAddress)>,
    limit_logged_at: Option<Instant>,
    failure_logged_at: Option<Instant>,
}

impl ClientAcceptor {
    pub(crate) fn new(listener: TcpListener, connections: Arc<Connections>) -> Self {
        Self {
            listener,
            connections,
            waiting: None,
            limit_logged_at: None,
            failure_logged_at: None,
        }
    }

    /// Waits for a connection and its place. If none is free, idle connections make room. Returns `None`
    /// after an error, which costs at most a short delay. Cancel-safe.
    pub(crate) async fn accept(&mut self) -> Option<(TcpStream, OpenConnection)> {
        if self.waiting.is_none() {
            match self.listener.accept().await {
                Ok((socket, address)) => {
                    self.waiting = Some((socket, PeerAddress::new(address.ip())));
                }
                Err(error) => {
                    back_off(&error, &mut self.failure_logged_at).await;
                    return None;
                }
            }
        }
        loop {
            let (_, peer) = self.waiting.as_ref()?;
            let peer = *peer;
            match self.connections.open(peer) {
                Ok(open) => return self.waiting.take().map(|(socket, _)| (socket, open)),
                Err(_) if self.connections.make_room(peer) => {}
                Err(exhausted) => {
                    if is_log_due(&mut self.limit_logged_at) {
                        tracing::warn!(
                            connections = self.connections.limit,
                            bound = self.connections.limit_name,
                            "connection limit reached, and each connection has a request under way"
                        );
                    }
                    // An address at its share holds up no other address.
                    if exhausted == Exhausted::Share && self.connections.has_any(peer) {
                        self.waiting = None;
                        return None;
                    }
                    sleep(PLACE_INTERVAL).await;
                }
            }
        }
    }
}

/// Logs a failed accept and waits, unless the error concerns only the connection being accepted.
async fn back_off(error: &io::Error, logged_at: &mut Option<Instant>) {
    if is_connection_error(error) {
        return;
    }
    if is_log_due(logged_at) {
        tracing::error!(%error, "cannot accept; is the limit on open files (ulimit -n) too low?");
    }
    sleep(ACCEPT_BACKOFF).await;
}

/// Whether to log now. If so, updates the time of the last log line.
fn is_log_due(logged_at: &mut Option<Instant>) -> bool {
    let is_due = logged_at.is_none_or(|logged_at| logged_at.elapsed() >= LOG_INTERVAL);
    if is_due {
        *logged_at = Some(Instant::now());
    }
    is_due
}

/// Whether the error concerns only the connection being accepted, so that the next accept may
/// follow at once.
fn is_connection_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn logs_failed_accepts_once_a_minute() {
        // The socket does not listen, so every accept fails.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(socket.into()).unwrap();
        let mut acceptor = ClientAcceptor::new(listener, Connections::new(1, "one"));
        assert!(acceptor.accept().await.is_none());
        let first = acceptor.failure_logged_at;
        assert!(first.is_some());
        assert!(acceptor.accept().await.is_none());
        assert_eq!(acceptor.failure_logged_at, first);
        advance(LOG_INTERVAL).await;
        assert!(acceptor.accept().await.is_none());
        assert!(acceptor.failure_logged_at > first);
        assert_eq!(acceptor.limit_logged_at, None);
    }
}
