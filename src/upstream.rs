//! The upstream: a pooled client, and what its errors mean.

mod asked;
mod claim;
mod connector;
mod download;
mod failure;
mod held;
mod line;
mod outgoing;
mod pieces;
mod reached;
#[cfg(test)]
mod tests;
mod tls;
mod upload;
mod way;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};

pub(crate) use asked::{QueryOutcome, ReportedWindows, WindowAnswer, WindowQuery};
pub(crate) use download::UpstreamBody;
pub(crate) use held::{PeekedBody, ReadAhead};
pub(crate) use outgoing::{RequestBody, TransferMeter};
pub(crate) use pieces::ChunkedBytes;
#[cfg(feature = "otlp")]
pub(crate) use tls::direct_connector;
pub(crate) use upload::ClientBody;
pub(crate) use way::is_loopback_host;
pub(crate) use windows::LearnedWindows;

use crate::config::{Http2, UpstreamConfig};
use crate::error::{Fault, Problem};
use crate::limits::{
    HTTP2_CONNECTION_WINDOW, HTTP2_PING_TIMEOUT, HTTP2_STREAM_WINDOW, MAX_HEAD_BYTES, MAX_HEADERS,
    TCP_KEEPALIVE,
};
use claim::ConnectionGuard;
use connector::DeadlineConnector;
use tls::Alpn;
use way::ProxyRules;

/// How long an unused upstream connection is kept. Most servers keep theirs 60 s or more; those
/// that close earlier say so, and the pool drops the connection when it hears it.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(55);
/// Unused upstream connections kept: agents come in tens, and each holds one connection at a time.
const POOL_IDLE_CONNECTIONS: usize = 256;

/// Sends requests to the one upstream. Cheap to clone requests into; keeps its connections.
pub(crate) struct Upstream {
    /// For everything that is no upgrade.
    pooled: Client<DeadlineConnector, RequestBody>,
    /// For upgrades, which exist in HTTP/1.1 only.
    upgrade_client: Client<DeadlineConnector, RequestBody>,
    /// What is reached through a proxy, if anything is.
    proxy_rules: Option<Arc<ProxyRules>>,
}

impl Upstream {
    /// Loads the roots of trust and makes the pool; connects to nothing.
    ///
    /// # Errors
    /// The certificate file cannot be used.
    pub(crate) fn new(config: &UpstreamConfig) -> Result<Self, Problem> {
        let rules = ProxyRules::from_settings(&config.proxies);
        let plain = build_client(config, rules.clone(), Alpn::Http1)?;
        let pooled = match config.http2 {
            Http2::Auto => build_client(config, rules.clone(), Alpn::Http2OrHttp1)?,
            Http2::Off => plain.clone(),
        };
        Ok(Self {
            pooled,
            upgrade_client: plain,
            proxy_rules: rules,
        })
    }

    /// Sends a request and waits for the head of its answer, however long that takes. Dropping
    /// the future closes the upstream connection, whatever it has yet to take of the request.
    ///
    /// A request is sent again only if a reused connection closed before any byte of it was
    /// written.
    pub(crate) async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<UpstreamBody>, Fault> {
        self.send_with(&self.pooled, request).await
    }

    /// Sends a request that asks for another protocol.
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
        let claim = ConnectionGuard::for_request(&mut request);
        await_reply(client.request(request), claim).await
    }

    /// The request with what a proxy that reads it wants to be shown.
    fn with_proxy_authorization(&self, mut request: Request<RequestBody>) -> Request<RequestBody> {
        let rules = self.proxy_rules.as_ref();
        if let Some(value) = rules.and_then(|rules| rules.authorization(request.uri())) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        request
    }
}

/// Waits for an answer. Where that is given up, the claim goes first: it ends the connection while
/// this is still the request on it.
async fn await_reply(
    mut reply: ResponseFuture,
    claim: Option<ConnectionGuard>,
) -> Result<Response<UpstreamBody>, Fault> {
    let reply = (&mut reply)
        .await
        .map_err(|error| failure::to_fault(&error))?;
    Ok(UpstreamBody::wrap(
        reply,
        claim.and_then(ConnectionGuard::into_answered),
    ))
}

fn build_client(
    config: &UpstreamConfig,
    rules: Option<Arc<ProxyRules>>,
    alpn: Alpn,
) -> Result<Client<DeadlineConnector, RequestBody>, Problem> {
    let connector =
        DeadlineConnector::new(tls::connector(config, rules, alpn)?, config.connect_timeout);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(POOL_IDLE_CONNECTIONS)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .set_host(false)
        .http1_preserve_header_case(true)
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEAD_BYTES)
        .http2_initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .http2_initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        // Every request goes by the one connection there is, a dead one too. One without requests is
        // not asked: `POOL_IDLE` ends it.
        .http2_keep_alive_interval(TCP_KEEPALIVE)
        .http2_keep_alive_timeout(HTTP2_PING_TIMEOUT)
        .build(connector))
}
