//! What a request has on the connection that carries it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Extensions, Request};
use http_body::Body as _;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::RequestBody;
use super::line::AbortSignal;
use crate::limits::LINGER;

/// Bytes that a fresh socket takes without anybody reading them: what Linux gives one to write into.
const SOCKET_BUFFER_BYTES: u64 = 16 * 1024;

/// A request's claim on its connection. Dropped before there is an answer, it ends the connection: in
/// HTTP/1.1 nothing else tells the upstream that the request is given up. HTTP/2 resets its stream by
/// itself.
pub(super) struct ConnectionGuard {
    connection: CaptureConnection,
    is_body_taken: Arc<AtomicBool>,
    is_answered: bool,
}

impl ConnectionGuard {
    /// The claim of a request that is about to be sent, unless its body is so short that the system
    /// takes it at once: then hyper closes by itself.
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

    /// What is left of it once the head of the answer is there: something only if the connection is
    /// still to take some of the request's body.
    pub(super) fn into_answered(mut self) -> Option<Self> {
        self.is_answered = true;
        Some(self).filter(|claim| !claim.is_body_taken())
    }

    /// Whether the connection has taken all of the request's body.
    fn is_body_taken(&self) -> bool {
        self.is_body_taken.load(Ordering::Acquire)
    }

    /// Leaves the upstream [`LINGER`] to take the rest of the request, and gives it up then.
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

    /// Ends the connection unless it has taken all of the request's body, and may be another's by now.
    pub(super) fn abort(self) {
        self.poison();
        // Who is first here decides: had the connection not taken the body before, it was still this
        // request's when it was poisoned, and is nobody else's behind it.
        if !self.is_body_taken.swap(true, Ordering::AcqRel) {
            self.abort_connection();
        }
    }

    /// The connection takes no further request.
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
