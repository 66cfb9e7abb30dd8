//! A proxy on a free port, and a raw socket upstream that a test scripts byte by byte.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use longhaul::Config;
use longhaul::config::StoreLocation;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::time_limit::bounded;

/// A running proxy; stops when dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), longhaul::Problem>>,
}

impl Proxy {
    /// Starts a proxy for `base` with `changes` to the default settings.
    pub(crate) async fn start(base: &str, changes: &[(&str, &str)]) -> Self {
        let mut all = vec![("upstream.base", base)];
        all.extend(changes);
        Self::with(Config::default_with(all).unwrap()).await
    }

    /// Starts a proxy that sends no requests of its own: the upstream receives only what the test's
    /// clients send.
    pub(crate) async fn with(mut config: Config) -> Self {
        config.upstream.query_windows = false;
        Self::asking(config).await
    }

    /// Starts a proxy with this configuration; the proxy may send requests of its own.
    pub(crate) async fn asking(mut config: Config) -> Self {
        // A proxy that does not wait for a busy disk repeats what is stored.
        if matches!(config.store.location, StoreLocation::File(_)) {
            config.store.wait_limit = Duration::from_secs(10);
        }
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
        Self { address, stop: Some(stop), served }
    }

    pub(crate) async fn connect(&self) -> Wire {
        Wire::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Shuts the proxy down and waits until it has stopped.
    pub(crate) async fn stop(mut self) {
        _ = self.stop.take().unwrap().send(());
        bounded(self.served).await.unwrap().unwrap();
    }
}

/// A listening upstream whose connections the test accepts and answers.
pub(crate) struct Upstream(TcpListener);

impl Upstream {
    pub(crate) async fn bind() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Returns the upstream's base URL, with `path` appended.
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

/// A reserved address without a listener; no other process can bind it while this value lives.
pub(crate) struct Nobody(TcpSocket);

impl Nobody {
    pub(crate) fn bind() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    /// Returns the base URL of the address, with `path` appended.
    pub(crate) fn base(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.local_addr().unwrap())
    }
}

/// A raw TCP connection, seen from one side.
pub(crate) struct Wire {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    /// Connects to a proxy that this harness did not start.
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) fn new(socket: TcpStream) -> Self {
        Self { socket, read: Vec::new() }
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

    /// Sends `bytes`; returns whether all of them were written.
    pub(crate) async fn tries_to_send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).await.is_ok()
    }

    /// Reads once into the buffer; returns the number of bytes read.
    async fn more(&mut self) -> io::Result<usize> {
        bounded(self.socket.read_buf(&mut self.read)).await
    }

    /// Reads exactly `bytes` bytes.
    pub(crate) async fn exactly(&mut self, bytes: usize) -> Vec<u8> {
        while self.read.len() < bytes {
            let more = self.more().await.unwrap();
            assert!(more > 0, "ended after {} of {bytes} bytes", self.read.len());
        }
        self.read.drain(..bytes).collect()
    }

    /// Reads and discards `bytes` bytes; returns whether each equals `byte`.
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

    /// Reads up to and including the first `end`; panics if the connection ends before that.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = memmem::find(&self.read, end.as_bytes()) {
                let text: Vec<u8> = self.read.drain(..at + end.len()).collect();
                return String::from_utf8(text).unwrap();
            }
            let more = self.more().await.unwrap();
            assert!(more > 0, "ended before {end:?}: {}", String::from_utf8_lossy(&self.read));
        }
    }

    /// Reads a head, or the part of one that arrived before the connection ended.
    pub(crate) async fn head_or_end(&mut self) -> String {
        while memmem::find(&self.read, b"\r\n\r\n").is_none() {
            if !self.more().await.is_ok_and(|more| more > 0) {
                break;
            }
        }
        String::from_utf8(std::mem::take(&mut self.read)).unwrap()
    }

    /// Reads as text until the peer ends the connection, cleanly or not.
    pub(crate) async fn rest(&mut self) -> String {
        String::from_utf8(self.rest_bytes().await).unwrap()
    }

    /// Like [`Wire::rest`], for bytes that need not be UTF-8.
    pub(crate) async fn rest_bytes(&mut self) -> Vec<u8> {
        while self.more().await.is_ok_and(|more| more > 0) {}
        std::mem::take(&mut self.read)
    }

    /// Reads and discards until the peer ends the connection.
    pub(crate) async fn drain(&mut self) {
        while self.more().await.is_ok_and(|more| more > 0) {
            self.read.clear();
        }
    }

    /// Whether the peer is already known to have ended the connection; bytes received before that
    /// stay in the buffer.
    pub(crate) fn is_ended(&mut self) -> bool {
        loop {
            match self.socket.try_read_buf(&mut self.read) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Whether no byte has arrived so far.
    pub(crate) fn is_silent(&self) -> bool {
        let read = self.socket.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Half-closes the connection: sends FIN and can still read.
    pub(crate) async fn stop_sending(&mut self) {
        self.socket.shutdown().await.unwrap();
    }

    /// Closes the connection with an RST.
    pub(crate) fn reset(self) {
        self.socket.set_zero_linger().unwrap();
    }
}
