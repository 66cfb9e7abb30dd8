//! The stream of a client's connection, which measures unended heads and reply bytes that wait.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::exchange::client_connection::ClientConnection;
use crate::server::unended_head::UnendedHead;

/// A client's stream.
pub(super) struct ClientStream<I> {
    pub(super) io: I,
    pub(super) head: UnendedHead,
    pub(super) connection: Arc<ClientConnection>,
}

impl<I> ClientStream<I> {
    /// Records whether bytes that were to be written wait for the client.
    fn record_write<T>(&self, polled: Poll<T>) -> Poll<T> {
        let is_writing = &self.connection.is_writing;
        if is_writing.load(Ordering::Relaxed) != polled.is_pending() {
            is_writing.store(polled.is_pending(), Ordering::Relaxed);
        }
        polled
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for ClientStream<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self {
            io,
            head,
            connection,
        } = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(io).poll_read(cx, buffer))?;
        let received = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(head.record(received, connection))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for ClientStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.record_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        self.record_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.record_write(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
