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

pub(crate) use asked::{Answer, Asked, Outcome, Question};
pub(crate) use download::Download;
pub(crate) use held::{Ahead, Held};
pub(crate) use outgoing::{Meter, Outgoing};
pub(crate) use pieces::Pieces;
#[cfg(feature = "otlp")]
pub(crate) use tls::direct;
pub(crate) use upload::Upload;
pub(crate) use way::is_this_machine;
pub(crate) use windows::Windows;

use crate::config::{Http2, UpstreamConfig};
use crate::error::{Fault, Problem};
use crate::limits::{HEAD_BYTES, HEADERS, HTTP2_STREAM_WINDOW, HTTP2_WINDOW, PONG, TCP_KEEPALIVE};
use claim::Claim;
use connector::Connector;
use tls::Alpn;
use way::Rules;

/// How long an unused upstream connection is kept. Most servers keep theirs 60 s or more; those
/// that close earlier say so, and the pool drops the connection when it hears it.
const POOL_IDLE: Duration = Duration::from_secs(55);
/// Unused upstream connections kept: agents come in tens, and each holds one connection at a time.
const POOL_IDLE_CONNECTIONS: usize = 256;

/// Sends requests to the one upstream. Cheap to clone requests into; keeps its connections.
pub(crate) struct Upstream {
    /// For everything that is no upgrade.
    pooled: Client<Connector, Outgoing>,
    /// For upgrades, which exist in HTTP/1.1 only.
    upgrading: Client<Connector, Outgoing>,
    /// What is reached through a proxy, if anything is.
    rules: Option<Arc<Rules>>,
}

impl Upstream {
    /// Loads the roots of trust and makes the pool; connects to nothing.
    ///
    /// # Errors
    /// The certificate file cannot be used.
    pub(crate) fn new(config: &UpstreamConfig) -> Result<Self, Problem> {
        let rules = Rules::of(&config.proxies);
        let plain = client(config, rules.clone(), Alpn::Http1)?;
        let pooled = match config.http2 {
            Http2::Auto => client(config, rules.clone(), Alpn::Http2OrHttp1)?,
            Http2::Off => plain.clone(),
        };
        Ok(Self {
            pooled,
            upgrading: plain,
            rules,
        })
    }

    /// Sends a request and waits for the head of its answer, however long that takes. Dropping
    /// the future closes the upstream connection, whatever it has yet to take of the request.
    ///
    /// A request is sent again only if a reused connection closed before any byte of it was
    /// written.
    pub(crate) async fn send(
        &self,
        request: Request<Outgoing>,
    ) -> Result<Response<Download>, Fault> {
        self.send_by(&self.pooled, request).await
    }

    /// Sends a request that asks for another protocol.
    pub(crate) async fn send_upgrade(
        &self,
        request: Request<Outgoing>,
    ) -> Result<Response<Download>, Fault> {
        self.send_by(&self.upgrading, request).await
    }

    async fn send_by(
        &self,
        client: &Client<Connector, Outgoing>,
        request: Request<Outgoing>,
    ) -> Result<Response<Download>, Fault> {
        let mut request = self.shown(request);
        let claim = Claim::of(&mut request);
        answer(client.request(request), claim).await
    }

    /// The request with what a proxy that reads it wants to be shown.
    fn shown(&self, mut request: Request<Outgoing>) -> Request<Outgoing> {
        let rules = self.rules.as_ref();
        if let Some(value) = rules.and_then(|rules| rules.authorization(request.uri())) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        request
    }
}

/// Waits for an answer. Where that is given up, the claim goes first: it ends the connection while
/// this is still the request on it.
async fn answer(
    mut reply: ResponseFuture,
    claim: Option<Claim>,
) -> Result<Response<Download>, Fault> {
    let reply = (&mut reply).await.map_err(|error| failure::of(&error))?;
    Ok(Download::of(reply, claim.and_then(Claim::answered)))
}

fn client(
    config: &UpstreamConfig,
    rules: Option<Arc<Rules>>,
    alpn: Alpn,
) -> Result<Client<Connector, Outgoing>, Problem> {
    let connector = Connector::new(tls::connector(config, rules, alpn)?, config.connect);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(POOL_IDLE_CONNECTIONS)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .set_host(false)
        .http1_preserve_header_case(true)
        .http1_max_headers(HEADERS)
        .http2_max_header_list_size(HEAD_BYTES)
        .http2_initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .http2_initial_connection_window_size(HTTP2_WINDOW)
        // Every request goes by the one connection there is, a dead one too. One without requests is
        // not asked: `POOL_IDLE` ends it.
        .http2_keep_alive_interval(TCP_KEEPALIVE)
        .http2_keep_alive_timeout(PONG)
        .build(connector))
}
