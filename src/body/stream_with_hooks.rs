//! A stream whose reads go through a function, and whose writes are observed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that reads through `read`. Writes go to `io` directly.
pub(crate) struct StreamWithHooks<I, R, W> {
    pub(crate) io: I,
    pub(crate) read: R,
    /// Receives after each write and flush whether bytes wait for the other side.
    pub(crate) written: W,
}

impl<I, R, W: Unpin> AsyncRead for StreamWithHooks<I, R, W>
where
    I: AsyncRead + Unpin,
    R: FnMut(Pin<&mut I>, &mut Context<'_>, &mut ReadBuf<'_>) -> Poll<io::Result<()>> + Unpin,
{
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, read, .. } = self.get_mut();
        read(Pin::new(io), cx, buffer)
    }
}

impl<I, R, W> AsyncWrite for StreamWithHooks<I, R, W>
where
    I: AsyncWrite + Unpin,
    R: Unpin,
    W: FnMut(bool) + Unpin,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        (self.written)(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        (self.written)(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        (self.written)(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
