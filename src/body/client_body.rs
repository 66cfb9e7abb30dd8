//! The body of a client's request. If it is dropped before its end, the rest is read and discarded
//! for a while. Closing a connection while the client still sends resets it, and the client may
//! then lose the reply that names the reason.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::limits::LINGER;

/// Maximum number of bytes discarded of one request. A client that sends more is cut off.
const MAX_DISCARDED_BYTES: usize = 32 << 20;

/// A streamed request body that discards its rest on drop (see the module documentation).
pub(crate) struct ClientBody {
    /// `Some` until drop.
    body: Option<Incoming>,
    rest: UnreadRest,
}

/// State of the unread rest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnreadRest {
    /// The client sends the rest without waiting for a reply.
    Arriving,
    /// No rest is left, or dropping the body does not end the connection.
    NoneLeft,
    /// The client waits for `100 Continue`, which the first read sends.
    AwaitsContinue,
}

impl ClientBody {
    pub(crate) fn wrap(request: Request<Incoming>) -> Request<Self> {
        let (head, body) = request.into_parts();
        let rest = if head.version == Version::HTTP_2 {
            UnreadRest::NoneLeft
        } else if head.headers.contains_key(EXPECT) {
            UnreadRest::AwaitsContinue
        } else {
            UnreadRest::Arriving
        };
        let body = Some(body);
        Request::from_parts(head, Self { body, rest })
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), UnreadRest::Arriving, Ok(runtime)) =
            (body, self.rest, Handle::try_current())
        {
            runtime.spawn(timeout(LINGER, discard(body)));
        }
    }
}

/// Reads and discards a body to its end or to the limit.
async fn discard(mut body: Incoming) {
    let mut left = MAX_DISCARDED_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => break,
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.rest == UnreadRest::AwaitsContinue {
            self.rest = UnreadRest::Arriving;
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.rest = UnreadRest::NoneLeft;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
