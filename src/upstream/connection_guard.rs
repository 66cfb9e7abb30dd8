//! Ends the request to the upstream when a client leaves before the reply: dropping the guard closes
//! the connection that carries the request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::body::request_body::RequestBody;
use crate::limits::LINGER;

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
        length.is_none_or(|bytes| bytes > SOCKET_BUFFER_BYTES).then(|| Self {
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

/// A streamed reply body. On drop, it handles a connection that has yet to send part of the
/// request:
///
/// - reply abandoned, or a refusal: the connection ends, since no one needs the result of the rest;
/// - any other reply: the upstream may read the rest for a limited time. The limit ends the
///   connection of an upstream that has stalled.
pub(crate) struct UpstreamBody {
    body: Incoming,
    guard: Option<ConnectionGuard>,
    is_refusal: bool,
    has_ended: bool,
}

impl UpstreamBody {
    pub(super) fn wrap(
        reply: Response<Incoming>,
        guard: Option<ConnectionGuard>,
    ) -> Response<Self> {
        let (head, body) = reply.into_parts();
        let download = Self {
            body,
            guard,
            is_refusal: head.status.is_client_error() || head.status.is_server_error(),
            has_ended: false,
        };
        Response::from_parts(head, download)
    }
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        let is_over = self.has_ended || self.body.is_end_stream();
        let Some(guard) = self.guard.take() else {
            return;
        };
        if self.is_refusal || !is_over {
            guard.abort();
        } else {
            guard.abort_after_linger();
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.has_ended |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Aborts a connection from outside the task that drives it. Without the abort, hyper first writes
/// all that it has buffered of a request, for as long as the upstream stalls.
#[derive(Clone, Default)]
pub(super) struct AbortSignal(Arc<Mutex<AbortState>>);

#[derive(Default)]
struct AbortState {
    is_aborted: bool,
    /// Waker of the last task that wrote.
    writer_waker: Option<Waker>,
}

impl AbortSignal {
    /// Makes all further writes fail.
    pub(super) fn abort(&self) {
        let mut state = self.0.lock();
        state.is_aborted = true;
        let writer = state.writer_waker.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Whether the connection was aborted. Otherwise, the task of `cx` is woken on abort.
    pub(super) fn is_aborted(&self, cx: &Context<'_>) -> bool {
        let mut state = self.0.lock();
        let waker = cx.waker();
        if !(state.is_aborted || state.writer_waker.as_ref().is_some_and(|w| w.will_wake(waker))) {
            state.writer_waker = Some(waker.clone());
        }
        state.is_aborted
    }
}
