//! A stream whose reads go through a function.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that reads through `read`. Writes go to `io` directly.
pub(crate) struct StreamWithRead<I, R> {
    pub(crate) io: I,
    pub(crate) read: R,
}

impl<I, R> AsyncRead for StreamWithRead<I, R>
where
    I: AsyncRead + Unpin,
    R: FnMut(Pin<&mut I>, &mut Context<'_>, &mut ReadBuf<'_>) -> Poll<io::Result<()>> + Unpin,
{
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, read } = self.get_mut();
        read(Pin::new(io), cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin, R: Unpin> AsyncWrite for StreamWithRead<I, R> {
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
