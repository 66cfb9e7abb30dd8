//! What a request has on the connection that carries it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Extensions, Request};
use http_body::Body as _;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::Outgoing;
use super::line::Line;
use crate::limits::LINGER;

/// Bytes that a fresh socket takes without anybody reading them: what Linux gives one to write into.
const AT_ONCE: u64 = 16 * 1024;

/// A request's claim on its connection. Dropped before there is an answer, it ends the connection: in
/// HTTP/1.1 nothing else tells the upstream that the request is given up. HTTP/2 resets its stream by
/// itself.
pub(super) struct Claim {
    connection: CaptureConnection,
    taken: Arc<AtomicBool>,
    is_answered: bool,
}

impl Claim {
    /// The claim of a request that is about to be sent, unless its body is so short that the system
    /// takes it at once: then hyper closes by itself.
    pub(super) fn of(request: &mut Request<Outgoing>) -> Option<Self> {
        let length = request.body().size_hint().exact();
        length.is_none_or(|bytes| bytes > AT_ONCE).then(|| Self {
            taken: request.body().taken(),
            connection: capture_connection(request),
            is_answered: false,
        })
    }

    /// What is left of it once the head of the answer is there: something only if the connection is
    /// still to take some of the request's body.
    pub(super) fn answered(mut self) -> Option<Self> {
        self.is_answered = true;
        Some(self).filter(|claim| !claim.is_done())
    }

    /// Whether the connection has taken all of the request's body.
    fn is_done(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Leaves the upstream [`LINGER`] to take the rest of the request, and gives it up then.
    pub(super) fn linger(self) {
        if self.is_done() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return self.give_up();
        };
        runtime.spawn(async move {
            sleep(LINGER).await;
            if !self.is_done() {
                self.give_up();
            }
        });
    }

    /// Ends the connection unless it has taken all of the request's body, and may be another's by now.
    pub(super) fn give_up(self) {
        self.poison();
        // Who is first here decides: had the connection not taken the body before, it was still this
        // request's when it was poisoned, and is nobody else's behind it.
        if !self.taken.swap(true, Ordering::AcqRel) {
            self.cut();
        }
    }

    /// The connection takes no further request.
    fn poison(&self) {
        let connection = self.connection.connection_metadata();
        if let Some(connection) = connection.as_ref().filter(|it| !it.is_negotiated_h2()) {
            connection.poison();
        }
    }

    fn cut(&self) {
        let connection = self.connection.connection_metadata();
        if let Some(connection) = connection.as_ref().filter(|it| !it.is_negotiated_h2()) {
            let mut extras = Extensions::new();
            connection.get_extras(&mut extras);
            if let Some(line) = extras.get::<Line>() {
                line.cut();
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_answered {
            self.poison();
            self.cut();
        }
    }
}
