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

/// Accepts connections from a listener.
pub(super) struct Acceptor {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    /// Maximum number of open connections.
    max_connections: usize,
    /// Name of the setting or constant that defines the limit.
    limit_name: &'static str,
    limit_logged_at: Option<Instant>,
    failure_logged_at: Option<Instant>,
}

impl Acceptor {
    /// Creates an acceptor of at most `most` open connections, a limit named `bound`. Further
    /// connections wait.
    pub(super) fn new(listener: TcpListener, most: usize, bound: &'static str) -> Self {
        Self {
            listener,
            permits: Arc::new(Semaphore::new(most)),
            max_connections: most,
            limit_name: bound,
            limit_logged_at: None,
            failure_logged_at: None,
        }
    }

    /// Waits for a permit and then for a connection. Returns `None` after an error, which costs at
    /// most a short delay.
    pub(super) async fn accept(&mut self) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        if self.permits.available_permits() == 0 && is_log_due(&mut self.limit_logged_at) {
            tracing::warn!(
                connections = self.max_connections,
                bound = self.limit_name,
                "connection limit reached; further connections wait until one ends"
            );
        }
        let place = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        match self.listener.accept().await {
            Ok((socket, _)) => Some((socket, place)),
            Err(error) => {
                back_off(&error, &mut self.failure_logged_at).await;
                None
            }
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
        let mut acceptor = Acceptor::new(TcpListener::from_std(socket.into()).unwrap(), 1, "one");
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

    async fn is_waiting(acceptor: &mut Acceptor) -> bool {
        tokio::select! {
            biased;
            _ = acceptor.accept() => false,
            () = std::future::ready(()) => true,
        }
    }

    #[tokio::test]
    async fn logs_the_connection_limit_once_for_repeated_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(listener, 1, "one");
        let _clients = (
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        );
        let (_, place) = acceptor.accept().await.unwrap();
        assert_eq!(acceptor.limit_logged_at, None);
        assert!(is_waiting(&mut acceptor).await);
        let first = acceptor.limit_logged_at;
        assert!(first.is_some());
        assert!(is_waiting(&mut acceptor).await);
        assert_eq!(acceptor.limit_logged_at, first);
        drop(place);
        assert!(acceptor.accept().await.is_some());
    }
}
