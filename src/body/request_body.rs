//! The body of a request to the upstream.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::body::chunked_bytes::ChunkedBytes;
use crate::body::client_body::{ClientBody, ClientBodyError};
use crate::body::peeked_body::PeekedBody;
use crate::error::Fault;

#[derive(Debug, Default)]
pub(crate) struct TransferMeter {
    bytes: AtomicU64,
    client_fault: OnceLock<Fault>,
    waited_nanos: AtomicU64,
}

impl TransferMeter {
    /// Returns the number of bytes handed to the upstream connection.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the time spent waiting for the client, the upstream or a summary.
    pub(crate) fn wait_time(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }

    /// Awaits `other` and adds the elapsed time to the wait time. Waits of one request do not
    /// overlap.
    ///
    /// The future is pinned by the caller: each function that takes a large future by value copies the
    /// future three times.
    pub(crate) async fn measure_wait<F: Future>(&self, other: Pin<&mut F>) -> F::Output {
        let began = Instant::now();
        let output = other.await;
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited_nanos.fetch_add(nanoseconds, Ordering::Relaxed);
        output
    }

    /// Returns the fault of the client's side of the body; `None` if that side did not fail.
    pub(crate) fn client_fault(&self) -> Option<Fault> {
        self.client_fault.get().copied()
    }
}

pub(crate) struct RequestBody {
    source: RequestSource,
    meter: Arc<TransferMeter>,
    /// Set once the connection has taken all that it will take of the body.
    is_taken: Arc<AtomicBool>,
}

enum RequestSource {
    /// A body that is streamed, perhaps read in part. Boxed: each pooled connection reserves space for some
    /// thirty requests.
    Stream(Box<PeekedBody<ClientBody>>),
    /// A body of known length, so that Content-Length is sent.
    Buffered(ChunkedBytes),
}

impl RequestBody {
    pub(crate) fn from_peeked(body: PeekedBody<ClientBody>, meter: &Arc<TransferMeter>) -> Self {
        Self::new(RequestSource::Stream(Box::new(body)), meter)
    }

    pub(crate) fn from_client(body: ClientBody, meter: &Arc<TransferMeter>) -> Self {
        Self::from_peeked(PeekedBody::new(body), meter)
    }

    pub(crate) fn from_bytes(bytes: impl Into<ChunkedBytes>, meter: &Arc<TransferMeter>) -> Self {
        Self::new(RequestSource::Buffered(bytes.into()), meter)
    }

    fn new(source: RequestSource, meter: &Arc<TransferMeter>) -> Self {
        Self { source, meter: Arc::clone(meter), is_taken: Arc::default() }
    }

    /// Returns the flag that is set once the connection has taken all that it will take of the
    /// body.
    pub(crate) fn taken_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_taken)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.is_taken.swap(true, Ordering::AcqRel);
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = ClientBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        let frame = ready!(match &mut self.source {
            RequestSource::Stream(body) => Pin::new(body).poll_frame(cx),
            RequestSource::Buffered(bytes) => {
                Poll::Ready(bytes.next_frame().map(|bytes| Ok(Frame::data(bytes))))
            }
        });
        match &frame {
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.meter.bytes.fetch_add(length, Ordering::Relaxed);
            }
            Some(Err(error)) => {
                _ = self.meter.client_fault.set(error.fault());
            }
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            RequestSource::Stream(body) => body.is_end_stream(),
            RequestSource::Buffered(bytes) => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            RequestSource::Stream(body) => body.size_hint(),
            RequestSource::Buffered(bytes) => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
