//! The answer on its way to the client, frame by frame as it comes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::account::RequestLog;
use crate::metrics::Ending;
use crate::upstream::{PeekedBody, UpstreamBody};

/// An answer's body with the account of its request.
pub(crate) struct ReplyBody {
    source: ReplySource,
    log: RequestLog,
    /// How it broke off, once what came before is on its way.
    pending_error: Option<hyper::Error>,
}

enum ReplySource {
    /// Of our own making.
    Generated(Full<Bytes>),
    /// The upstream's, as it comes.
    Stream(PeekedBody<UpstreamBody>),
}

/// Relays the upstream's reply.
pub(super) fn relay(
    reply: Response<PeekedBody<UpstreamBody>>,
    account: RequestLog,
) -> Response<ReplyBody> {
    let (head, body) = reply.into_parts();
    response(head, ReplySource::Stream(body), account)
}

/// Gives an answer of our own making.
pub(super) fn respond(made: Response<Bytes>, account: RequestLog) -> Response<ReplyBody> {
    let (head, body) = made.into_parts();
    response(head, ReplySource::Generated(Full::new(body)), account)
}

fn response(
    head: http::response::Parts,
    source: ReplySource,
    mut account: RequestLog,
) -> Response<ReplyBody> {
    account.record_response_head(head.status);
    let mut reply = ReplyBody {
        source,
        log: account,
        pending_error: None,
    };
    // A body without frames is never asked for one.
    reply.note_end();
    Response::from_parts(head, reply)
}

impl ReplyBody {
    fn note_end(&mut self) {
        if self.is_end_stream() {
            self.log.end(Ending::Complete);
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(error) = self.pending_error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let frame = ready!(match &mut self.source {
            ReplySource::Generated(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|never: std::convert::Infallible| match never {}),
            ReplySource::Stream(body) => Pin::new(body).poll_frame(cx),
        });
        match frame {
            Some(Ok(frame)) => {
                self.log
                    .record_chunk(frame.data_ref().map_or(&[], |chunk| chunk));
                self.note_end();
                Poll::Ready(Some(Ok(frame)))
            }
            // An error here makes hyper cut the client's connection: never a clean end. With it
            // goes what hyper has not written yet, and it writes where a body has nothing for it.
            Some(Err(error)) => {
                self.log.end(Ending::UpstreamBroke);
                self.pending_error = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                self.log.end(Ending::Complete);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            ReplySource::Generated(body) => body.is_end_stream(),
            ReplySource::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            ReplySource::Generated(body) => body.size_hint(),
            ReplySource::Stream(body) => body.size_hint(),
        }
    }
}
