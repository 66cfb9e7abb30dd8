//! A deadline on the first bytes of a connection. Until they tell HTTP/1.1 from HTTP/2 no protocol
//! is in charge yet, and so nobody's timeout.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// What an HTTP/2 connection begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A socket whose reads fail if its protocol is not told in time.
///
/// Invariant: while `deadline` is there, the bytes read so far are the first `seen` of the preface.
pub(super) struct Opening<I> {
    io: I,
    seen: usize,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<I> Opening<I> {
    pub(super) fn new(io: I, until: Instant) -> Self {
        Self {
            io,
            seen: 0,
            deadline: Some(Box::pin(sleep_until(until))),
        }
    }

    fn note(&mut self, read: &[u8]) {
        let open = PREFACE.get(self.seen..).unwrap_or_default();
        if read.len() < open.len() && open.starts_with(read) {
            self.seen += read.len();
        } else {
            self.deadline = None;
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Opening<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        let Some(deadline) = &mut self.deadline else {
            return read;
        };
        if read.is_pending() {
            ready!(deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.note(buffer.filled().get(before..).unwrap_or_default());
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Opening<I> {
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
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::sleep;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(75);

    /// Whether a read after `first` ends in the deadline; otherwise it gets what comes later.
    async fn check(first: &[u8], expect_timeout: bool) {
        let (mut client, server) = duplex(64);
        let mut server = Opening::new(server, Instant::now() + WITHIN);
        client.write_all(first).await.unwrap();
        let mut read = vec![0; first.len()];
        server.read_exact(&mut read).await.unwrap();
        let later = tokio::spawn(async move {
            sleep(WITHIN * 2).await;
            client.write_all(b"!").await.unwrap();
        });
        let ended = server.read_u8().await;
        let timed_out = ended.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        assert_eq!(timed_out, expect_timeout, "{first:?}");
        later.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_given_up() {
        check(b"", true).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_the_preface_is_no_protocol_yet() {
        check(b"P", true).await;
        check(&PREFACE[..23], true).await;
    }

    #[tokio::test(start_paused = true)]
    async fn once_the_protocol_is_told_the_deadline_is_gone() {
        check(b"PO", false).await;
        check(b"G", false).await;
        check(PREFACE, false).await;
    }
}
