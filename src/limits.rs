//! Every bound that is no setting, with its name and its reason. Those that are settings stand in
//! `config/settings.rs`.

use std::time::Duration;

/// Between two tries to accept after the process ran out of descriptors: long enough for
/// connections to end, short enough that nobody notices.
pub(crate) const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Bytes of the head of a request to the admin listener; hyper takes no less for a buffer.
pub(crate) const ADMIN_BUFFER: usize = 8 * 1024;

/// How long one connection to the admin listener may take from its beginning to its end.
pub(crate) const ADMIN_CONNECTION: Duration = Duration::from_secs(10);

/// Connections to the admin listener at once; more wait. It is asked by a probe, a scraper and a
/// person.
pub(crate) const ADMIN_CONNECTIONS: usize = 32;

/// A chat body from which no byte came for this long is streamed on as far as it was read: it is
/// the upstream's to say how slow is too slow.
pub(crate) const BODY_STALL: Duration = Duration::from_mins(1);

/// The room that is made at once for a body of declared size; past it, and it is past most chats, the
/// room grows geometrically. It is taken of the budget as bytes come, and of memory as they are
/// written there.
pub(crate) const BODY_AHEAD_BYTES: u64 = 8 << 20;

/// How long the room of a body that was longer than that is kept for the next one: a model takes as
/// long over such a history. There is one such room at most, of the longest.
pub(crate) const SPARE_FOR: Duration = Duration::from_mins(1);

/// The first buffer for a body of undeclared size; it grows geometrically from there.
pub(crate) const BODY_FIRST_BYTES: u64 = 16 * 1024;

/// Between two looks whether the files of the listener's certificate have changed: those who renew
/// one do so days before it is needed.
pub(crate) const CERTIFICATE_LOOK: Duration = Duration::from_secs(10);

/// Bytes of a file with certificates or a key: a chain of a dozen with room to spare. Past this it
/// is another file by mistake.
pub(crate) const CERTIFICATE_BYTES: u64 = 1 << 20;

/// What `longhaul health` takes at the most: less than the 3 s that the image's health check has.
pub(crate) const HEALTH: Duration = Duration::from_secs(2);

/// Bytes that are handed to an upstream's connection at a time of a body that is there: hyper holds
/// two such frames at the most, and writes them with one call.
pub(crate) const FRAME_BYTES: usize = 256 * 1024;

/// Bytes of the fields of one head in HTTP/2, names and values with 32 for each (RFC 9113, 6.5.2): as
/// many as hyper reads of a head in HTTP/1.1. A head that passes in the one passes in the other.
pub(crate) const HEAD_BYTES: u32 = 8 * 1024 + 100 * 4 * 1024;

/// How long a connection may take to agree on TLS and show which protocol it speaks, and each request for its head.
/// nginx keeps an idle connection for 75 s, so clients are built for it.
pub(crate) const HEAD_READ: Duration = Duration::from_secs(75);

/// Header fields of one message. hyper's own default of 100 is less than what gateways in a row
/// pile up.
pub(crate) const HEADERS: usize = 256;

/// Streams that one HTTP/2 client may have open at once: the least that RFC 9113, 6.5.2 recommends.
pub(crate) const HTTP2_STREAMS: u32 = 100;

/// Bytes that wait for their reader on one HTTP/2 stream. It is what a round trip carries: 25 MB a
/// second where that takes 10 ms.
pub(crate) const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;

/// The same over all streams of a connection: each has its own part, so that none of those whose
/// readers stand still keeps another from moving. Towards an upstream, which may allow more streams
/// than [`HTTP2_STREAMS`], that is true of so many.
pub(crate) const HTTP2_WINDOW: u32 = HTTP2_STREAMS * HTTP2_STREAM_WINDOW;

/// How long the rest of a request's body is read to nowhere once its answer is there: clients that
/// write all of a request before they read would lose the answer otherwise. As nginx waits for them.
/// As long has an upstream that answered early to take the rest of a request.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// Bytes of such a rest; whoever has more to send is cut off.
pub(crate) const LINGER_BYTES: usize = 32 << 20;

/// How long a peer in HTTP/2 that was asked whether it is there may take to say so. A client is asked
/// every [`HEAD_READ`], since nothing else bounds how long it may be silent in the middle of a frame;
/// an upstream after [`TCP_KEEPALIVE`].
pub(crate) const PONG: Duration = Duration::from_secs(20);

/// How long an unused upstream connection is kept. Most servers keep theirs 60 s or more; those
/// that close earlier say so, and the pool drops the connection when it hears it.
pub(crate) const POOL_IDLE: Duration = Duration::from_secs(55);

/// Unused upstream connections kept: agents come in tens, and each holds one connection at a time.
pub(crate) const POOL_IDLE_CONNECTIONS: usize = 256;

/// A resolver that does not answer by then does not hold the start up: the check for a loop is a
/// kindness, not a gate.
pub(crate) const START_LOOKUP: Duration = Duration::from_secs(2);

/// Silence after which TCP, and HTTP/2 towards an upstream, ask whether the other side still lives.
/// Load balancers forget a silent connection after 60 s at the earliest, so this also keeps long
/// thinking alive.
pub(crate) const TCP_KEEPALIVE: Duration = Duration::from_secs(45);

/// Between two such questions.
pub(crate) const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Distinct paths whose 404 is told to the operator; a scanner must not fill the log.
pub(crate) const UNKNOWN_PATHS_TOLD: usize = 32;
