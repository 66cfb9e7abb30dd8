//! A client of one server on this machine.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

use crate::printable::shortened;

/// Maximum characters shown of an upstream's error.
pub const ERROR_CHARS: usize = 200;
/// Header of longhaul's own errors, whose texts are short.
pub const FAULT_HEADER: &str = "x-longhaul-fault";

/// A client of one server on loopback.
#[derive(Clone)]
pub struct LoopbackClient {
    address: SocketAddr,
    pool: Client<HttpConnector, Full<Bytes>>,
}

/// A reply, read to its end.
#[derive(Clone, Debug)]
pub struct LoopbackReply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl LoopbackReply {
    /// Returns the message of an error in the API's format, safe for a terminal, and shortened unless the
    /// error is longhaul's own.
    pub fn error_message(&self) -> Option<String> {
        let value: Value = serde_json::from_slice(&self.body).ok()?;
        let message = value.pointer("/error/message")?.as_str()?;
        let is_own = self.headers.contains_key(FAULT_HEADER);
        let most = if is_own { usize::MAX } else { ERROR_CHARS };
        Some(shortened(message, most))
    }
}

impl LoopbackClient {
    /// Creates a client of the server at `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, pool: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Sends a JSON body and reads the reply, at most `most` bytes of it, within `limit`. Fails if
    /// no whole reply arrived; the text says why.
    pub async fn send(
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
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let exchange = async {
            let reply = self.pool.request(request).await;
            let (head, body) = reply.map_err(|error| error.to_string())?.into_parts();
            let body = Limited::new(body, most).collect().await;
            let body = body.map_err(|error| format!("the reply broke off: {error}"))?;
            Ok(LoopbackReply { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        let late = || format!("no whole reply within {} s", limit.as_secs());
        timeout(limit, exchange).await.map_err(|_| late())?
    }
}
