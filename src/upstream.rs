//! The upstream client: pooled connections, and the mapping of its errors to faults.

pub(crate) mod abort_signal;
pub(crate) mod client_error;
pub(crate) mod connection_guard;
pub(crate) mod deadline_connector;
pub(crate) mod proxy_connector;
mod read_ahead;
#[cfg(test)]
mod tests;
mod tls;
pub(crate) mod upstream_body;
pub(crate) mod upstream_stream;

use std::sync::Arc;
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response};
use hyper_util::client::legacy::{Client, Error as ClientError, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;

#[cfg(feature = "otlp")]
pub(crate) use tls::direct_connector;
pub(crate) use upstream_body::UpstreamBody;

use crate::body::budget::BufferBudget;
use crate::body::request_body::RequestBody;
use crate::config::{Http2, UpstreamConfig};
use crate::error::{Fault, Problem};
use crate::limits::{
    HTTP2_CONNECTION_WINDOW, HTTP2_PING_TIMEOUT, HTTP2_STREAM_WINDOW, MAX_HEAD_BYTES, MAX_HEADERS,
    TCP_KEEPALIVE,
};
use connection_guard::ConnectionGuard;
use deadline_connector::DeadlineConnector;
use proxy_connector::ProxyRules;
use tls::Alpn;

/// Time after which an idle upstream connection is closed. Most servers keep theirs for 60 s or
/// more. Servers that close earlier announce it, and the pool then drops the connection.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(55);
/// Maximum number of idle upstream connections. Agents run in tens, and each uses one connection at
/// a time.
const POOL_IDLE_CONNECTIONS: usize = 256;

/// Client of the single upstream, with its connection pool.
pub(crate) struct Upstream {
    /// Client for all requests except upgrades.
    pooled: Client<DeadlineConnector, RequestBody>,
    /// Client for upgrades, which exist in HTTP/1.1 only.
    upgrade_client: Client<DeadlineConnector, RequestBody>,
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
        let client = |alpn| build_client(config, rules.clone(), alpn, budget.cloned());
        let plain = client(Alpn::Http1)?;
        let pooled = match config.http2 {
            Http2::Auto => client(Alpn::Http2OrHttp1)?,
            Http2::Off => plain.clone(),
        };
        Ok(Self {
            pooled,
            upgrade_client: plain,
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
        self.send_with(&self.pooled, request).await
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
        client: &Client<DeadlineConnector, RequestBody>,
        request: Request<RequestBody>,
    ) -> Result<Response<UpstreamBody>, Fault> {
        let mut request = self.with_proxy_authorization(request);
        let guard = ConnectionGuard::for_request(&mut request);
        let reply = await_reply(client.request(request), guard).await;
        reply.map_err(|error| self.record_failure(&error))
    }

    /// Returns the fault that caused `error`, and keeps the cause of a failed connection.
    fn record_failure(&self, error: &ClientError) -> Fault {
        let fault = client_error::to_fault(error);
        if let Some(reason) = client_error::connect_reason(error) {
            *self.last_failure.lock() = Some((fault, reason));
        }
        fault
    }

    /// Returns the innermost cause of the last failed connection, if it failed with `fault`.
    pub(crate) fn failure_reason(&self, fault: Fault) -> Option<String> {
        let last = self.last_failure.lock();
        let reason = last.as_ref().filter(|(failed, _)| *failed == fault);
        reason.map(|(_, reason)| reason.clone())
    }

    /// Returns the message of `fault` at `origin`, with the innermost cause if the last connection failed
    /// with it. For the operator: the cause may be another request's.
    pub(crate) fn failure_message(&self, fault: Fault, origin: &str) -> String {
        let message = fault.message(origin);
        match self.failure_reason(fault) {
            Some(reason) => format!("{message} ({reason})"),
            None => message,
        }
    }

    /// Adds the credentials of a forward proxy, if the request goes through one.
    fn with_proxy_authorization(&self, mut request: Request<RequestBody>) -> Request<RequestBody> {
        let rules = self.proxy_rules.as_ref();
        if let Some(value) = rules.and_then(|rules| rules.authorization(request.uri())) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        request
    }
}

/// Waits for the head of the reply. If this future is dropped, the guard must drop before the
/// response future: the guard ends the connection while the connection still carries this request.
async fn await_reply(
    mut reply: ResponseFuture,
    guard: Option<ConnectionGuard>,
) -> Result<Response<UpstreamBody>, ClientError> {
    let reply = (&mut reply).await?;
    Ok(UpstreamBody::wrap(
        reply,
        guard.and_then(ConnectionGuard::into_answered),
    ))
}

fn build_client(
    config: &UpstreamConfig,
    rules: Option<Arc<ProxyRules>>,
    alpn: Alpn,
    budget: Option<BufferBudget>,
) -> Result<Client<DeadlineConnector, RequestBody>, Problem> {
    let tls = tls::connector(config, rules, alpn)?;
    let connector = DeadlineConnector::new(tls, config.connect_timeout, budget);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(POOL_IDLE_CONNECTIONS)
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
        // All requests share the one HTTP/2 connection, so a dead one must be detected. Idle
        // connections are not pinged: `POOL_IDLE_TIMEOUT` closes them.
        .http2_keep_alive_interval(TCP_KEEPALIVE)
        .http2_keep_alive_timeout(HTTP2_PING_TIMEOUT)
        .build(connector))
}
