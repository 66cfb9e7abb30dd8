//! The body of the upstream's reply.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::upstream::connection_guard::ConnectionGuard;

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
