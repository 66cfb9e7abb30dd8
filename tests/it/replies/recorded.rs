//! The recorded replies, and an upstream that gives them as raw bytes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::recovery::scripted::body;

/// What follows a refusal, as the fixture has it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Compact,
    FewerBytes,
    Leave,
    Malformed,
    SmallerOutput,
}

/// One line of `fixtures/replies.jsonl`, as far as it is asked here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Recorded {
    pub(super) file: String,
    pub(super) answer: Answer,
    pub(super) limit: Option<u32>,
    pub(super) used: Option<u32>,
    pub(super) output: Option<u32>,
    pub(super) excess: Option<u32>,
    #[serde(default)]
    pub(super) silent: bool,
}

pub(super) fn all() -> Vec<Recorded> {
    let lines = include_str!("../../../fixtures/replies.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

impl Recorded {
    /// The reply, byte for byte.
    pub(super) fn raw(&self) -> Vec<u8> {
        let path = format!(
            "{}/fixtures/replies/{}",
            env!("CARGO_MANIFEST_DIR"),
            self.file
        );
        std::fs::read(path).unwrap()
    }

    /// Whether what the window leaves beside the output holds no conversation at all: not even the
    /// newest result, clipped as far as it goes.
    pub(super) fn is_hopeless(&self) -> bool {
        let output = self.output.unwrap_or(0);
        self.limit
            .is_some_and(|limit| limit - output.min(limit / 2) <= 512)
    }

    /// Its status and its body, out of the chunks if it has some.
    pub(super) fn read(&self) -> (u16, Vec<u8>) {
        let raw = self.raw();
        let end = raw.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let (head, mut rest) = (str::from_utf8(&raw[..end]).unwrap(), &raw[end..]);
        let status = head[9..12].parse().unwrap();
        if !head.contains("transfer-encoding: chunked") {
            return (status, rest.to_vec());
        }
        let mut body = Vec::new();
        loop {
            let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
            let size = str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                return (status, body);
            }
            let start = line + 2;
            body.extend_from_slice(&rest[start..start + size]);
            rest = &rest[start + size + 2..];
        }
    }
}

/// How the bytes of a reply are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pieces {
    /// All of it at once.
    Whole,
    /// Byte by byte.
    Bytes,
    /// In two, the cut within the body if there is one.
    Halves,
}

impl Pieces {
    pub(super) const ALL: [Self; 3] = [Self::Whole, Self::Bytes, Self::Halves];

    fn of(self, raw: &[u8]) -> Vec<&[u8]> {
        match self {
            Self::Whole => vec![raw],
            Self::Bytes => raw.chunks(1).collect(),
            Self::Halves => {
                let end = raw.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
                let (first, second) = raw.split_at(end + (raw.len() - end) / 2);
                vec![first, second]
            }
        }
    }
}

/// An upstream that gives the replies it was told to, in their order, and remembers what it was
/// asked.
#[derive(Clone, Default)]
pub(super) struct Upstream {
    replies: Arc<Mutex<VecDeque<(Vec<u8>, Pieces)>>>,
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

    /// What the next requests get, whatever was left of the last ones.
    pub(super) fn give(&self, replies: impl IntoIterator<Item = (Vec<u8>, Pieces)>) {
        *self.replies.lock().unwrap() = replies.into_iter().collect();
        self.asked.lock().unwrap().clear();
    }

    /// The bodies of the requests since then.
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
