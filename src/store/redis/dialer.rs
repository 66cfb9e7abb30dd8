//! Connections to one server, each with a bound on its replies.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::Connect;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    Pipeline, RedisConnectionInfo, RedisError, RedisFuture, Value,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::body::stream_with_hooks::StreamWithHooks;
use crate::limits::tune_socket;

/// Timeout for opening a connection: TCP, TLS, the password. No request waits that long, but a
/// distant server must be reached in the end.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens connections to the servers of one store.
pub(super) struct Dialer {
    id: u64,
    tls: Option<TlsConnector>,
    /// Login and protocol.
    login: RedisConnectionInfo,
}

/// The dialers in use, by their IDs. The client of a Cluster opens connections by a function of their type,
/// which receives nothing but the library's settings.
static DIALERS: LazyLock<Mutex<HashMap<u64, Weak<Dialer>>>> = LazyLock::new(Mutex::default);

impl Dialer {
    /// Creates a dialer for servers with this login, over TLS if `tls` is set.
    pub(super) fn new(tls: Option<TlsConnector>, login: RedisConnectionInfo) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let dialer = Arc::new(Self { id, tls, login });
        DIALERS.lock().insert(id, Arc::downgrade(&dialer));
        dialer
    }

    /// Returns the login that names this dialer to [`BoundedConnection`], in place of a password.
    pub(super) fn named_login(&self) -> RedisConnectionInfo {
        self.login.clone().set_password(self.id.to_string())
    }

    fn named_in(login: &RedisConnectionInfo) -> Option<Arc<Self>> {
        let id: u64 = login.password()?.parse().ok()?;
        DIALERS.lock().get(&id)?.upgrade()
    }

    pub(super) async fn connect(
        &self,
        address: &ConnectionAddr,
        config: AsyncConnectionConfig,
    ) -> Result<BoundedConnection, RedisError> {
        let received = Received::default();
        let connecting = async {
            let stream = bounded(self.open(address).await?, received.clone());
            MultiplexedConnection::new_with_config(&self.login, stream, config).await
        };
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        let (link, driver) = connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let mut tasks = JoinSet::new();
        tasks.spawn(driver);
        Ok(BoundedConnection { link, received, _driver: Arc::new(tasks) })
    }

    async fn open(&self, address: &ConnectionAddr) -> io::Result<Box<dyn Stream>> {
        let (host, port) = match address {
            ConnectionAddr::Tcp(host, port) => (host, *port),
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                return Ok(Box::new(tokio::net::UnixStream::connect(path).await?));
            }
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let stream = TcpStream::connect((&**host, port)).await?;
        tune_socket(&stream)?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        DIALERS.lock().remove(&self.id);
    }
}

/// A byte stream in both directions.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection to one server, which its clones share.
#[derive(Clone)]
pub(super) struct BoundedConnection {
    link: MultiplexedConnection,
    received: Received,
    /// The task that reads and writes; ends with the last clone of the connection.
    _driver: Arc<JoinSet<()>>,
}

impl Connect for BoundedConnection {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move {
            let info: ConnectionInfo = info.into_connection_info()?;
            let gone = (ErrorKind::InvalidClientConfig, "the store is closed");
            let dialer = Dialer::named_in(info.redis_settings()).ok_or(gone)?;
            dialer.connect(info.addr(), config).await
        })
    }
}

impl ConnectionLike for BoundedConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let answer = self.link.req_packed_command(command).await?;
            self.received.reset();
            Ok(answer)
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let answers = self.link.req_packed_commands(commands, offset, count);
            let answers = answers.await?;
            self.received.reset();
            Ok(answers)
        })
    }

    fn get_db(&self) -> i64 {
        self.link.get_db()
    }
}

/// Maximum bytes before a call has its answer, with [`LINE_BYTES`] for each line: several of the largest
/// entries. Calls that overlap count as one. A false alarm costs a new connection.
const MAX_BYTES: u64 = 64 << 20;
/// Memory that the library takes for a value, which has a line at least. Entries are encrypted, so one byte of
/// 256 is a line end, and no caller chooses which.
const LINE_BYTES: u64 = 64;

/// Size of what a connection has received since a call had its answer.
#[derive(Clone, Default)]
struct Received(Arc<AtomicU64>);

impl Received {
    /// Begins to count anew, after a call has its answer.
    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Counts bytes. Returns whether all together are within the bound.
    fn count(&self, bytes: &[u8]) -> bool {
        let lines = bytes.split(|&byte| byte == b'\n').count().saturating_sub(1) as u64;
        let size = bytes.len() as u64 + lines * LINE_BYTES;
        self.0.fetch_add(size, Ordering::Relaxed) + size <= MAX_BYTES
    }
}

/// Returns a stream that ends with an error when what it receives exceeds the bound.
fn bounded<S: AsyncRead + AsyncWrite + Send + Unpin>(
    stream: S,
    received: Received,
) -> impl AsyncRead + AsyncWrite + Send + Unpin {
    let read = move |stream: Pin<&mut S>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>| {
        let before = buffer.filled().len();
        ready!(stream.poll_read(cx, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        if received.count(read) {
            return Poll::Ready(Ok(()));
        }
        let words = "the replies of the server exceed their bound";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, words)))
    };
    StreamWithHooks { io: stream, read, written: |_| () }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::entry::MAX_ENTRY_BYTES;

    #[test]
    fn several_of_the_largest_entries_are_within_the_bound() {
        let received = Received::default();
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(MAX_ENTRY_BYTES).collect();
        for _ in 0..10 {
            let within = (0..100).take_while(|_| received.count(&bytes)).count();
            assert!((3..10).contains(&within), "{within}");
            assert!(!received.count(b"+"));
            received.reset();
        }
    }

    #[test]
    fn values_without_text_count_as_the_memory_that_they_take() {
        let received = Received::default();
        let values = b":1\r\n".repeat(1_000);
        let within = (0..MAX_BYTES).take_while(|_| received.count(&values)).count();
        assert_eq!(within as u64, MAX_BYTES / (1_000 * (4 + LINE_BYTES)));
    }
}
