//! An upstream that gives replies as raw bytes, split as requested.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::recovery::scripted::body;

/// Splitting of a reply's bytes into writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pieces {
    /// A single write.
    Whole,
    /// Byte by byte.
    Bytes,
    /// Two writes, split within the body if there is one.
    Halves,
}

impl Pieces {
    pub(super) const ALL: [Self; 3] = [Self::Whole, Self::Bytes, Self::Halves];

    fn of(self, raw: &[u8]) -> Vec<&[u8]> {
        match self {
            Self::Whole => vec![raw],
            Self::Bytes => raw.chunks(1).collect(),
            Self::Halves => {
                let end = memmem::find(raw, b"\r\n\r\n").unwrap() + 4;
                let (first, second) = raw.split_at(end + (raw.len() - end) / 2);
                vec![first, second]
            }
        }
    }
}

/// A raw reply and its splitting.
type Given = (Vec<u8>, Pieces);

/// An upstream that gives the queued replies in order, and records the requests.
#[derive(Clone, Default)]
pub(super) struct Upstream {
    replies: Arc<Mutex<VecDeque<Given>>>,
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Upstream {
    pub(super) async fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Self::default();
        let served = upstream.clone();
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(served.clone().serve(socket));
            }
        });
        (upstream, address)
    }

    /// Queues replies for the next requests, and discards unused earlier ones.
    pub(super) fn give(&self, replies: impl IntoIterator<Item = Given>) {
        *self.replies.lock().unwrap() = replies.into_iter().collect();
        self.asked.lock().unwrap().clear();
    }

    /// Returns the bodies of the requests since the last [`give`](Self::give).
    pub(super) fn asked(&self) -> Vec<Vec<u8>> {
        self.asked.lock().unwrap().clone()
    }

    async fn serve(self, mut socket: TcpStream) {
        socket.set_nodelay(true).unwrap();
        while let Some(asked) = body(&mut socket).await {
            self.asked.lock().unwrap().push(asked);
            let next = self.replies.lock().unwrap().pop_front();
            let (raw, pieces) = next.expect("a request more than there are replies");
            for piece in pieces.of(&raw) {
                socket.write_all(piece).await.unwrap();
            }
        }
    }
}
