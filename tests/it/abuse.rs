//! Attacks: request smuggling, intrusion and resource exhaustion.
//!
//! Each attack is refused or bounded. No message is forwarded in a form that two servers could read
//! differently, and the next request is served normally.

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

/// A path other than chat completions; longhaul does not read its bodies.
const ORDINARY: &str = "/v1/embeddings";
/// A path whose bodies longhaul reads.
const CHAT: &str = "/v1/chat/completions";
/// A request that no server should receive.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
/// A reply that closes its connection, so that no later request can use it.
const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

/// The compiled program in front of the test's upstream.
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
        // Open to any host name: these tests concern what follows the check of names.
        let environment = [&[("LONGHAUL_PUBLIC", "true")], environment].concat();
        let program = Program::start(&upstream.base("/v1"), &environment);
        Self { upstream, program }
    }

    async fn connect(&self) -> Wire {
        Wire::to(self.program.address()).await
    }

    /// Sends `said` on a new connection and returns everything received until the connection
    /// closes.
    async fn heard(&self, said: impl AsRef<[u8]>) -> String {
        let mut client = self.connect().await;
        client.tries_to_send(said.as_ref()).await;
        client.rest().await
    }

    /// Asserts that `said` gets a single reply with `status`, after which the connection closes.
    /// [`Pair::still_serves`] shows that none of it reached the upstream.
    async fn refuses(&self, said: impl AsRef<[u8]>, status: u16) {
        let said = said.as_ref();
        let reply = self.heard(said).await;
        let shown = said[..said.len().min(300)].escape_ascii();
        let line = format!("HTTP/1.1 {status} ");
        assert!(reply.starts_with(&line), "{shown}: {reply}");
        assert_eq!(reply.matches("HTTP/1.1 ").count(), 1, "{shown}: {reply}");
    }

    /// Asserts that a request passes, and that the upstream received no unexpected request before
    /// it.
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

    /// Returns the program's peak resident memory, in bytes.
    fn peak(&self) -> usize {
        let process = self.program.process();
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<usize>().unwrap() * 1024
    }
}

/// Builds a request from `fields`, each ended by CRLF, and `rest`, everything after the head.
fn request(method: &str, target: &str, fields: &str, rest: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n{rest}")
}
