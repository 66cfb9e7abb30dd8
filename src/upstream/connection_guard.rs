//! Ends the request to the upstream when a client leaves before the reply: dropping the guard closes
//! the connection that carries the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Extensions, Request};
use http_body::Body as _;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::body::request_body::RequestBody;
use crate::limits::LINGER;
use crate::upstream::abort_signal::AbortSignal;

/// Bytes that a fresh socket accepts before the peer reads: the initial size of a Linux send
/// buffer.
const SOCKET_BUFFER_BYTES: u64 = 16 * 1024;

/// Ends a request's connection if it is dropped before a reply. In HTTP/1.1, closing the
/// connection is the only way to abandon a request. HTTP/2 resets the stream by itself.
pub(super) struct ConnectionGuard {
    connection: CaptureConnection,
    is_body_taken: Arc<AtomicBool>,
    is_answered: bool,
}

impl ConnectionGuard {
    /// Creates the guard of a request about to be sent. Returns `None` if the body is so short that
    /// the socket accepts it at once: hyper then closes the connection by itself.
    pub(super) fn for_request(request: &mut Request<RequestBody>) -> Option<Self> {
        let length = request.body().size_hint().exact();
        length
            .is_none_or(|bytes| bytes > SOCKET_BUFFER_BYTES)
            .then(|| Self {
                is_body_taken: request.body().taken_flag(),
                connection: capture_connection(request),
                is_answered: false,
            })
    }

    /// Marks the request as answered. Returns the guard only if the connection has yet to send part
    /// of the request body.
    pub(super) fn into_answered(mut self) -> Option<Self> {
        self.is_answered = true;
        Some(self).filter(|guard| !guard.is_body_taken())
    }

    /// Whether the connection has taken the whole request body.
    fn is_body_taken(&self) -> bool {
        self.is_body_taken.load(Ordering::Acquire)
    }

    /// Gives the upstream [`LINGER`] to read the rest of the request, then aborts.
    pub(super) fn abort_after_linger(self) {
        if self.is_body_taken() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return self.abort();
        };
        runtime.spawn(async move {
            sleep(LINGER).await;
            if !self.is_body_taken() {
                self.abort();
            }
        });
    }

    /// Ends the connection, unless it has taken the whole request body and so may serve another
    /// request by now.
    pub(super) fn abort(self) {
        self.poison();
        // The first to set the flag decides. If the body was not taken before, the connection still
        // belonged to this request when it was poisoned, so no other request follows on it.
        if !self.is_body_taken.swap(true, Ordering::AcqRel) {
            self.abort_connection();
        }
    }

    /// Excludes the connection from reuse.
    fn poison(&self) {
        let connection = self.connection.connection_metadata();
        if let Some(connection) = connection.as_ref().filter(|it| !it.is_negotiated_h2()) {
            connection.poison();
        }
    }

    fn abort_connection(&self) {
        let connection = self.connection.connection_metadata();
        if let Some(connection) = connection.as_ref().filter(|it| !it.is_negotiated_h2()) {
            let mut extras = Extensions::new();
            connection.get_extras(&mut extras);
            if let Some(line) = extras.get::<AbortSignal>() {
                line.abort();
            }
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if !self.is_answered {
            self.poison();
            self.abort_connection();
        }
    }
}
