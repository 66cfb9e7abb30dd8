//! The answer on its way to the client, frame by frame as it comes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::account::Account;
use crate::metrics::Ending;
use crate::upstream::{Download, Held};

/// An answer's body with the account of its request.
pub(crate) struct Reply {
    source: Source,
    account: Account,
    /// How it broke off, once what came before is on its way.
    broken: Option<hyper::Error>,
}

enum Source {
    /// Of our own making.
    Own(Full<Bytes>),
    /// The upstream's, as it comes.
    Stream(Held<Download>),
}

/// Relays the upstream's reply.
pub(super) fn relay(reply: Response<Held<Download>>, account: Account) -> Response<Reply> {
    let (head, body) = reply.into_parts();
    answer(head, Source::Stream(body), account)
}

/// Gives an answer of our own making.
pub(super) fn own(made: Response<Bytes>, account: Account) -> Response<Reply> {
    let (head, body) = made.into_parts();
    answer(head, Source::Own(Full::new(body)), account)
}

fn answer(head: http::response::Parts, source: Source, mut account: Account) -> Response<Reply> {
    account.answered(head.status);
    let mut reply = Reply {
        source,
        account,
        broken: None,
    };
    // A body without frames is never asked for one.
    reply.note_end();
    Response::from_parts(head, reply)
}

impl Reply {
    fn note_end(&mut self) {
        if self.is_end_stream() {
            self.account.end(Ending::Complete);
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let frame = ready!(match &mut self.source {
            Source::Own(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|never: std::convert::Infallible| match never {}),
            Source::Stream(body) => Pin::new(body).poll_frame(cx),
        });
        match frame {
            Some(Ok(frame)) => {
                self.account
                    .relayed(frame.data_ref().map_or(&[], |chunk| chunk));
                self.note_end();
                Poll::Ready(Some(Ok(frame)))
            }
            // An error here makes hyper cut the client's connection: never a clean end. With it
            // goes what hyper has not written yet, and it writes where a body has nothing for it.
            Some(Err(error)) => {
                self.account.end(Ending::UpstreamBroke);
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                self.account.end(Ending::Complete);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Own(body) => body.is_end_stream(),
            Source::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Own(body) => body.size_hint(),
            Source::Stream(body) => body.size_hint(),
        }
    }
}
