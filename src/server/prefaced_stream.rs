//! Detects HTTP/1.1 or HTTP/2 from the first bytes of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Preface of an HTTP/2 connection (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// A connection whose first bytes were read and are replayed.
pub(super) struct PrefacedStream<I> {
    read_bytes: io::Cursor<Vec<u8>>,
    io: I,
}

impl<I: AsyncRead + Unpin> PrefacedStream<I> {
    /// Reads until the protocol is certain. The caller must apply a timeout, since no protocol
    /// implementation does so yet.
    ///
    /// # Errors
    /// Returns errors of the connection.
    pub(super) async fn detect(mut io: I) -> io::Result<(Protocol, Self)> {
        let mut first = Vec::with_capacity(PREFACE.len());
        while first != PREFACE && PREFACE.starts_with(&first) {
            let open = PREFACE.len() - first.len();
            if io.read_buf(&mut (&mut first).limit(open)).await? == 0 {
                break;
            }
        }
        let protocol = if first == PREFACE {
            Protocol::Http2
        } else {
            Protocol::Http1
        };
        let first = io::Cursor::new(first);
        Ok((
            protocol,
            Self {
                read_bytes: first,
                io,
            },
        ))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for PrefacedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read_bytes.has_remaining() {
            return Pin::new(&mut self.io).poll_read(cx, buffer);
        }
        let fits = self.read_bytes.remaining().min(buffer.remaining());
        buffer.put_slice(self.read_bytes.copy_to_bytes(fits).as_ref());
        // Returns the following bytes in the same read: after a short read, the reader doubles its
        // buffer and keeps the larger one. The next read reports any error again.
        _ = Pin::new(&mut self.io).poll_read(cx, buffer);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for PrefacedStream<I> {
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// Sends `bytes` a few at a time, then checks the detected protocol and that all bytes are
    /// read.
    async fn check(bytes: &[u8], expect: Protocol) {
        for at_once in [1, 2, 23, 24, 25, bytes.len()] {
            let (mut client, server) = duplex(at_once);
            let sent = bytes.to_vec();
            let sending = tokio::spawn(async move { client.write_all(&sent).await });
            let (protocol, mut begun) = PrefacedStream::detect(server).await.unwrap();
            let mut read = Vec::new();
            begun.read_to_end(&mut read).await.unwrap();
            sending.await.unwrap().unwrap();
            assert_eq!((protocol, &*read), (expect, bytes), "{at_once} at once");
        }
    }

    #[tokio::test]
    async fn the_preface_and_nothing_else_is_http2() {
        let http2 = [PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
        check(PREFACE, Protocol::Http2).await;
        check(&http2, Protocol::Http2).await;
        check(&PREFACE[..23], Protocol::Http1).await;
        check(b"POST /v1/chat/completions HTTP/1.1\r\n", Protocol::Http1).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r!", Protocol::Http1).await;
        check(b"P", Protocol::Http1).await;
        check(b"G", Protocol::Http1).await;
    }

    #[tokio::test]
    async fn no_more_is_read_than_tells_it() {
        let (mut client, server) = duplex(64);
        client.write_all(b"PO").await.unwrap();
        assert_eq!(
            PrefacedStream::detect(server).await.unwrap().0,
            Protocol::Http1
        );
    }

    #[tokio::test]
    async fn what_follows_comes_in_the_same_read() {
        let (mut client, server) = duplex(64);
        client
            .write_all(b"GET /v1/models HTTP/1.1\r\nhost: a\r\n")
            .await
            .unwrap();
        let (_, mut begun) = PrefacedStream::detect(server).await.unwrap();
        let mut read = [0; 64];
        assert_eq!(begun.read(&mut read).await.unwrap(), 34);
    }
}
