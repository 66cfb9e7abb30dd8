//! One end of a TCP connection that says what its script says and keeps all it hears.

use super::message::{self, Kind};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a script waits for what must come, unless another time was set. It only turns a hang
/// into a failure.
const PATIENCE: Duration = Duration::from_secs(15);

static SET: OnceLock<Duration> = OnceLock::new();

/// How long a script waits for what must come.
pub(super) fn patience() -> Duration {
    *SET.get().unwrap_or(&PATIENCE)
}

/// Sets how long scripts wait for what must come, where it was not set before.
pub(crate) fn wait_at_most(patience: Duration) {
    // Who set it first has said what it is.
    let _ = SET.set(patience);
}

/// How a connection ended for the one who was reading from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// FIN: a clean end of the bytes.
    Closed,
    /// RST, or any other error of the socket.
    Reset,
}

/// A scripted end of a connection.
pub(super) struct Peer {
    /// Who this is in a failure's text.
    role: &'static str,
    /// None once this side has left.
    stream: Option<TcpStream>,
    /// What `{host}` in a script stands for.
    host: String,
    heard: Vec<u8>,
    /// How much of `heard` the script has waited for.
    awaited: usize,
    end: Option<End>,
}

impl Peer {
    pub(super) fn new(role: &'static str, stream: TcpStream, host: String) -> Self {
        stream.set_nodelay(true).expect("a fresh socket");
        Self {
            role,
            stream: Some(stream),
            host,
            heard: Vec::new(),
            awaited: 0,
            end: None,
        }
    }

    /// Everything received so far.
    pub(super) fn heard(&self) -> &[u8] {
        &self.heard
    }

    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Sends `text`, with `{host}` in it replaced by the address this peer speaks to.
    pub(super) async fn says(&mut self, text: impl AsRef<[u8]>) {
        let text = self.addressed(text.as_ref());
        self.sends(&text).await;
    }

    /// Says `text` byte by byte.
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

    /// Sends bytes as they are.
    pub(super) async fn sends(&mut self, bytes: &[u8]) {
        let sent = timeout(patience(), self.stream().write_all(bytes)).await;
        let sent = sent.unwrap_or_else(|_| panic!("{} could not send in time", self.role));
        sent.unwrap_or_else(|error| panic!("{} could not send: {error}", self.role));
    }

    /// Sends for as long as anybody listens; what cannot be sent is of no interest.
    pub(super) async fn tries_to_send(&mut self, bytes: &[u8]) {
        // A peer that has heard enough may close while this is being written.
        let _ = timeout(patience(), self.stream().write_all(bytes)).await;
    }

    /// Sends pieces of `piece` until the socket takes no more for `calm`, or `limit` bytes have
    /// gone; says how many went.
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

    /// Waits until `needle` has come, after all that was waited for before.
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

    /// Waits for one whole message.
    pub(super) async fn sees_message(&mut self, kind: Kind) {
        while !self.take_message(kind) {
            self.hears_more("a whole message").await;
        }
    }

    /// Whether a whole message is there; it then counts as waited for.
    pub(super) fn take_message(&mut self, kind: Kind) -> bool {
        let length = message::whole(&self.heard[self.awaited..], kind);
        self.awaited += length.unwrap_or(0);
        length.is_some()
    }

    /// Waits until the connection has ended.
    pub(super) async fn sees_end(&mut self) -> End {
        while self.end.is_none() {
            self.hears("the end").await;
        }
        self.awaited = self.heard.len();
        self.end.unwrap_or(End::Closed)
    }

    /// Ends what this side sends; it still listens.
    pub(super) async fn stops_sending(&mut self) {
        // It fails if the other side is gone already, which is as good.
        let _ = self.stream().shutdown().await;
    }

    /// Closes the connection, whatever is under way on it.
    pub(super) fn leaves(&mut self) {
        self.stream = None;
    }

    /// Breaks the connection off with an RST.
    pub(super) fn resets(&mut self) {
        self.stream().set_zero_linger().expect("the socket is open");
        self.leaves();
    }

    pub(super) fn has_left(&self) -> bool {
        self.stream.is_none()
    }

    fn stream(&mut self) -> &mut TcpStream {
        self.stream
            .as_mut()
            .expect("a script does not use a connection that it left")
    }

    async fn hears_more(&mut self, what: &str) {
        if let Some(end) = self.end {
            panic!(
                "{} waited for {what}; {end:?} came after {}",
                self.role,
                self.account()
            );
        }
        self.hears(what).await;
    }

    async fn hears(&mut self, what: &str) {
        let heard = timeout(patience(), self.hear()).await;
        heard.unwrap_or_else(|_| {
            panic!(
                "{} waited for {what} in vain; it has {}",
                self.role,
                self.account()
            )
        });
    }

    /// Receives once. Safe to drop while it waits.
    pub(super) async fn hear(&mut self) {
        self.heard.reserve(64 * 1024);
        let stream = self
            .stream
            .as_mut()
            .expect("a script does not read where it left");
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
