//! A scripted end of a TCP connection, which keeps all bytes received.

use super::message::{self, Kind};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Default limit on a script's waits. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(15);

static SET: OnceLock<Duration> = OnceLock::new();

/// Returns the limit on a script's waits.
pub(super) fn patience() -> Duration {
    *SET.get().unwrap_or(&PATIENCE)
}

/// Sets the limit on scripts' waits, unless it is already set.
pub(crate) fn wait_at_most(patience: Duration) {
    // The first value set applies.
    let _ = SET.set(patience);
}

/// The end of a connection, as its reader saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// A FIN: a clean end.
    Closed,
    /// An RST, or any other error of the socket.
    Reset,
}

/// A scripted end of a connection.
pub(super) struct Peer {
    /// Name of this side in failure messages.
    role: &'static str,
    /// `None` once this side has closed the connection.
    stream: Option<TcpStream>,
    /// Replacement for `{host}` in a script.
    host: String,
    heard: Vec<u8>,
    /// Length of the received prefix that the script has already waited for.
    awaited: usize,
    end: Option<End>,
}

impl Peer {
    pub(super) fn new(role: &'static str, stream: TcpStream, host: String) -> Self {
        stream.set_nodelay(true).expect("a fresh socket");
        Self { role, stream: Some(stream), host, heard: Vec::new(), awaited: 0, end: None }
    }

    /// Returns everything received so far.
    pub(super) fn heard(&self) -> &[u8] {
        &self.heard
    }

    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Sends `text`, with `{host}` replaced by the peer's address.
    pub(super) async fn says(&mut self, text: impl AsRef<[u8]>) {
        let text = self.addressed(text.as_ref());
        self.sends(&text).await;
    }

    /// Sends `text` byte by byte.
    pub(super) async fn says_slowly(&mut self, text: impl AsRef<[u8]>) {
        for byte in self.addressed(text.as_ref()).chunks(1) {
            self.sends(byte).await;
        }
    }

    fn addressed(&self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        if let Some(at) = message::find(&text, b"{host}") {
            text.splice(at..at + b"{host}".len(), self.host.bytes());
        }
        text
    }

    /// Sends bytes unchanged.
    pub(super) async fn sends(&mut self, bytes: &[u8]) {
        let sent = timeout(patience(), self.stream().write_all(bytes)).await;
        let sent = sent.unwrap_or_else(|_| panic!("{} could not send in time", self.role));
        sent.unwrap_or_else(|error| panic!("{} could not send: {error}", self.role));
    }

    /// Sends `bytes`, and ignores errors.
    pub(super) async fn tries_to_send(&mut self, bytes: &[u8]) {
        // A peer that has received enough may close meanwhile.
        let _ = timeout(patience(), self.stream().write_all(bytes)).await;
    }

    /// Sends copies of `piece` until the socket accepts no byte for `calm`, or `limit` bytes are
    /// sent; returns the number of bytes sent.
    pub(super) async fn sends_until_stalled(
        &mut self,
        piece: &[u8],
        calm: Duration,
        limit: usize,
    ) -> usize {
        let mut sent = 0;
        while sent < limit {
            match timeout(calm, self.stream().write(piece)).await {
                Ok(Ok(0) | Err(_)) => panic!("{} lost its connection while sending", self.role),
                Ok(Ok(taken)) => sent += taken,
                Err(_) => break,
            }
        }
        sent
    }

    /// Waits until `needle` has arrived, after everything already waited for.
    pub(super) async fn sees(&mut self, needle: impl AsRef<[u8]>) {
        let needle = needle.as_ref();
        loop {
            if let Some(at) = message::find(&self.heard[self.awaited..], needle) {
                self.awaited += at + needle.len();
                return;
            }
            self.hears_more(&needle.escape_ascii().to_string()).await;
        }
    }

    /// Waits for `count` more bytes.
    pub(super) async fn sees_bytes(&mut self, count: usize) {
        while self.heard.len() < self.awaited + count {
            self.hears_more(&format!("{count} bytes")).await;
        }
        self.awaited += count;
    }

    /// Waits for a whole message.
    pub(super) async fn sees_message(&mut self, kind: Kind) {
        while !self.take_message(kind) {
            self.hears_more("a whole message").await;
        }
    }

    /// Whether a whole message has arrived; the message then counts as waited for.
    pub(super) fn take_message(&mut self, kind: Kind) -> bool {
        let length = message::whole(&self.heard[self.awaited..], kind);
        self.awaited += length.unwrap_or(0);
        length.is_some()
    }

    /// Waits until the connection has ended; returns the kind of its end.
    pub(super) async fn sees_end(&mut self) -> End {
        while self.end.is_none() {
            self.hears("the end").await;
        }
        self.awaited = self.heard.len();
        self.end.unwrap_or(End::Closed)
    }

    /// Half-closes the connection: sends FIN and can still read.
    pub(super) async fn stops_sending(&mut self) {
        // Fails only if the other side has already closed, which is fine.
        let _ = self.stream().shutdown().await;
    }

    /// Closes the connection, even in mid-message.
    pub(super) fn leaves(&mut self) {
        self.stream = None;
    }

    /// Resets the connection.
    pub(super) fn resets(&mut self) {
        self.stream().set_zero_linger().expect("the socket is open");
        self.leaves();
    }

    pub(super) fn has_left(&self) -> bool {
        self.stream.is_none()
    }

    fn stream(&mut self) -> &mut TcpStream {
        self.stream.as_mut().expect("a script does not use a connection that it left")
    }

    async fn hears_more(&mut self, what: &str) {
        if let Some(end) = self.end {
            panic!("{} waited for {what}; {end:?} came after {}", self.role, self.account());
        }
        self.hears(what).await;
    }

    async fn hears(&mut self, what: &str) {
        let heard = timeout(patience(), self.hear()).await;
        heard.unwrap_or_else(|_| {
            panic!("{} waited for {what} in vain; it has {}", self.role, self.account())
        });
    }

    /// Receives once. Cancel-safe.
    pub(super) async fn hear(&mut self) {
        self.heard.reserve(64 * 1024);
        let stream = self.stream.as_mut().expect("a script does not read where it left");
        match stream.read_buf(&mut self.heard).await {
            Ok(0) => self.end = Some(End::Closed),
            Ok(_) => {}
            Err(_) => self.end = Some(End::Reset),
        }
    }

    fn account(&self) -> String {
        let shown = &self.heard[..self.heard.len().min(2_000)];
        format!("{} bytes: \"{}\"", self.heard.len(), shown.escape_ascii())
    }
}
