//! Memory for what a connection reads ahead of a slow client. Reads larger than one step count towards
//! the budget; without room there, the connection reads step by step.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

use crate::body::budget::{BufferBudget, Reservation};
use crate::upstream::proxy_connector::{BoxError, ProxyConnector};
use crate::upstream::upstream_stream::UpstreamStream;

/// Bytes of one step: hyper's first read buffer.
const STEP_BYTES: usize = 8 * 1024;
/// Read buffers that one connection may hold: one that is full, and one on its way to the client.
const BUFFERS: u64 = 2;

/// A connection whose read buffers count towards a budget.
pub(super) struct ReadAhead<I> {
    io: I,
    /// `None` for connections whose replies have other bounds.
    budget: Option<BufferBudget>,
    reservation: Option<Reservation>,
}

impl<I> ReadAhead<I> {
    /// Reserves room for read buffers of `bytes`. Returns whether there is room.
    fn reserve(&mut self, bytes: usize) -> bool {
        let Some(budget) = self.budget.as_ref().filter(|_| bytes > STEP_BYTES) else {
            self.reservation = None;
            return true;
        };
        let reservation = self.reservation.get_or_insert_with(|| budget.read_ahead_reservation());
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        reservation.grow_to(bytes.saturating_mul(BUFFERS)).is_ok()
    }
}

impl<I: Read + Unpin> Read for ReadAhead<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reserve(buffer.remaining()) {
            return Pin::new(&mut self.io).poll_read(cx, buffer);
        }
        let mut step = [0; STEP_BYTES];
        let mut step = ReadBuf::new(&mut step);
        ready!(Pin::new(&mut self.io).poll_read(cx, step.unfilled()))?;
        buffer.put_slice(step.filled());
        Poll::Ready(Ok(()))
    }
}

impl<I: Write + Unpin> Write for ReadAhead<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<I: Connection> Connection for ReadAhead<I> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}

/// Connects within a deadline.
#[derive(Clone)]
pub(super) struct DeadlineConnector {
    pub(super) inner: HttpsConnector<ProxyConnector>,
    pub(super) timeout: Duration,
    /// Memory for what connections read ahead.
    pub(super) budget: Option<BufferBudget>,
}

impl Service<Uri> for DeadlineConnector {
    type Response = ReadAhead<MaybeHttpsStream<UpstreamStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let connecting = self.inner.call(target);
        let (within, budget) = (self.timeout, self.budget.clone());
        Box::pin(async move {
            match tokio::time::timeout(within, connecting).await {
                Ok(connected) => connected.map(|io| ReadAhead { io, budget, reservation: None }),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Returns the number of bytes that one read into a buffer of 64 KiB takes.
    async fn bytes_of_a_read(budget: &BufferBudget) -> usize {
        let (mut server, client) = tokio::io::duplex(1 << 20);
        server.write_all(&vec![b'x'; 1 << 19]).await.unwrap();
        let mut client =
            ReadAhead { io: TokioIo::new(client), budget: Some(budget.clone()), reservation: None };
        let mut room = vec![0; 64 * 1024];
        let mut buffer = ReadBuf::new(&mut room);
        poll_fn(|cx| Pin::new(&mut client).poll_read(cx, buffer.unfilled())).await.unwrap();
        buffer.filled().len()
    }

    #[tokio::test]
    async fn large_reads_count_towards_the_budget_and_are_small_without_room() {
        let budget = BufferBudget::new(512 * 1024);
        assert_eq!(bytes_of_a_read(&budget).await, 64 * 1024);
        let mut bodies = budget.reservation();
        bodies.grow_to(1024).unwrap();
        assert_eq!(bytes_of_a_read(&budget).await, STEP_BYTES);
        drop(bodies);
        assert_eq!(bytes_of_a_read(&budget).await, 64 * 1024);
        let mut all = budget.reservation();
        assert_eq!(all.grow_to(512 * 1024), Ok(()), "connections return their room");
    }
}
