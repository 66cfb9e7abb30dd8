//! The body of a client's request. If it is dropped before its end, the rest is read and discarded
//! for a while. Closing a connection while the client still sends resets it, and the client may
//! then lose the reply that names the reason.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::body::slow_bodies::BodyProgress;
use crate::error::Fault;
use crate::limits::LINGER;

/// Maximum number of bytes discarded of one request. A client that sends more is cut off.
const MAX_DISCARDED_BYTES: usize = 32 << 20;

/// A streamed request body that discards its rest on drop (see the module documentation).
pub(crate) struct ClientBody {
    /// `Some` until drop.
    body: Option<Incoming>,
    rest: UnreadRest,
    /// Record of the body's arrival, which may end the body.
    pub(crate) progress: Option<Arc<BodyProgress>>,
}

/// Reason why the rest of a body is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientBodyError {
    /// The client left, or the framing is invalid.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// The body arrived slowly and gave way to another request.
    #[error("the body arrived slowly, and another request needed its place")]
    GaveWay,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UnreadRest {
    /// The client sends the rest without waiting for a reply.
    Arriving,
    /// No rest is left, or dropping the body does not end the connection.
    NoneLeft,
    /// The client waits for `100 Continue`, which the first read sends.
    AwaitsContinue,
}

impl ClientBodyError {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::Broken(_) => Fault::RequestBodyBroken,
            Self::GaveWay => Fault::SlowBody,
        }
    }
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
        Request::from_parts(head, Self { body, rest, progress: None })
    }

    fn record_frame(&self, frame: Option<&Result<Frame<Bytes>, hyper::Error>>) {
        let Some(progress) = &self.progress else {
            return;
        };
        match frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                progress.record_bytes(bytes as u64);
            }
            Some(Err(_)) | None => progress.finish(),
        }
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress {
            progress.finish();
        }
        let body = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), UnreadRest::Arriving, Ok(runtime)) =
            (body, self.rest, Handle::try_current())
        {
            runtime.spawn(timeout(LINGER, discard(body)));
        }
    }
}

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
    type Error = ClientBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        if self.rest == UnreadRest::AwaitsContinue {
            self.rest = UnreadRest::Arriving;
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(cx);
        if let (Poll::Pending, Some(progress)) = (&polled, &self.progress) {
            progress.record_wait(cx.waker());
            // The rest is not discarded: the client has not sent it for long.
            if progress.is_ended() {
                self.rest = UnreadRest::NoneLeft;
                return Poll::Ready(Some(Err(ClientBodyError::GaveWay)));
            }
        }
        let frame = ready!(polled);
        self.record_frame(frame.as_ref());
        if !matches!(frame, Some(Ok(_))) {
            self.rest = UnreadRest::NoneLeft;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(ClientBodyError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
