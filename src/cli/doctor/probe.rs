//! Requests through a private proxy: the list of models, and one chat if a model is named.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Finding;
use crate::cli::check::KEY_VARIABLE;
use crate::config::{ClientTokens, Config, StoreLocation};
use crate::display::printable::is_printable;
use crate::server::Server;

/// Maximum time for one request. A local server may have to load the model first.
const PROBE_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum bytes of a reply that are read. `OpenRouter`'s list of models has about 1 MB.
const REPLY_BYTES: usize = 16 << 20;
/// Maximum characters shown of an upstream's error.
const ERROR_CHARS: usize = 200;
/// Difference between two clocks that a slow reply does not explain, in seconds. Signed requests
/// commonly fail from five minutes on.
const CLOCK_SKEW_SECONDS: u64 = 60;
/// The header by which longhaul marks a reply of its own.
const FAULT_HEADER: &str = "x-longhaul-fault";

/// Sends the requests and reports on upstream, key, clock and request.
pub(super) async fn findings(
    config: &Config,
    model: Option<&str>,
    key: Option<&str>,
) -> Vec<Finding> {
    match Probe::start(config, key).await {
        Ok(probe) => probe.findings(config, model).await,
        Err(why) => vec![Finding::failed("request", why)],
    }
}

/// A private proxy and a client of it.
struct Probe {
    address: SocketAddr,
    authorization: Option<String>,
    client: Client<HttpConnector, Full<Bytes>>,
    /// Stops the proxy when it is dropped.
    _stop: oneshot::Sender<()>,
}

/// A reply, read to its end.
struct ProbeReply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Probe {
    /// Starts the proxy on a free port of this machine, with the configured upstream and key.
    async fn start(config: &Config, key: Option<&str>) -> Result<Self, String> {
        let told = |error: io::Error| format!("cannot listen on this machine: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(told)?;
        let address = listener.local_addr().map_err(told)?;
        let mut config = config.clone();
        config.listen = address;
        config.tls = None;
        config.client_tokens = ClientTokens::default();
        config.is_for_this_machine = true;
        config.store.location = StoreLocation::Memory;
        config.title_model = None;
        let server = Server::new(config, listener)
            .await
            .map_err(|problem| problem.to_string())?;
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(server.serve(async { _ = stopped.await }));
        Ok(Self {
            address,
            authorization: key.map(|key| format!("Bearer {key}")),
            client: Client::builder(TokioExecutor::new()).build_http(),
            _stop: stop,
        })
    }

    async fn findings(&self, config: &Config, model: Option<&str>) -> Vec<Finding> {
        let origin = config.upstream.base.origin();
        let has_key = self.authorization.is_some() || config.upstream.authorization.is_some();
        let began = Instant::now();
        let reply = match self.send(Method::GET, "/v1/models", Bytes::new()).await {
            Ok(reply) if reply.headers.contains_key(FAULT_HEADER) => Err(fault_message(&reply)),
            other => other,
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                let skipped = |subject| Finding::skipped(subject, "needs the upstream");
                let mut findings = vec![Finding::failed("upstream", why)];
                findings.extend(["clock", "key", "request"].map(skipped));
                return findings;
            }
        };
        let millis = began.elapsed().as_millis();
        let mut findings = vec![
            Finding::passed("upstream", format!("{origin} answers in {millis} ms")),
            clock_finding(&reply.headers),
            key_finding(reply.status, has_key),
        ];
        findings.push(match model {
            Some(model) => self.chat_finding(model).await,
            None => Finding::passed(
                "request",
                format!(
                    "GET /models passed through longhaul: {}; --model NAME sends a chat",
                    reply.status
                ),
            ),
        });
        findings
    }

    /// Sends one short chat. The output has no limit: the name of that key differs between models.
    async fn chat_finding(&self, model: &str) -> Finding {
        let body = json!({
            "model": model,
            "messages": [{ "role": "user", "content": "Reply with the single word: ok" }],
        });
        match self
            .send(
                Method::POST,
                "/v1/chat/completions",
                body.to_string().into(),
            )
            .await
        {
            Err(why) => Finding::failed("request", why),
            Ok(reply) if reply.status.is_success() => Finding::passed(
                "request",
                format!("{model} answered a chat through longhaul"),
            ),
            // Such a reply may repeat the key.
            Ok(reply) if matches!(reply.status.as_u16(), 401 | 403) => Finding::failed(
                "request",
                format!("{model}: {}: the upstream refuses the key", reply.status),
            ),
            Ok(reply) if reply.headers.contains_key(FAULT_HEADER) => {
                Finding::failed("request", format!("{model}: {}", fault_message(&reply)))
            }
            Ok(reply) => Finding::failed(
                "request",
                format!("{model}: {}: {}", reply.status, error_message(&reply)),
            ),
        }
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<ProbeReply, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header(CONTENT_TYPE, "application/json");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|_| format!("{KEY_VARIABLE} holds characters that no header can carry"))?;
        let exchange = async {
            let reply = self
                .client
                .request(request)
                .await
                .map_err(|error| error.to_string())?;
            let (head, body) = reply.into_parts();
            let body = Limited::new(body, REPLY_BYTES).collect().await;
            let body = body.map_err(|error| format!("the reply broke off: {error}"))?;
            Ok(ProbeReply {
                status: head.status,
                headers: head.headers,
                body: body.to_bytes(),
            })
        };
        let late = || format!("no answer within {} s", PROBE_TIMEOUT.as_secs());
        timeout(PROBE_TIMEOUT, exchange).await.map_err(|_| late())?
    }
}

fn key_finding(status: StatusCode, has_key: bool) -> Finding {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if has_key => Finding::failed(
            "key",
            format!(
                "the upstream refuses the key ({status}); check {KEY_VARIABLE}, or upstream.api_key_file"
            ),
        ),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Finding::warned(
            "key",
            format!(
                "the upstream requires one, which the agent sends; set {KEY_VARIABLE} to test it here"
            ),
        ),
        status if status.is_success() && has_key => Finding::passed("key", "accepted"),
        status if status.is_success() => {
            Finding::passed("key", "none set here, and none required for GET /models")
        }
        status => Finding::warned("key", format!("not tested: GET /models gives {status}")),
    }
}

fn clock_finding(headers: &HeaderMap) -> Finding {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok());
    let Some(theirs) = date.and_then(|date| httpdate::parse_http_date(date).ok()) else {
        return Finding::passed("clock", "not compared: the upstream sends no date");
    };
    let now = SystemTime::now();
    let apart = now
        .duration_since(theirs)
        .or_else(|_| theirs.duration_since(now));
    let seconds = apart.unwrap_or_default().as_secs();
    if seconds > CLOCK_SKEW_SECONDS {
        return Finding::warned(
            "clock",
            format!("{seconds} s apart from the upstream's; set the time of this machine"),
        );
    }
    Finding::passed("clock", "agrees with the upstream's")
}

/// Returns the message of an error in the API's format, shortened and safe for a terminal.
fn error_message(reply: &ProbeReply) -> String {
    whole_message(reply).chars().take(ERROR_CHARS).collect()
}

/// Returns the message of longhaul's own error, which ends with the reason.
fn fault_message(reply: &ProbeReply) -> String {
    whole_message(reply)
}

/// Returns the message of an error in the API's format, safe for a terminal.
fn whole_message(reply: &ProbeReply) -> String {
    let value: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let message = value
        .as_ref()
        .and_then(|value| value.pointer("/error/message")?.as_str());
    let lossy = String::from_utf8_lossy(&reply.body);
    let text = message.unwrap_or(&lossy);
    text.chars()
        .filter(|letter| is_printable(*letter))
        .collect()
}
