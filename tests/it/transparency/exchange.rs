//! One exchange between a scripted client and a scripted upstream, with or without longhaul
//! between them.

use super::between::Middle;
use super::message::{self, Kind, Message};
use super::peer::{End, Peer, patience};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// Receive and send buffers of the scripts' own sockets: small, so that the bytes in flight are
/// those of whoever stands between them.
pub(super) const SOCKET_BUFFER: u32 = 64 * 1024;

/// What both sides heard, as messages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transcript {
    /// What upstream heard.
    pub(crate) requests: Vec<Message>,
    /// What the client heard.
    pub(crate) replies: Vec<Message>,
    /// How the client's connection ended, if the script waited for that.
    pub(crate) end: Option<End>,
}

/// The scripted upstream: a listener and the connections it has taken.
pub(crate) struct Upstream {
    listener: Arc<TcpListener>,
    /// The connection last taken.
    peer: Option<Peer>,
    /// What earlier connections heard.
    earlier: Vec<u8>,
}

/// Both ends of one exchange, and the proxy if one takes part.
pub(super) struct Exchange {
    pub(super) client: Peer,
    pub(super) upstream: Upstream,
    /// What the client's earlier connections heard.
    earlier: Vec<u8>,
    reached: SocketAddr,
    host: String,
    middle: Option<Middle>,
}

impl Upstream {
    /// A listener for an upstream on this port of loopback; 0 is a free one.
    pub(crate) fn listen(port: u16) -> Arc<TcpListener> {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .set_recv_buffer_size(SOCKET_BUFFER)
            .expect("a fresh socket");
        socket
            .set_send_buffer_size(SOCKET_BUFFER)
            .expect("a fresh socket");
        socket
            .set_reuseaddr(true)
            .and_then(|()| socket.bind(SocketAddr::from(([127, 0, 0, 1], port))))
            .expect("a free port");
        Arc::new(socket.listen(64).expect("a bound socket"))
    }

    /// An upstream that takes its connections from `listener`.
    pub(super) fn on(listener: Arc<TcpListener>) -> Self {
        Self {
            listener,
            peer: None,
            earlier: Vec::new(),
        }
    }

    /// The connection in use.
    pub(super) fn peer(&mut self) -> &mut Peer {
        self.peer.as_mut().expect("upstream has taken a connection")
    }

    /// Waits for a request, whole, on the connection in use or on a new one.
    pub(super) async fn sees_request(&mut self) {
        while !self
            .peer
            .as_mut()
            .is_some_and(|peer| peer.take_message(Kind::Request))
        {
            self.hears("a whole request").await;
        }
    }

    /// Waits until `needle` has come, on the connection in use or on a new one.
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

    /// Breaks the connection in use off with an RST.
    pub(super) fn resets(&mut self) {
        self.peer().resets();
        self.closes();
    }

    /// Fails if anybody has connected since the last connection was taken.
    pub(super) async fn sees_nobody_else(&self) {
        assert_eq!(
            self.forgets_who_waits().await,
            0,
            "upstream was asked once more"
        );
    }

    /// Drops the connections that nobody has taken yet; says how many they were.
    ///
    /// Connections are taken in the order they came in, so all that came before one of our own
    /// have been met when that one is.
    pub(super) async fn forgets_who_waits(&self) -> usize {
        let address = self.listener.local_addr().expect("a bound socket");
        let own = TcpStream::connect(address).await.expect("upstream listens");
        let own = own.local_addr().expect("a connected socket");
        for others in 0.. {
            let taken = timeout(patience(), self.listener.accept())
                .await
                .expect("one waits");
            let (_, from) = taken.expect("the listener is open");
            if from == own {
                return others;
            }
        }
        unreachable!("our own connection is among those that wait")
    }

    /// Receives once, from the connection in use or by taking a new one.
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
            panic!(
                "upstream waited for {what} in vain; it has \"{}\"",
                heard.escape_ascii()
            );
        };
        if let Some(taken) = taken {
            let (stream, _) = taken.expect("the listener is open");
            self.closes();
            self.peer = Some(Peer::new("upstream", stream, String::new()));
        }
    }
}

impl Exchange {
    /// Opens the client's connection to `reached`, and names it `host` in its requests.
    pub(super) async fn open(
        upstream: Upstream,
        reached: SocketAddr,
        host: String,
        middle: Option<Middle>,
    ) -> Self {
        let client = connect(reached, &host).await;
        Self {
            client,
            upstream,
            earlier: Vec::new(),
            reached,
            host,
            middle,
        }
    }

    /// Whether a proxy stands between the two.
    pub(super) fn is_proxied(&self) -> bool {
        self.middle.is_some()
    }

    /// Gives the client a new connection in place of the one it had.
    pub(super) async fn client_connects_again(&mut self) {
        let fresh = connect(self.reached, &self.host).await;
        self.earlier
            .extend_from_slice(std::mem::replace(&mut self.client, fresh).heard());
    }

    /// Sends `request`, whole, then `reply`, whole.
    pub(super) async fn passes(&mut self, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        let kind = if request.as_ref().starts_with(b"HEAD ") {
            Kind::ReplyToHead
        } else {
            Kind::Reply
        };
        self.client.says(request).await;
        self.upstream.sees_request().await;
        self.upstream.says(reply).await;
        self.client.sees_message(kind).await;
    }

    /// Ends both connections, waits for whatever was still coming, and says what was heard.
    pub(super) async fn finish(mut self) -> Transcript {
        let end = self.client.end();
        let stays = !self.client.has_left();
        if stays {
            self.client.stops_sending().await;
        }
        if stays && self.middle.is_some() {
            self.client.sees_end().await;
        }
        // What a proxy of ours still holds open towards upstream ends with it. Another keeps its
        // connections for later requests: upstream ends them.
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
        Transcript {
            requests,
            replies: message::split(&heard, &kinds),
            end,
        }
    }
}

async fn connect(address: SocketAddr, host: &str) -> Peer {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .set_recv_buffer_size(SOCKET_BUFFER)
        .expect("a fresh socket");
    socket
        .set_send_buffer_size(SOCKET_BUFFER)
        .expect("a fresh socket");
    let stream = timeout(patience(), socket.connect(address))
        .await
        .expect("a connection in time");
    Peer::new(
        "the client",
        stream.expect("somebody listens"),
        host.to_owned(),
    )
}
