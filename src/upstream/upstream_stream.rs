//! A connection to the upstream, direct or through a proxy.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

use crate::upstream::connection_guard::AbortSignal;

/// Bytes per read after a write has failed.
const READ_BYTES: usize = 8 * 1024;

/// A connection to the target.
///
/// An upstream that refuses a request before reading all of it closes the connection right after
/// the reply. The next write then fails while the reply is still unread, and hyper would end on
/// that failure. Therefore, writes to a closed peer succeed and are discarded, and the reads report
/// how the connection ended.
pub(super) struct UpstreamStream {
    /// The connection itself: to the target or its forward proxy, or a tunnel through a proxy.
    io: Box<dyn Io>,
    /// Whether the peer is a forward proxy, which expects absolute request targets.
    is_forward_proxy: bool,
    abort_signal: AbortSignal,
    /// The kind of the first write error, if any.
    write_error: Option<ErrorKind>,
}

/// The common interface of direct connections and those through proxies.
pub(super) trait Io: Read + Write + Connection + Send + Unpin {}
impl<T: Read + Write + Connection + Send + Unpin> Io for T {}

impl UpstreamStream {
    /// Wraps a direct connection, or one that behaves like it.
    pub(super) fn new(io: impl Io + 'static) -> Self {
        let (io, abort_signal) = (Box::new(io), AbortSignal::default());
        Self { io, is_forward_proxy: false, abort_signal, write_error: None }
    }

    /// Wraps a connection to a forward proxy.
    pub(super) fn to_forward_proxy(io: impl Io + 'static) -> Self {
        Self { is_forward_proxy: true, ..Self::new(io) }
    }

    fn io(&mut self) -> Pin<&mut dyn Io> {
        Pin::new(&mut *self.io)
    }

    /// Writes `length` bytes, or discards them if the peer has closed.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        length: usize,
        write: impl FnOnce(Pin<&mut dyn Io>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.abort_signal.is_aborted(cx) {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        if self.write_error.is_some() {
            return Poll::Ready(Ok(length));
        }
        match ready!(write(self.io(), cx)) {
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
            {
                self.write_error = Some(error.kind());
                Poll::Ready(Ok(length))
            }
            written => Poll::Ready(written),
        }
    }
}

impl Connection for UpstreamStream {
    fn connected(&self) -> Connected {
        let mut connected = self.io.connected();
        if self.is_forward_proxy {
            connected = connected.proxy(true);
        }
        connected.extra(self.abort_signal.clone())
    }
}

impl Read for UpstreamStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(lost) = self.write_error else {
            return self.io().poll_read(cx, buffer);
        };
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut room = [0; READ_BYTES];
        let room = room.get_mut(..READ_BYTES.min(buffer.remaining()));
        let mut piece = ReadBuf::new(room.unwrap_or_default());
        ready!(self.io().poll_read(cx, piece.unfilled()))?;
        // The system reports an error once, and the write consumed it, so this end of file is not a
        // clean one. Without the error, a reply delimited by the connection's end would look
        // complete.
        if piece.filled().is_empty() {
            return Poll::Ready(Err(lost.into()));
        }
        buffer.put_slice(piece.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for UpstreamStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, bytes.len(), |io, cx| io.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = parts.iter().map(|part| part.len()).sum();
        self.write(cx, length, |io, cx| io.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.write(cx, 0, |io, cx| io.poll_flush(cx).map_ok(|()| 0));
        flushed.map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn reads_the_reply_sent_before_a_reset_after_a_failed_write() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (client, server) = tokio::join!(connecting, listener.accept());
        let (mut server, _) = server.unwrap();
        let mut reached = UpstreamStream::new(TokioIo::new(client.unwrap()));
        let request = b"request";
        poll_fn(|cx| Pin::new(&mut reached).poll_write(cx, request)).await.unwrap();
        server.readable().await.unwrap();
        server.write_all(b"answer").await.unwrap();
        // The server closes with the request unread.
        drop(server);
        while reached.write_error.is_none() {
            let write = poll_fn(|cx| Pin::new(&mut reached).poll_write(cx, request));
            assert_eq!(write.await.unwrap(), request.len());
        }
        let mut reached = TokioIo::new(reached);
        let mut answer = [0; 6];
        reached.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
        // The end is not a clean one either.
        let end = reached.read_u8().await.unwrap_err().kind();
        assert_ne!(end, ErrorKind::UnexpectedEof);
    }
}
