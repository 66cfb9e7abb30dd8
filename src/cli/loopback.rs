//! The real proxy on loopback, inside a command, and a client of it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::{
    BaseUrl, CallerIdentity, ClientTokens, Config, Mode, Proxies, StoreLocation, WindowOrigin,
};
use crate::display::printable::shortened;
use crate::error::Problem;
use crate::server;
use longhaul_core::units::tokens::Tokens;

/// The real proxy on a free port, stopped on drop.
pub(super) struct LoopbackProxy {
    pub(super) address: SocketAddr,
    task: JoinHandle<Result<(), Problem>>,
}

impl LoopbackProxy {
    /// Starts the proxy. Fails if loopback cannot be used, or the proxy refuses its settings.
    pub(super) async fn start(config: Config) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (ready, readied) = oneshot::channel();
        let mut served = tokio::spawn(server::run(
            config,
            listener,
            std::future::pending(),
            || _ = ready.send(()),
        ));
        tokio::select! {
            biased;
            Ok(()) = readied => Ok(Self { address, task: served }),
            ended = &mut served => Err(match ended {
                Ok(Ok(())) => io::Error::other("the proxy ended before it was ready"),
                Ok(Err(problem)) => io::Error::other(problem.to_string()),
                Err(error) => io::Error::other(error),
            }),
        }
    }
}

impl Drop for LoopbackProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the settings for a proxy in front of the server at `base`, with this window. Removes
/// everything that reaches outside this process: listeners, keys, stores and other upstreams. Fails
/// if `base` is not a base URL.
pub(super) fn isolated(
    config: &Config,
    base: &str,
    window: Tokens,
    window_source: &str,
) -> Result<Config, Problem> {
    let mut config = config.clone();
    config.upstream.base = BaseUrl::parse(base).map_err(|refused| {
        Problem::Listen(format!("{base} is not an upstream's base URL: {refused}"))
    })?;
    config.upstream.messages = None;
    config.upstream.authorization = None;
    config.upstream.ca_file = None;
    config.upstream.proxies = Proxies::default();
    config.upstream.query_windows = false;
    config.mounts.clear();
    config.tls = None;
    config.client_tokens = ClientTokens::default();
    config.summary.endpoint = None;
    config.store.location = StoreLocation::Memory;
    config.store.scope = CallerIdentity::Credentials;
    config.report_headers = true;
    if config.mode == Mode::Shadow {
        config.mode = Mode::On;
    }
    // The table knows nothing of a model on this machine, so the window is set here.
    config.window = window;
    config.window_origin = WindowOrigin::Setting(window_source.to_owned());
    Ok(config)
}

/// Maximum characters shown of an upstream's error.
pub(super) const ERROR_CHARS: usize = 200;
/// Header of longhaul's own errors, whose texts are short.
pub(super) const FAULT_HEADER: &str = "x-longhaul-fault";

/// A client of one server on loopback.
#[derive(Clone)]
pub(super) struct LoopbackClient {
    address: SocketAddr,
    pool: Client<HttpConnector, Full<Bytes>>,
}

/// A reply, read to its end.
#[derive(Clone, Debug)]
pub(super) struct LoopbackReply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl LoopbackReply {
    /// Returns the message of an error in the API's format, safe for a terminal, and shortened unless the
    /// error is longhaul's own.
    pub(super) fn error_message(&self) -> Option<String> {
        let value: Value = serde_json::from_slice(&self.body).ok()?;
        let message = value.pointer("/error/message")?.as_str()?;
        let is_own = self.headers.contains_key(FAULT_HEADER);
        let most = if is_own { usize::MAX } else { ERROR_CHARS };
        Some(shortened(message, most))
    }
}

impl LoopbackClient {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            pool: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Posts a JSON body and reads the reply, at most `most` bytes of it, within `limit`. Fails if
    /// no whole reply arrived; the text says why.
    pub(super) async fn post(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
        limits: (usize, Duration),
    ) -> Result<LoopbackReply, String> {
        self.send(Method::POST, path, headers, body, limits).await
    }

    /// Like [`post`](Self::post), with another method.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
        (most, limit): (usize, Duration),
    ) -> Result<LoopbackReply, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header(CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let exchange = async {
            let reply = self.pool.request(request).await;
            let (head, body) = reply.map_err(|error| error.to_string())?.into_parts();
            let body = Limited::new(body, most).collect().await;
            let body = body.map_err(|error| format!("the reply broke off: {error}"))?;
            Ok(LoopbackReply {
                status: head.status,
                headers: head.headers,
                body: body.to_bytes(),
            })
        };
        let late = || format!("no whole reply within {} s", limit.as_secs());
        timeout(limit, exchange).await.map_err(|_| late())?
    }
}
