//! Upstream settings: address, key, proxies and connection.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderValue, Uri};

use super::base_url::BaseUrl;
use super::choices::Http2;
use super::keys::upstream_authorization;
use super::redact::redacted_url;
use super::resolved::ResolvedSettings;
use super::settings;
use crate::error::Problem;
use crate::models::HostKind;

/// Base URL of Anthropic's API.
const ANTHROPIC_BASE: &str = "https://api.anthropic.com/v1";

/// Base URL of the backend that accepts `ChatGPT` logins. `OpenAI`'s API refuses them.
pub(crate) const CHATGPT_BASE: &str = "https://chatgpt.com/backend-api/codex";

/// Upstream address and connection settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// Base URL that the agent would have used.
    pub base: BaseUrl,
    /// Base URL for requests of the Messages API. `None` if `base` receives them.
    pub messages: Option<BaseUrl>,
    /// Base URL for requests with a `ChatGPT` login. `None` if an upstream is set.
    pub login: Option<BaseUrl>,
    /// Whether HTTP/2 is offered.
    pub http2: Http2,
    /// Authorization header that replaces the client's own credentials.
    pub authorization: Option<HeaderValue>,
    /// Paths under the base that receive that header in addition to the model endpoints.
    pub key_paths: Vec<String>,
    /// PEM certificates trusted in addition to the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Proxies between longhaul and the upstream.
    pub proxies: Proxies,
    /// Timeout for name resolution, connection and TLS handshake together.
    pub connect_timeout: Duration,
    /// Protocols that a connection may switch to.
    pub upgrades: Vec<String>,
    /// Whether longhaul queries the upstream for the context windows of its models.
    pub query_windows: bool,
}

/// Reads the upstream's settings. Fails if its key cannot be read, or strangers could spend it.
pub(super) fn read_upstream(found: &ResolvedSettings) -> Result<UpstreamConfig, Problem> {
    let base = found.value(&settings::UPSTREAM_BASE)?;
    let is_any_set =
        found.is_set(&settings::UPSTREAM_BASE) || found.is_set(&settings::UPSTREAM_MESSAGES);
    Ok(UpstreamConfig {
        login: if is_any_set { None } else { Some(built_in(CHATGPT_BASE)?) },
        messages: messages_base(&base, found.value(&settings::UPSTREAM_MESSAGES)?)?,
        base,
        http2: found.value(&settings::UPSTREAM_HTTP2)?,
        authorization: upstream_authorization(found)?,
        key_paths: found.value(&settings::UPSTREAM_KEY_PATHS)?,
        ca_file: found.value(&settings::UPSTREAM_CA_FILE)?,
        proxies: Proxies {
            http: found.value(&settings::PROXY_HTTP)?,
            https: found.value(&settings::PROXY_HTTPS)?,
            all: found.value(&settings::PROXY_ALL)?,
            no_proxy: found.value(&settings::PROXY_EXCEPT)?.unwrap_or_default(),
        },
        connect_timeout: found.value(&settings::UPSTREAM_CONNECT)?,
        upgrades: found.value(&settings::UPSTREAM_UPGRADES)?,
        query_windows: found.value(&settings::UPSTREAM_ASK)?,
    })
}

/// Returns the base URL for requests of the Messages API: `set`, or Anthropic's if `base` is OpenAI's.
/// OpenAI has no such endpoint and must not receive Anthropic's keys.
fn messages_base(base: &BaseUrl, set: Option<BaseUrl>) -> Result<Option<BaseUrl>, Problem> {
    let is_openai = base.host_kind() == HostKind::Provider("openai");
    if set.is_none() && is_openai {
        return built_in(ANTHROPIC_BASE).map(Some);
    }
    Ok(set)
}

fn built_in(base: &str) -> Result<BaseUrl, Problem> {
    BaseUrl::parse(base).map_err(Problem::System)
}

impl UpstreamConfig {
    /// Moves all requests to `base`, whatever their API and credential.
    pub(crate) fn move_to(&mut self, base: BaseUrl, authorization: Option<HeaderValue>) {
        self.base = base;
        self.authorization = authorization;
        self.messages = None;
        self.login = None;
    }
}

/// Proxies for reaching upstreams.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Proxies {
    /// Proxy for http:// upstreams.
    pub http: Option<ProxyUrl>,
    /// Proxy for https:// upstreams.
    pub https: Option<ProxyUrl>,
    /// Proxy for both schemes, unless one has its own.
    pub all: Option<ProxyUrl>,
    /// Hosts that are reached without a proxy.
    pub no_proxy: String,
}

/// URL of a proxy. It may contain a password, which `Debug` leaves out.
#[derive(Clone, Eq, PartialEq)]
pub struct ProxyUrl(String);

impl ProxyUrl {
    /// Returns the URL with the password. The scheme is one of `http`, `https`, `socks5` and
    /// `socks5h`.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Parses a proxy URL. The error states what was expected and leaves out the text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected a URL like http://proxy.example:3128, with the scheme \
                                http, https or socks5";
        let text = text.trim();
        let (scheme, place) = text.split_once("://").unwrap_or(("http", text));
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => "http",
            "https" => "https",
            // Unversioned `socks` has meant version 5 for decades.
            "socks" | "socks5" => "socks5",
            "socks5h" => "socks5h",
            _ => return Err(EXPECTED.into()),
        };
        let url = format!("{scheme}://{place}");
        let uri: Uri = url.parse().map_err(|_| EXPECTED)?;
        if uri.host().is_none_or(str::is_empty) {
            return Err(EXPECTED.into());
        }
        Ok(Self(url))
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted_url(&self.0))
    }
}

#[cfg(test)]
mod proxy_tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        let found = ProxyUrl::parse(text);
        assert_eq!(found.as_ref().ok().map(ProxyUrl::expose), expect, "{text}");
        let shown = format!("{found:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_proxy_is_a_url_or_a_host_and_a_port() {
        check("http://proxy:3128", Some("http://proxy:3128"));
        check(" proxy:3128 ", Some("http://proxy:3128"));
        check("HTTPS://proxy", Some("https://proxy"));
        check("socks://[::1]:1080/", Some("socks5://[::1]:1080/"));
        check("socks5h://proxy", Some("socks5h://proxy"));
    }

    #[test]
    fn a_password_is_kept_and_never_shown() {
        check("http://me:hunter2@proxy:1", Some("http://me:hunter2@proxy:1"));
        check("me:hunter2@proxy:1", Some("http://me:hunter2@proxy:1"));
        for wrong in ["socks4://hunter2", "ftp://me:hunter2@p", "http://", "http://hunter2 x"] {
            check(wrong, None);
        }
    }
}
