//! The stream of a client, and its protocol: HTTP/1.1 or HTTP/2, by the first bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::body::stream_with_hooks::StreamWithHooks;
use crate::exchange::client_connection::ClientConnection;
use crate::server::unended_head::UnendedHead;

/// Preface of an HTTP/2 connection (RFC 9113, 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Reads until the protocol is certain; the returned stream replays the bytes that were read. The
/// caller must apply a timeout, since no protocol implementation does so yet. Returns errors of the
/// connection.
pub(super) async fn detect<I: AsyncRead + AsyncWrite + Unpin>(
    mut io: I,
) -> io::Result<(Protocol, impl AsyncRead + AsyncWrite + Unpin)> {
    let mut first = Vec::with_capacity(PREFACE.len());
    while first != PREFACE && PREFACE.starts_with(&first) {
        let open = PREFACE.len() - first.len();
        if io.read_buf(&mut (&mut first).limit(open)).await? == 0 {
            break;
        }
    }
    let protocol = if first == PREFACE { Protocol::Http2 } else { Protocol::Http1 };
    let mut replayed = io::Cursor::new(first);
    let read = move |io: Pin<&mut I>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>| {
        if !replayed.has_remaining() {
            return io.poll_read(cx, buffer);
        }
        let fits = replayed.remaining().min(buffer.remaining());
        buffer.put_slice(replayed.copy_to_bytes(fits).as_ref());
        // Returns the following bytes in the same read: after a short read, the reader doubles its
        // buffer and keeps the larger one. The next read reports any error again.
        _ = io.poll_read(cx, buffer);
        Poll::Ready(Ok(()))
    };
    let written = |_| ();
    Ok((protocol, StreamWithHooks { io, read, written }))
}

/// Returns the stream of a client's `connection`, which measures `head` and records whether bytes that
/// were to be written wait for the client.
pub(super) fn client_stream<I: AsyncRead + AsyncWrite + Unpin>(
    io: I,
    mut head: UnendedHead,
    connection: Arc<ClientConnection>,
) -> impl AsyncRead + AsyncWrite + Unpin {
    let writing = Arc::clone(&connection);
    let read = move |io: Pin<&mut I>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>| {
        let before = buffer.filled().len();
        ready!(io.poll_read(cx, buffer))?;
        let received = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(head.record(received, &connection))
    };
    let written = move |is_pending| {
        if writing.is_writing.load(Ordering::Relaxed) != is_pending {
            writing.is_writing.store(is_pending, Ordering::Relaxed);
        }
    };
    StreamWithHooks { io, read, written }
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
            let (protocol, mut begun) = detect(server).await.unwrap();
            let mut read = Vec::new();
            begun.read_to_end(&mut read).await.unwrap();
            sending.await.unwrap().unwrap();
            assert_eq!((protocol, &*read), (expect, bytes), "{at_once} at once");
        }
    }

    #[tokio::test]
    async fn only_the_full_preface_is_http2() {
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
    async fn protocol_detection_reads_no_more_than_it_needs() {
        let (mut client, server) = duplex(64);
        client.write_all(b"PO").await.unwrap();
        assert_eq!(detect(server).await.unwrap().0, Protocol::Http1);
    }

    #[tokio::test]
    async fn bytes_read_for_detection_and_the_rest_come_in_one_read() {
        let (mut client, server) = duplex(64);
        client.write_all(b"GET /v1/models HTTP/1.1\r\nhost: a\r\n").await.unwrap();
        let (_, mut begun) = detect(server).await.unwrap();
        let mut read = [0; 64];
        assert_eq!(begun.read(&mut read).await.unwrap(), 34);
    }
}
