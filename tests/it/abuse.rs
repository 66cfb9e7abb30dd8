//! What is sent to break in, to smuggle, or to wear out: refused or bounded, never passed on in a
//! form that two servers could read differently, and the next request is served as if nothing had
//! been.

mod bombs;
mod flooding;
mod framing;
mod heads;
mod http2;
mod slow;
mod targets;
mod values;

use std::fs;

use crate::harness::{Upstream, Wire};
use crate::program::Program;

/// A path that is no chat completion, and so passes unread.
const ORDINARY: &str = "/v1/embeddings";
/// A path whose bodies are read.
const CHAT: &str = "/v1/chat/completions";
/// A request that nobody should ever have heard of.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
/// An answer after which no connection is left to take another request.
const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

/// The program in front of an upstream of the test's.
struct Pair {
    upstream: Upstream,
    program: Program,
}

impl Pair {
    async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn with(environment: &[(&str, &str)]) -> Self {
        let upstream = Upstream::bind().await;
        let program = Program::start(&upstream.base("/v1"), environment);
        Self { upstream, program }
    }

    async fn connect(&self) -> Wire {
        Wire::to(self.program.address()).await
    }

    /// What a client hears that says this, until it is closed.
    async fn heard(&self, said: impl AsRef<[u8]>) -> String {
        let mut client = self.connect().await;
        client.tries_to_send(said.as_ref()).await;
        client.rest().await
    }

    /// A client that says this is answered once, with this status, and closed; nothing of it
    /// reaches the upstream, as [`Pair::still_serves`] shows.
    async fn refuses(&self, said: impl AsRef<[u8]>, status: u16) {
        let said = said.as_ref();
        let reply = self.heard(said).await;
        let shown = said[..said.len().min(300)].escape_ascii();
        let line = format!("HTTP/1.1 {status} ");
        assert!(reply.starts_with(&line), "{shown}: {reply}");
        assert_eq!(reply.matches("HTTP/1.1 ").count(), 1, "{shown}: {reply}");
    }

    /// A request passes, and the upstream has heard of none before it that was not met.
    async fn still_serves(&self) {
        let mut client = self.connect().await;
        let ask = "GET /v1/still-serves HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        client.send(ask).await;
        let mut server = self.upstream.accept().await;
        let head = server.until("\r\n\r\n").await;
        assert!(head.starts_with("GET /v1/still-serves "), "{head}");
        server.send(OK).await;
        assert!(client.rest().await.ends_with("\r\n\r\nok"));
    }

    /// The most memory that the program has held so far, in bytes.
    fn peak(&self) -> usize {
        let process = self.program.process();
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<usize>().unwrap() * 1024
    }
}

/// A request with these fields, each ended by CRLF, and all that follows its head.
fn request(method: &str, target: &str, fields: &str, rest: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n{rest}")
}
