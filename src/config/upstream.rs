//! Upstream settings: address, key, proxies and connection.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;

use super::base_url::BaseUrl;
use super::choices::Http2;
use super::keys::upstream_authorization;
use super::locations::Proxies;
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
