//! Requests through a private proxy: the list of models, and one chat if a model is named.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, DATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::Finding;
use super::Outcome::{Failed, Passed, Skipped, Warned};
use crate::cli::check::{KEY_VARIABLE, bearer};
use crate::cli::loopback::LoopbackProxy;
use crate::config::Config;
use crate::models::HostKind;
use crate::request::login::{WrongBase, wrong_base};
use longhaul_console::loopback_client::{ERROR_CHARS, FAULT_HEADER, LoopbackClient, LoopbackReply};
use longhaul_console::printable::shortened;
use longhaul_core::dialect::Dialect;

/// Maximum time for one request. A local server may have to load the model first.
const PROBE_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum bytes of a reply that are read. `OpenRouter`'s list of models has about 1 MB.
const REPLY_BYTES: usize = 16 << 20;
/// Difference between two clocks that a slow reply does not explain, in seconds. Signed requests
/// commonly fail from five minutes on.
const CLOCK_SKEW_SECONDS: u64 = 60;

/// Sends the requests and reports on upstream, key, clock and request.
pub(super) async fn findings(
    config: &Config,
    model: Option<&str>,
    key: Option<&str>,
) -> Vec<Finding> {
    match Probe::start(config, key).await {
        Ok(probe) => probe.findings(config, model).await,
        Err(why) => vec![Failed.on("request", why)],
    }
}

/// A private proxy and a client of it.
struct Probe {
    client: LoopbackClient,
    authorization: Vec<(HeaderName, HeaderValue)>,
    _proxy: LoopbackProxy,
}

impl Probe {
    /// Starts the proxy on a free port of this machine, with the configured upstream and key.
    async fn start(config: &Config, key: Option<&str>) -> Result<Self, String> {
        let authorization = key.map(bearer).transpose().map_err(|problem| problem.to_string())?;
        let mut config = config.clone();
        config.is_for_this_machine = true;
        let proxy = LoopbackProxy::start(config, None).await.map_err(|error| error.to_string())?;
        Ok(Self {
            client: LoopbackClient::new(proxy.address),
            authorization: Vec::from_iter(authorization.map(|key| (AUTHORIZATION, key))),
            _proxy: proxy,
        })
    }

    async fn findings(&self, config: &Config, model: Option<&str>) -> Vec<Finding> {
        let origin = config.upstream.base.origin();
        let foreign = self.foreign_advice(config);
        let has_key = !self.authorization.is_empty() || config.upstream.authorization.is_some();
        let began = Instant::now();
        let reply = match self.send(Method::GET, "/v1/models", Bytes::new()).await {
            Ok(reply) if reply.headers.contains_key(FAULT_HEADER) => Err(error_message(&reply)),
            other => other,
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                let skipped = |subject| Skipped.on(subject, "needs the upstream");
                let mut findings = vec![Failed.on("upstream", why)];
                findings.extend(["clock", "key", "request"].map(skipped));
                return findings;
            }
        };
        let millis = began.elapsed().as_millis();
        let mut findings = vec![
            Passed.on("upstream", format!("{origin} answers in {millis} ms")),
            clock_finding(&reply.headers),
            key_finding(reply.status, has_key, &foreign),
        ];
        findings.push(match model {
            Some(_) if !has_key && matches!(reply.status.as_u16(), 401 | 403) => {
                Skipped.on("request", "needs the key")
            }
            Some(model) => self.chat_finding(model, &foreign).await,
            None => Passed.on(
                "request",
                format!(
                    "GET /models passed through longhaul: {}; --model NAME sends a chat",
                    reply.status
                ),
            ),
        });
        findings
    }

    async fn chat_finding(&self, model: &str, foreign: &str) -> Finding {
        let (path, body) = Dialect::probe(model, "Reply with the single word: ok");
        let path = format!("/v1{path}");
        match self.send(Method::POST, &path, body.into()).await {
            Err(why) => Failed.on("request", why),
            Ok(reply) if reply.status.is_success() => {
                Passed.on("request", format!("{model} answered a chat through longhaul"))
            }
            // Such a reply may repeat the key.
            Ok(reply) if matches!(reply.status.as_u16(), 401 | 403) => Failed.on(
                "request",
                format!("{model}: {}: the upstream refuses the key{foreign}", reply.status),
            ),
            Ok(reply) if reply.headers.contains_key(FAULT_HEADER) => {
                Failed.on("request", format!("{model}: {}", error_message(&reply)))
            }
            Ok(reply) => Failed
                .on("request", format!("{model}: {}: {}", reply.status, error_message(&reply))),
        }
    }

    /// Returns what to add to a refusal of the key, if a credential of another kind may be meant.
    fn foreign_advice(&self, config: &Config) -> String {
        let base = &config.upstream.base;
        let key = self.authorization.iter().cloned().collect();
        // Agents send their own logins, which no request from here carries.
        let is_at_openai = base.host_kind() == HostKind::Provider("openai");
        let is_elsewhere = is_at_openai && !config.selects_by_credential();
        let login = (is_elsewhere && self.authorization.is_empty()).then_some(WrongBase::Login);
        let foreign = wrong_base(&key, base).or(login);
        foreign.map_or_else(String::new, |foreign| format!("; {}", foreign.sentence(base)))
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<LoopbackReply, String> {
        let limits = (REPLY_BYTES, PROBE_TIMEOUT);
        let sent = self.client.send(method, path, &self.authorization, body, limits);
        sent.await
    }
}

fn key_finding(status: StatusCode, has_key: bool, foreign: &str) -> Finding {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if has_key => Failed.on(
            "key",
            format!(
                "the upstream refuses the key ({status}); check {KEY_VARIABLE}, or upstream.api_key_file{foreign}"
            ),
        ),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Warned.on(
            "key",
            format!(
                "the upstream requires one, which the agent sends; set {KEY_VARIABLE} to test that of upstream.base{foreign}"
            ),
        ),
        status if status.is_success() && has_key => Passed.on("key", "accepted"),
        status if status.is_success() => {
            Passed.on("key", "none set here, and none required for GET /models")
        }
        status => Warned.on("key", format!("not tested: GET /models gives {status}")),
    }
}

fn clock_finding(headers: &HeaderMap) -> Finding {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok());
    let Some(theirs) = date.and_then(|date| httpdate::parse_http_date(date).ok()) else {
        return Passed.on("clock", "not compared: the upstream sends no date");
    };
    let now = SystemTime::now();
    let apart = now.duration_since(theirs).or_else(|_| theirs.duration_since(now));
    let seconds = apart.unwrap_or_default().as_secs();
    if seconds > CLOCK_SKEW_SECONDS {
        return Warned.on(
            "clock",
            format!("{seconds} s apart from the upstream's; set the time of this machine"),
        );
    }
    Passed.on("clock", "agrees with the upstream's")
}

/// Returns the message of an error in the API's format, or else the reply, shortened.
fn error_message(reply: &LoopbackReply) -> String {
    let message = reply.error_message();
    message.unwrap_or_else(|| shortened(&String::from_utf8_lossy(&reply.body), ERROR_CHARS))
}
