//! Bounds that several files keep to and that are no setting, with their reasons. What one file alone
//! keeps to stands there, and settings in `config/settings.rs`.

use std::time::Duration;

/// The room that is made at once for a body of declared size; past it, and it is past most chats, the
/// room grows geometrically. It is taken of the budget as bytes come, and of memory as they are
/// written there.
pub(crate) const BODY_RESERVE_BYTES: u64 = 8 << 20;

/// Bytes of the fields of one head in HTTP/2, names and values with 32 for each (RFC 9113, 6.5.2): as
/// many as hyper reads of a head in HTTP/1.1. A head that passes in the one passes in the other.
pub(crate) const MAX_HEAD_BYTES: u32 = 8 * 1024 + 100 * 4 * 1024;

/// Header fields of one message. hyper's own default of 100 is less than what gateways in a row
/// pile up.
pub(crate) const MAX_HEADERS: usize = 256;

/// Streams that one HTTP/2 client may have open at once: the least that RFC 9113, 6.5.2 recommends.
pub(crate) const HTTP2_STREAMS: u32 = 100;

/// Bytes that wait for their reader on one HTTP/2 stream. It is what a round trip carries: 25 MB a
/// second where that takes 10 ms.
pub(crate) const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;

/// The same over all streams of a connection: each has its own part, so that none of those whose
/// readers stand still keeps another from moving. Towards an upstream, which may allow more streams
/// than [`HTTP2_STREAMS`], that is true of so many.
pub(crate) const HTTP2_CONNECTION_WINDOW: u32 = HTTP2_STREAMS * HTTP2_STREAM_WINDOW;

/// How long the rest of a request's body is read to nowhere once its answer is there: clients that
/// write all of a request before they read would lose the answer otherwise. As nginx waits for them.
/// As long has an upstream that answered early to take the rest of a request.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// How long a peer in HTTP/2 that was asked whether it is there may take to say so. A client is asked
/// every 75 s, since nothing else bounds how long it may be silent in the middle of a frame; an upstream
/// after [`TCP_KEEPALIVE`].
pub(crate) const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Silence after which TCP, and HTTP/2 towards an upstream, ask whether the other side still lives.
/// Load balancers forget a silent connection after 60 s at the earliest, so this also keeps long
/// thinking alive.
pub(crate) const TCP_KEEPALIVE: Duration = Duration::from_secs(45);

/// Between two such questions.
pub(crate) const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
