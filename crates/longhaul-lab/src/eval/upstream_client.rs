//! A client of the real upstream, through a private proxy that changes nothing.
//!
//! The proxy maps paths, connects, and applies the credentials of the settings, as for any agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::time::sleep;

use crate::error::LabError;
use crate::proxy::{ProxyRole, ProxySettings, RunningProxy, UpstreamBases};
use longhaul_console::loopback_client::{LoopbackClient, LoopbackReply};
use longhaul_core::dialect::Dialect;

/// The variable that holds the key.
pub(super) const KEY_VARIABLE: &str = "OPENAI_API_KEY";
/// Time limit for one answer. A long history takes a local model minutes.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum bytes of an answer. A streamed summary repeats some 200 bytes for each token.
const ANSWER_BYTES: usize = 16 << 20;
/// Maximum attempts for one call.
const ATTEMPTS: u32 = 4;
/// Longest pause before another attempt, in seconds.
const MAX_PAUSE: u64 = 60;

/// A client of one upstream.
pub(super) struct UpstreamClient {
    pub(super) bases: UpstreamBases,
    client: LoopbackClient,
    key: Option<Key>,
    /// Whether an upstream takes the key as a bearer token, though its API has another header for it.
    takes_bearer: AtomicBool,
    _proxy: RunningProxy,
}

/// The key, in the two forms that APIs expect.
struct Key {
    bearer: HeaderValue,
    plain: HeaderValue,
}

impl UpstreamClient {
    /// Starts a proxy for the upstream of `settings`. `key` authorises its calls. Fails if loopback
    /// or the settings cannot be used, or no header can carry the key.
    pub(super) async fn start(
        settings: &dyn ProxySettings,
        key: Option<&str>,
    ) -> Result<Self, LabError> {
        let key = key.map(Key::new).transpose()?;
        let proxy = settings.start(ProxyRole::PassThrough).await;
        let proxy = proxy.map_err(|error| LabError::Listen(error.to_string()))?;
        Ok(Self {
            bases: settings.upstream_bases(),
            client: LoopbackClient::new(proxy.address),
            key,
            takes_bearer: AtomicBool::new(false),
            _proxy: proxy,
        })
    }

    /// Returns the base URL for requests of `dialect`.
    pub(super) fn base_for(&self, dialect: Dialect) -> &str {
        let own = self.bases.messages.as_deref();
        own.filter(|_| dialect.facts().may_have_own_upstream).unwrap_or(&self.bases.base)
    }

    /// Sends a chat and returns the answer or refusal. Repeats a call that found the upstream busy or
    /// unreachable. Fails if no attempt received a whole reply; the text says why.
    pub(super) async fn send(
        &self,
        dialect: Dialect,
        body: &Bytes,
    ) -> Result<LoopbackReply, String> {
        let mut attempt = 1;
        loop {
            let sent = self.send_once(dialect, body).await;
            let pause = match &sent {
                Ok(reply) if is_temporary(reply.status) => requested_pause(&reply.headers),
                // A reply that is late or broke off may be billed.
                Ok(_) | Err(_) => return sent,
            };
            if attempt == ATTEMPTS {
                return sent;
            }
            let seconds = pause.unwrap_or(1 << attempt).min(MAX_PAUSE);
            sleep(Duration::from_secs(seconds)).await;
            attempt += 1;
        }
    }

    async fn send_once(&self, dialect: Dialect, body: &Bytes) -> Result<LoopbackReply, String> {
        let path = format!("/v1{}", dialect.path());
        let takes_bearer = self.takes_bearer.load(Ordering::Relaxed);
        let limits = (ANSWER_BYTES, ANSWER_TIMEOUT);
        let headers = self.headers(dialect, takes_bearer);
        let reply = self.client.send(Method::POST, &path, &headers, body.clone(), limits);
        let reply = reply.await?;
        let may_differ =
            !takes_bearer && dialect.facts().key_header.is_some() && self.key.is_some();
        if !may_differ || reply.status != StatusCode::UNAUTHORIZED {
            return Ok(reply);
        }
        // Some servers of this API take the key like those of the others.
        let headers = self.headers(dialect, true);
        let again = self.client.send(Method::POST, &path, &headers, body.clone(), limits).await?;
        if again.status == StatusCode::UNAUTHORIZED {
            return Ok(reply);
        }
        self.takes_bearer.store(true, Ordering::Relaxed);
        Ok(again)
    }

    fn headers(&self, dialect: Dialect, takes_bearer: bool) -> Vec<(HeaderName, HeaderValue)> {
        let required = dialect.facts().required_headers.iter();
        let mut headers: Vec<_> = required
            .map(|(name, value)| {
                let value = HeaderValue::from_static(value);
                (HeaderName::from_static(name), value)
            })
            .collect();
        // The key belongs to the upstream, not to another server for this API.
        let is_elsewhere = dialect.facts().may_have_own_upstream && self.bases.messages.is_some();
        if let Some(key) = self.key.as_ref().filter(|_| !is_elsewhere) {
            headers.push(match dialect.facts().key_header.filter(|_| !takes_bearer) {
                Some(name) => (HeaderName::from_static(name), key.plain.clone()),
                None => (AUTHORIZATION, key.bearer.clone()),
            });
        }
        headers
    }
}

impl Key {
    fn new(key: &str) -> Result<Self, LabError> {
        let header = |text: &str| {
            let value = HeaderValue::try_from(text);
            let mut value = value.map_err(|_| {
                let reason = format!("{KEY_VARIABLE} holds characters that no header can carry");
                LabError::CommandLine(reason)
            })?;
            value.set_sensitive(true);
            Ok(value)
        };
        Ok(Self { bearer: header(&format!("Bearer {key}"))?, plain: header(key)? })
    }
}

/// Whether a call with this status may succeed later.
fn is_temporary(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 429) || status.is_server_error()
}

/// Returns the seconds to wait, as the upstream states them.
fn requested_pause(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}
