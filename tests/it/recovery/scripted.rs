//! An upstream that gives fixed replies, one per connection, and stops after the last.

use std::net::SocketAddr;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A reply: the status, further header lines and the body.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: &'static str,
    pub(crate) body: Vec<u8>,
    /// Bytes by which the announced length exceeds the body.
    missing: usize,
}

impl Reply {
    pub(crate) fn new(status: u16, headers: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers, body: body.into(), missing: 0 }
    }

    /// Builds a stream that breaks off before its first event.
    pub(crate) fn broken_stream() -> Self {
        Self { missing: 1, ..Self::new(200, "content-type: text/event-stream\r\n", "") }
    }
}

/// Starts an upstream that gives these replies in order. The listener closes before the last reply
/// is sent. The handle returns the bodies received.
pub(crate) async fn upstream(replies: Vec<Reply>) -> (SocketAddr, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(serve(listener, replies)))
}

async fn serve(listener: TcpListener, replies: Vec<Reply>) -> Vec<Vec<u8>> {
    let mut listener = Some(listener);
    let mut asked = Vec::new();
    let last = replies.len() - 1;
    for (at, reply) in replies.into_iter().enumerate() {
        let (mut socket, _) = listener.as_ref().unwrap().accept().await.unwrap();
        asked.push(body(&mut socket).await.unwrap());
        if at == last {
            listener = None;
        }
        let head = format!(
            "HTTP/1.1 {} Scripted\r\n{}content-length: {}\r\nconnection: close\r\n\r\n",
            reply.status,
            reply.headers,
            reply.body.len() + reply.missing
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&reply.body).await.unwrap();
    }
    asked
}

/// Reads the body of the next request on a connection; `None` if the peer ended the connection.
pub(crate) async fn body(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    loop {
        let end = memmem::find(&read, b"\r\n\r\n");
        if let Some(end) = end {
            let head = str::from_utf8(&read[..end]).unwrap().to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let whole = end + 4 + length.unwrap().parse::<usize>().unwrap();
            while read.len() < whole {
                assert!(socket.read_buf(&mut read).await.unwrap() > 0);
            }
            return Some(read.split_off(end + 4));
        }
        if socket.read_buf(&mut read).await.unwrap() == 0 {
            assert!(read.is_empty(), "a request broke off");
            return None;
        }
    }
}
