//! An exchange between a scripted client and a scripted upstream, with or without longhaul between
//! them.

use super::between::Middle;
use super::message::{self, Kind, Message};
use super::peer::{End, Peer, patience};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// Receive and send buffers of the scripts' own sockets, in bytes. Small, so that most bytes in
/// flight are held by the party in between.
pub(super) const SOCKET_BUFFER: u32 = 64 * 1024;

/// The messages that both sides received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transcript {
    /// The requests that the upstream received.
    pub(crate) requests: Vec<Message>,
    /// The replies that the client received.
    pub(crate) replies: Vec<Message>,
    /// The end of the client's connection, if the script waited for it.
    pub(crate) end: Option<End>,
}

/// The scripted upstream: a listener and the connections it has accepted.
pub(crate) struct Upstream {
    listener: Arc<TcpListener>,
    /// The connection accepted last.
    peer: Option<Peer>,
    /// Bytes received on earlier connections.
    earlier: Vec<u8>,
}

/// Both ends of an exchange, and the proxy if one takes part.
pub(super) struct Exchange {
    pub(super) client: Peer,
    pub(super) upstream: Upstream,
    /// Bytes received on the client's earlier connections.
    earlier: Vec<u8>,
    reached: SocketAddr,
    host: String,
    middle: Option<Middle>,
}

impl Upstream {
    /// Opens an upstream's listener on this loopback port; 0 selects a free one.
    pub(crate) fn listen(port: u16) -> Arc<TcpListener> {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(SOCKET_BUFFER).expect("a fresh socket");
        socket.set_send_buffer_size(SOCKET_BUFFER).expect("a fresh socket");
        socket
            .set_reuseaddr(true)
            .and_then(|()| socket.bind(SocketAddr::from(([127, 0, 0, 1], port))))
            .expect("a free port");
        Arc::new(socket.listen(64).expect("a bound socket"))
    }

    /// Creates an upstream that accepts its connections from `listener`.
    pub(super) fn on(listener: Arc<TcpListener>) -> Self {
        Self { listener, peer: None, earlier: Vec::new() }
    }

    /// Returns the connection in use.
    pub(super) fn peer(&mut self) -> &mut Peer {
        self.peer.as_mut().expect("upstream has taken a connection")
    }

    /// Waits for a whole request, on the connection in use or on a new one.
    pub(super) async fn sees_request(&mut self) {
        while !self.peer.as_mut().is_some_and(|peer| peer.take_message(Kind::Request)) {
            self.hears("a whole request").await;
        }
    }

    /// Waits until `needle` has arrived, on the connection in use or on a new one.
    pub(super) async fn sees(&mut self, needle: impl AsRef<[u8]>) {
        if self.peer.is_none() {
            self.hears("a connection").await;
        }
        self.peer().sees(needle).await;
    }

    pub(super) async fn says(&mut self, text: impl AsRef<[u8]>) {
        self.peer().says(text).await;
    }

    /// Closes the connection in use.
    pub(super) fn closes(&mut self) {
        if let Some(peer) = self.peer.take() {
            self.earlier.extend_from_slice(peer.heard());
        }
    }

    /// Resets the connection in use.
    pub(super) fn resets(&mut self) {
        self.peer().resets();
        self.closes();
    }

    /// Fails if another connection has arrived since the last one was accepted.
    pub(super) async fn sees_nobody_else(&self) {
        assert_eq!(self.forgets_who_waits().await, 0, "upstream was asked once more");
    }

    /// Drops the connections that wait to be accepted; returns their number.
    ///
    /// Connections are accepted in order of arrival. The function opens a connection of its own and
    /// accepts until that one appears.
    pub(super) async fn forgets_who_waits(&self) -> usize {
        let address = self.listener.local_addr().expect("a bound socket");
        let own = TcpStream::connect(address).await.expect("upstream listens");
        let own = own.local_addr().expect("a connected socket");
        for others in 0.. {
            let taken = timeout(patience(), self.listener.accept()).await.expect("one waits");
            let (_, from) = taken.expect("the listener is open");
            if from == own {
                return others;
            }
        }
        unreachable!("our own connection is among those that wait")
    }

    /// Receives once from the connection in use, or accepts a new one.
    async fn hears(&mut self, what: &str) {
        let taken = match self.peer.as_mut().filter(|peer| peer.end().is_none()) {
            None => timeout(patience(), self.listener.accept()).await.map(Some),
            Some(peer) => {
                let either = async {
                    tokio::select! {
                        () = peer.hear() => None,
                        taken = self.listener.accept() => Some(taken),
                    }
                };
                timeout(patience(), either).await
            }
        };
        let Ok(taken) = taken else {
            let heard = self.peer.as_ref().map_or(&b""[..], Peer::heard);
            panic!("upstream waited for {what} in vain; it has \"{}\"", heard.escape_ascii());
        };
        if let Some(taken) = taken {
            let (stream, _) = taken.expect("the listener is open");
            self.closes();
            self.peer = Some(Peer::new("upstream", stream, String::new()));
        }
    }
}

impl Exchange {
    /// Opens the client's connection to `reached`, which the client's requests name as `host`.
    pub(super) async fn open(
        upstream: Upstream,
        reached: SocketAddr,
        host: String,
        middle: Option<Middle>,
    ) -> Self {
        let client = connect(reached, &host).await;
        Self { client, upstream, earlier: Vec::new(), reached, host, middle }
    }

    /// Whether a proxy is between the two sides.
    pub(super) fn is_proxied(&self) -> bool {
        self.middle.is_some()
    }

    /// Replaces the client's connection with a new one.
    pub(super) async fn client_connects_again(&mut self) {
        let fresh = connect(self.reached, &self.host).await;
        self.earlier.extend_from_slice(std::mem::replace(&mut self.client, fresh).heard());
    }

    /// Sends `request` and then `reply`, each in a single write.
    pub(super) async fn passes(&mut self, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        let kind =
            if request.as_ref().starts_with(b"HEAD ") { Kind::ReplyToHead } else { Kind::Reply };
        self.client.says(request).await;
        self.upstream.sees_request().await;
        self.upstream.says(reply).await;
        self.client.sees_message(kind).await;
    }

    /// Ends both connections, waits for all bytes in flight, and returns the transcript.
    pub(super) async fn finish(mut self) -> Transcript {
        let end = self.client.end();
        let stays = !self.client.has_left();
        if stays {
            self.client.stops_sending().await;
        }
        if stays && self.middle.is_some() {
            self.client.sees_end().await;
        }
        // A proxy of this exchange closes its upstream connections when it stops. Any other proxy
        // keeps its connections for later requests, so the upstream closes them.
        let ends_by_itself = !matches!(self.middle.take(), Some(Middle::Theirs));
        if ends_by_itself && let Some(peer) = self.upstream.peer.as_mut() {
            peer.sees_end().await;
        }
        self.upstream.closes();
        if stays {
            self.client.sees_end().await;
        }
        let requests = message::split(&self.upstream.earlier, &[Kind::Request]);
        let mut kinds: Vec<_> = requests.iter().map(Message::reply_kind).collect();
        kinds.push(Kind::Reply);
        let mut heard = self.earlier;
        heard.extend_from_slice(self.client.heard());
        Transcript { requests, replies: message::split(&heard, &kinds), end }
    }
}

async fn connect(address: SocketAddr, host: &str) -> Peer {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(SOCKET_BUFFER).expect("a fresh socket");
    socket.set_send_buffer_size(SOCKET_BUFFER).expect("a fresh socket");
    let stream = timeout(patience(), socket.connect(address)).await.expect("a connection in time");
    Peer::new("the client", stream.expect("somebody listens"), host.to_owned())
}
