//! The body of a request on its way to the upstream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::{Held, Pieces, Upload};

/// What became of a request on its way; read by whoever accounts for it.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: AtomicU64,
    broken: AtomicBool,
    /// Nanoseconds.
    waited: AtomicU64,
}

impl Meter {
    /// Bytes handed to the upstream's connection.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How long others were waited for: the client, the upstream, a summary.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    /// Waits for somebody else, by the clock. Waits of one request do not overlap.
    pub(crate) async fn waiting<F: Future>(&self, other: F) -> F::Output {
        let began = Instant::now();
        let output = other.await;
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited.fetch_add(nanoseconds, Ordering::Relaxed);
        output
    }

    /// Whether the client's side of the body failed.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}

/// A request body with its meter.
pub(crate) struct Outgoing {
    source: Source,
    meter: Arc<Meter>,
    /// Whether the connection has taken all that it takes of it.
    taken: Arc<AtomicBool>,
}

/// Where the bytes come from.
enum Source {
    /// Read in part, the rest as it comes. Apart, for it is seldom: each pooled connection keeps
    /// room for some thirty requests.
    Held(Box<Held<Upload>>),
    /// As it comes.
    Stream(Upload),
    /// Known whole, so that Content-Length stands.
    Whole(Pieces),
}

impl Outgoing {
    /// A body of which frames were already read.
    pub(crate) fn held(body: Held<Upload>, meter: &Arc<Meter>) -> Self {
        Self::of(Source::Held(Box::new(body)), meter)
    }

    /// A body as it comes.
    pub(crate) fn stream(body: Upload, meter: &Arc<Meter>) -> Self {
        Self::of(Source::Stream(body), meter)
    }

    /// A body of known bytes.
    pub(crate) fn whole(bytes: impl Into<Pieces>, meter: &Arc<Meter>) -> Self {
        Self::of(Source::Whole(bytes.into()), meter)
    }

    fn of(source: Source, meter: &Arc<Meter>) -> Self {
        Self {
            source,
            meter: Arc::clone(meter),
            taken: Arc::default(),
        }
    }

    /// Tells once the connection has taken all that it takes of it.
    pub(super) fn taken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.taken)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.taken.swap(true, Ordering::AcqRel);
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(match &mut self.source {
            Source::Held(body) => Pin::new(body).poll_frame(cx),
            Source::Stream(body) => Pin::new(body).poll_frame(cx),
            Source::Whole(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|never: std::convert::Infallible| match never {}),
        });
        match &frame {
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.meter.bytes.fetch_add(length, Ordering::Relaxed);
            }
            Some(Err(_)) => self.meter.broken.store(true, Ordering::Relaxed),
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Held(body) => body.is_end_stream(),
            Source::Stream(body) => body.is_end_stream(),
            Source::Whole(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Held(body) => body.size_hint(),
            Source::Stream(body) => body.size_hint(),
            Source::Whole(body) => body.size_hint(),
        }
    }
}
