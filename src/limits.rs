//! Fixed limits shared by several files, with their reasons, and the options of sockets.
//!
//! A limit that only one file uses is defined in that file; settings are in `config/settings.rs`.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Path of an original on the proxy's listener, up to its ID.
pub(crate) const RECALL_PATH: &str = "/__longhaul__/recall/";

/// Maximum characters of one text that stays in a compacted conversation by a setting or a wish.
pub(crate) const MAX_KEPT_CHARS: usize = 4_000;

/// Maximum buffer capacity reserved up front for a body of declared size. Larger bodies, which are
/// larger than most chats, grow their buffer geometrically. Bytes count towards the budget as they
/// arrive, and occupy memory as they are written.
pub(crate) const BODY_RESERVE_BYTES: u64 = 8 << 20;

/// Maximum bytes of the fields of one HTTP/2 head of an upstream: names and values, plus 32 per
/// field (RFC 9113, 6.5.2). Equals the head size that hyper reads in HTTP/1.1, so a head that passes in one version
/// passes in the other.
pub(crate) const MAX_HEAD_BYTES: u32 = 8 * 1024 + 100 * 4 * 1024;

/// Maximum bytes of a client's head, and of the reply bytes that wait for a slow client in HTTP/1.1.
/// As much as Cloudflare, in front of several APIs, accepts of a request's header fields.
pub(crate) const CLIENT_HEAD_BYTES: u32 = 128 * 1024;

/// Maximum header fields of one message. hyper's default of 100 is fewer than a chain of gateways
/// adds.
pub(crate) const MAX_HEADERS: usize = 256;

/// Concurrent streams of one HTTP/2 client: the minimum that RFC 9113, 6.5.2 recommends.
pub(crate) const HTTP2_STREAMS: u32 = 100;

/// Flow-control window of one HTTP/2 stream, in bytes. A round trip carries one window: 25 MB a
/// second at 10 ms.
pub(crate) const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;

/// Flow-control window of one HTTP/2 connection, in bytes. Each stream has its own share, so
/// streams whose readers stall cannot block another. An upstream may allow more streams than
/// [`HTTP2_STREAMS`]; only that many then have a share.
pub(crate) const HTTP2_CONNECTION_WINDOW: u32 = HTTP2_STREAMS * HTTP2_STREAM_WINDOW;

/// Time limit for draining the rest of a request body after an early response, as nginx does.
/// Clients that write their whole request before they read would lose the response otherwise. An
/// upstream that answered early gets the same time to take the rest of a request.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// Timeout for the reply to an HTTP/2 ping.
///
/// - A client is pinged every 75 s, since nothing else bounds how long it may be silent within a
///   frame.
/// - An upstream is pinged after [`TCP_KEEPALIVE`].
pub(crate) const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Idle time before the first TCP keepalive probe, and before an HTTP/2 ping to an upstream. Load
/// balancers drop idle connections after 60 s at the earliest, so probes keep connections open during
/// long reasoning.
pub(crate) const TCP_KEEPALIVE: Duration = Duration::from_secs(45);

/// Interval between TCP keepalive probes.
pub(crate) const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Disables Nagle's algorithm, so that events of a stream are sent at once, and enables keep-alive
/// to detect dead peers.
pub(crate) fn tune_socket(socket: &TcpStream) -> io::Result<()> {
    let keepalive =
        TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_KEEPALIVE_INTERVAL);
    socket.set_nodelay(true)?;
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}
