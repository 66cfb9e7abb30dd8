//! The upstream client: pooled connections, and the mapping of its errors to faults.

pub(crate) mod connection_guard;
pub(crate) mod proxy_connector;
mod read_ahead;
mod tls;
pub(crate) mod upstream_stream;

use std::error::Error as StdError;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response};
use hyper_util::client::legacy::{Client, Error as ClientError, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;

use crate::body::budget::BufferBudget;
use crate::body::request_body::RequestBody;
use crate::config::{Http2, UpstreamConfig};
use crate::cores;
use crate::error::{Fault, Problem};
use crate::limits::{
    HTTP2_CONNECTION_WINDOW, HTTP2_PING_TIMEOUT, HTTP2_STREAM_WINDOW, MAX_HEAD_BYTES, MAX_HEADERS,
    TCP_KEEPALIVE,
};
use crate::upstream::proxy_connector::ProxyConnectError;
use connection_guard::ConnectionGuard;
pub(crate) use connection_guard::UpstreamBody;
use proxy_connector::ProxyRules;
use read_ahead::DeadlineConnector;
use tls::Alpn;
#[cfg(feature = "otlp")]
pub(crate) use tls::direct_connector;
pub(crate) use tls::{SYSTEM_ROOTS, client_config, with_certificates};

/// Time after which an idle upstream connection is closed. Most servers keep theirs for 60 s or
/// more. Servers that close earlier announce it, and the pool then drops the connection.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(55);
/// Maximum number of idle upstream connections of the workers, and of all cores together. Agents run in tens, and each
/// uses one connection at a time.
const POOL_IDLE_CONNECTIONS: usize = 256;

type Pool = Client<DeadlineConnector, RequestBody>;

/// Client of the single upstream, with its connection pools.
pub(crate) struct Upstream {
    connector: DeadlineConnector,
    /// Pools for all requests except upgrades: of the workers, then of each core, whose connections wake no
    /// other thread.
    pools: Box<[OnceLock<Pool>]>,
    /// Pool for upgrades, which exist in HTTP/1.1 only.
    upgrade_client: Pool,
    /// Rules for reaching targets through a proxy, if any are configured.
    proxy_rules: Option<Arc<ProxyRules>>,
    /// The last connection that failed: its fault and the innermost cause.
    last_failure: Mutex<Option<(Fault, String)>>,
}

impl Upstream {
    /// Loads the root certificates and creates the pool. Opens no connection. What connections read
    /// ahead of slow clients counts towards `budget`. Fails if the certificate file cannot be used.
    pub(crate) fn new(
        config: &UpstreamConfig,
        budget: Option<&BufferBudget>,
    ) -> Result<Self, Problem> {
        let rules = ProxyRules::from_settings(&config.proxies);
        let alpn = if config.http2 == Http2::Auto { Alpn::Http2OrHttp1 } else { Alpn::Http1 };
        let connector = |alpn| {
            let inner = tls::connector(config, rules.clone(), alpn)?;
            let (timeout, budget) = (config.connect_timeout, budget.cloned());
            Ok::<_, Problem>(DeadlineConnector { inner, timeout, budget })
        };
        Ok(Self {
            connector: connector(alpn)?,
            pools: (0..=cores::available()).map(|_| OnceLock::new()).collect(),
            upgrade_client: pool(connector(Alpn::Http1)?, POOL_IDLE_CONNECTIONS),
            proxy_rules: rules,
            last_failure: Mutex::default(),
        })
    }

    /// Sends a request and waits for the head of the reply, without a timeout. Dropping the future
    /// closes the upstream connection, even if part of the request is still unsent.
    ///
    /// A request is retried only if a reused connection closed before any byte of it was written.
    pub(crate) async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<UpstreamBody>, Fault> {
        let of_thread = cores::current().map_or(0, |core| core + 1);
        let idle = if of_thread == 0 { 1 } else { self.pools.len() - 1 };
        let pool = || pool(self.connector.clone(), POOL_IDLE_CONNECTIONS.div_ceil(idle));
        let pool = self.pools.get(of_thread).map(|of_thread| of_thread.get_or_init(pool));
        self.send_with(pool.unwrap_or(&self.upgrade_client), request).await
    }

    /// Sends a request for a protocol upgrade.
    pub(crate) async fn send_upgrade(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<UpstreamBody>, Fault> {
        self.send_with(&self.upgrade_client, request).await
    }

    async fn send_with(
        &self,
        client: &Pool,
        mut request: Request<RequestBody>,
    ) -> Result<Response<UpstreamBody>, Fault> {
        // A request through a forward proxy carries the credentials of the proxy.
        let rules = self.proxy_rules.as_ref();
        if let Some(value) = rules.and_then(|rules| rules.authorization(request.uri())) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        let guard = ConnectionGuard::for_request(&mut request);
        let reply = await_reply(client.request(request), guard).await;
        reply.map_err(|error| self.record_failure(&error))
    }

    /// Returns the fault that caused `error`, and keeps the cause of a failed connection.
    fn record_failure(&self, error: &ClientError) -> Fault {
        if !error.is_connect() {
            let malformed = |cause: &(dyn StdError + 'static)| {
                cause.downcast_ref().is_some_and(hyper::Error::is_parse)
            };
            let is_malformed = causes(error).any(malformed);
            return if is_malformed { Fault::UpstreamMalformed } else { Fault::UpstreamBroke };
        }
        let fault = connect_fault(error);
        if let Some(innermost) = causes(error).last() {
            *self.last_failure.lock() = Some((fault, innermost.to_string()));
        }
        fault
    }

    /// Returns the message of `fault` at `origin`, with the innermost cause if the last connection failed
    /// with it. For the operator: the cause may be another request's.
    pub(crate) fn failure_message(&self, fault: Fault, origin: &str) -> String {
        let message = fault.message(origin);
        match &*self.last_failure.lock() {
            Some((failed, reason)) if *failed == fault => format!("{message} ({reason})"),
            Some(_) | None => message,
        }
    }
}

/// Waits for the head of the reply. If this future is dropped, the guard must drop before the
/// response future: the guard ends the connection while the connection still carries this request.
async fn await_reply(
    mut reply: ResponseFuture,
    guard: Option<ConnectionGuard>,
) -> Result<Response<UpstreamBody>, ClientError> {
    let reply = (&mut reply).await?;
    Ok(UpstreamBody::wrap(reply, guard.and_then(ConnectionGuard::into_answered)))
}

/// Creates a pool that keeps at most `idle` connections.
fn pool(connector: DeadlineConnector, idle: usize) -> Pool {
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(idle)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        // Only a request of which a reused connection took no byte is sent again.
        .retry_canceled_requests(true)
        .set_host(false)
        .http1_preserve_header_case(true)
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEAD_BYTES)
        .http2_initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .http2_initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        // All requests of a pool share its HTTP/2 connection, so a dead one must be detected. Idle
        // connections are not pinged: `POOL_IDLE_TIMEOUT` closes them.
        .http2_keep_alive_interval(TCP_KEEPALIVE)
        .http2_keep_alive_timeout(HTTP2_PING_TIMEOUT)
        .build(connector)
}

/// Returns the fault that caused a failed connection, by the types in the source chain of its error. Only a
/// failed DNS lookup has no type; hyper-util's message identifies the failure.
fn connect_fault(error: &ClientError) -> Fault {
    let ran_out =
        |cause: &(dyn StdError + 'static)| cause.downcast_ref().is_some_and(is_exhaustion);
    if causes(error).any(ran_out) {
        return Fault::NoDescriptors;
    }
    for cause in causes(error) {
        if cause.is::<ProxyConnectError>() {
            return Fault::UpstreamProxy;
        }
        if cause.is::<rustls::Error>() {
            return Fault::UpstreamTls;
        }
        let timed_out = |system: &io::Error| system.kind() == io::ErrorKind::TimedOut;
        if cause.downcast_ref().is_some_and(timed_out) {
            return Fault::UpstreamTimedOut;
        }
        if cause.to_string().starts_with("dns error") {
            // Without descriptors, the system's resolver reports that the name does not exist.
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
            return if socket.is_err_and(|error| is_exhaustion(&error)) {
                Fault::NoDescriptors
            } else {
                Fault::UpstreamUnresolved
            };
        }
    }
    Fault::UpstreamUnreachable
}

/// Whether the process or the system has reached its limit on open descriptors.
fn is_exhaustion(error: &io::Error) -> bool {
    #[cfg(unix)]
    let exhausted = matches!(
        rustix::io::Errno::from_io_error(error),
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
    );
    #[cfg(not(unix))]
    let exhausted = {
        let _ = error;
        false
    };
    exhausted
}

/// Iterates over the causes of an error, outermost first.
fn causes<'a>(error: &'a ClientError) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |&cause| next_cause(cause))
}

/// Returns the next cause. `io::Error::source` skips the error that it wraps, so the wrapped error
/// is taken first; TLS errors are wrapped twice.
fn next_cause<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.map_or_else(|| cause.source(), |wrapped| Some(wrapped))
}

#[cfg(test)]
mod tests;
