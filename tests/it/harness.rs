//! A proxy on a free port in front of an upstream that a test scripts byte by byte.

use std::io;
use std::net::SocketAddr;

use longhaul::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::bound::bounded;

/// A running proxy; ends when dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), longhaul::Problem>>,
}

impl Proxy {
    /// A proxy for `base` with `changes` to the default settings.
    pub(crate) async fn start(base: &str, changes: &[(&str, &str)]) -> Self {
        let mut all = vec![("upstream.base", base)];
        all.extend(changes);
        Self::with(Config::default_with(all).unwrap()).await
    }

    /// A proxy of this configuration that asks nothing by itself: a test's upstream hears what the
    /// test's clients say.
    pub(crate) async fn with(mut config: Config) -> Self {
        config.upstream.query_windows = false;
        Self::asking(config).await
    }

    /// A proxy of this configuration, whatever it asks.
    pub(crate) async fn asking(config: Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(longhaul::run(
            config,
            listener,
            async {
                _ = stopped.await;
            },
            || (),
        ));
        Self {
            address,
            stop: Some(stop),
            served,
        }
    }

    pub(crate) async fn connect(&self) -> Wire {
        Wire::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Tells it to stop and waits until it has.
    pub(crate) async fn stop(mut self) {
        _ = self.stop.take().unwrap().send(());
        bounded(self.served).await.unwrap().unwrap();
    }
}

/// An upstream that does what the test does.
pub(crate) struct Upstream(TcpListener);

impl Upstream {
    pub(crate) async fn bind() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Its base URL with `path` behind it.
    pub(crate) fn base(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(crate) async fn accept(&self) -> Wire {
        Wire::new(bounded(self.0.accept()).await.unwrap().0)
    }
}

/// An address where nobody listens, and nobody else can for as long as this lives.
pub(crate) struct Nobody(TcpSocket);

impl Nobody {
    pub(crate) fn bind() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    /// Its base URL with `path` behind it.
    pub(crate) fn base(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.local_addr().unwrap())
    }
}

/// One end of a connection, in bytes.
pub(crate) struct Wire {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    /// A connection to a proxy that runs elsewhere.
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).await.unwrap())
    }

    fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            read: Vec::new(),
        }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.socket.peer_addr().unwrap()
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// Sends for as long as anybody listens; whether all of it went.
    pub(crate) async fn tries_to_send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).await.is_ok()
    }

    /// Reads what comes next; how much that was.
    async fn more(&mut self) -> io::Result<usize> {
        bounded(self.socket.read_buf(&mut self.read)).await
    }

    /// So many bytes, the next ones.
    pub(crate) async fn exactly(&mut self, bytes: usize) -> Vec<u8> {
        while self.read.len() < bytes {
            let more = self.more().await.unwrap();
            assert!(more > 0, "ended after {} of {bytes} bytes", self.read.len());
        }
        self.read.drain(..bytes).collect()
    }

    /// Whether the next so many bytes are all this one; none of them is kept.
    pub(crate) async fn skips(&mut self, byte: u8, mut bytes: usize) -> bool {
        loop {
            let now = self.read.len().min(bytes);
            if self.read.drain(..now).any(|read| read != byte) {
                return false;
            }
            bytes -= now;
            if bytes == 0 {
                return true;
            }
            let more = self.more().await.unwrap();
            assert!(more > 0, "ended {bytes} bytes early");
        }
    }

    /// Everything up to and with the first `end`; panics if the connection ends before.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        loop {
            let found = self
                .read
                .windows(end.len())
                .position(|window| window == end.as_bytes());
            if let Some(at) = found {
                let text: Vec<u8> = self.read.drain(..at + end.len()).collect();
                return String::from_utf8(text).unwrap();
            }
            let more = self.more().await.unwrap();
            assert!(
                more > 0,
                "ended before {end:?}: {}",
                String::from_utf8_lossy(&self.read)
            );
        }
    }

    /// A head, or what came of one before the connection ended.
    pub(crate) async fn head_or_end(&mut self) -> String {
        while !self.read.windows(4).any(|end| end == b"\r\n\r\n") {
            if !self.more().await.is_ok_and(|more| more > 0) {
                break;
            }
        }
        String::from_utf8(std::mem::take(&mut self.read)).unwrap()
    }

    /// Everything until the other side ends the connection, cleanly or not.
    pub(crate) async fn rest(&mut self) -> String {
        String::from_utf8(self.rest_bytes().await).unwrap()
    }

    /// The same for what is no text.
    pub(crate) async fn rest_bytes(&mut self) -> Vec<u8> {
        while self.more().await.is_ok_and(|more| more > 0) {}
        std::mem::take(&mut self.read)
    }

    /// Waits until the other side ends the connection, whatever it sends.
    pub(crate) async fn drain(&mut self) {
        while self.more().await.is_ok_and(|more| more > 0) {
            self.read.clear();
        }
    }

    /// Whether the other side has ended the connection, as far as that is known by now; what it sent
    /// before is kept.
    pub(crate) fn is_ended(&mut self) -> bool {
        loop {
            match self.socket.try_read_buf(&mut self.read) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Whether nothing has come so far.
    pub(crate) fn is_silent(&self) -> bool {
        let read = self.socket.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Says that nothing follows; still listens.
    pub(crate) async fn stop_sending(&mut self) {
        self.socket.shutdown().await.unwrap();
    }

    /// Leaves without a word: the other side sees a reset.
    pub(crate) fn reset(self) {
        self.socket.set_zero_linger().unwrap();
    }
}
