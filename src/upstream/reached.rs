//! A connection to the upstream, whichever way it was reached.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::line::Line;

/// With a proxy, in TLS where its own URL says so.
type WithProxy = Box<MaybeHttpsStream<TokioIo<TcpStream>>>;

/// A connection that stands for one to the target.
pub(super) struct Reached {
    way: By,
    line: Line,
}

/// How it was reached.
pub(super) enum By {
    /// A proxy that wants to know the whole URL of each request.
    Forward(WithProxy),
    /// The target itself, or as if.
    Straight(TokioIo<TcpStream>),
    /// The target, through a proxy.
    Tunnel(WithProxy),
}

/// What all of them do.
trait Io: Read + Write + Unpin {}
impl<T: Read + Write + Unpin> Io for T {}

impl Reached {
    /// A fresh connection.
    pub(super) fn new(way: By) -> Self {
        Self {
            way,
            line: Line::default(),
        }
    }

    fn io(&mut self) -> Pin<&mut dyn Io> {
        match &mut self.way {
            By::Forward(io) | By::Tunnel(io) => Pin::new(&mut **io),
            By::Straight(io) => Pin::new(io),
        }
    }

    /// Writes, unless the connection is given up.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut dyn Io>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.line.is_cut(cx) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        write(self.io(), cx)
    }
}

impl Connection for Reached {
    fn connected(&self) -> Connected {
        let connected = match &self.way {
            By::Forward(io) => io.connected().proxy(true),
            By::Straight(io) => io.connected(),
            By::Tunnel(io) => io.connected(),
        };
        connected.extra(self.line.clone())
    }
}

impl Read for Reached {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(cx, buffer)
    }
}

impl Write for Reached {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |io, cx| io.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |io, cx| io.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.way {
            By::Forward(io) | By::Tunnel(io) => io.is_write_vectored(),
            By::Straight(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.write(cx, |io, cx| io.poll_flush(cx).map_ok(|()| 0));
        flushed.map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(cx)
    }
}
