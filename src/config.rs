//! The program's configuration, resolved from its layers.

mod base_url;
mod choices;
mod compaction;
mod exposed_files;
mod file;
mod keys;
mod layers;
mod listener;
mod locations;
mod model_tables;
mod mounts;
mod parse;
mod problems;
mod quantities;
mod raw_value;
mod recall;
mod redact;
mod reload;
mod render;
mod resolved;
mod setting;
mod settings;
mod store;
mod suggestions;
mod summary;
mod tables;
mod upstream;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use ipnet::IpNet;

pub use base_url::BaseUrl;
pub(crate) use base_url::uri_origin;
pub(crate) use choices::ChoiceSetting;
pub use choices::{
    Http2, LogFormat, LogLevel, Mode, PlacementSetting, ResponsesWebSocket, SummaryApi,
    SummaryModel, SummaryStyle,
};
pub(crate) use exposed_files::exposed_file_warning;
pub use keys::ClientTokens;
pub(crate) use keys::bearer_header;
pub(crate) use layers::Layers;
pub use listener::{AdminListener, TlsFiles};
pub(crate) use listener::{own_origin, reachable_address};
pub use locations::{CallerIdentity, Proxies, ProxyUrl, RedisUrl, StoreLocation};
pub use mounts::Mount;
pub(crate) use problems::join_problems;
pub(crate) use recall::endpoint as recall_endpoint;
pub(crate) use redact::redacted_url as shown_url;
pub(crate) use render::{
    default_toml, minimal_toml, report, report_json, secret_variables, settings_markdown,
    settings_schema,
};
pub(crate) use resolved::ResolvedSettings;
pub(crate) use setting::Setting;
pub(crate) use settings::settings_with_flags;
pub use store::{ScopeSecret, StoreConfig};
pub(crate) use suggestions::{CONFIG_VARIABLE, disabling_variables, unknown_variables};
pub use summary::{SummaryConfig, SummaryEndpoint};
pub(crate) use upstream::CHATGPT_BASE;
pub use upstream::UpstreamConfig;

use crate::error::Problem;
use crate::models::{self, HostKind};
use longhaul_core::cost::caps::Caps;
use longhaul_core::cost::pricing::TokenPrices;
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::policy::{CompactionSettings, KeptText, Policy};
use longhaul_core::units::recall_id::RecallForm;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::TableWindow;
use model_tables::ModelPattern;
use problems::{all_of, read_all};

/// Complete configuration of a proxy, built by [`Config::default_with`] or from the command line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Address that clients connect to.
    pub listen: SocketAddr,
    /// Certificate and key for client TLS; `None` serves plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Tokens that clients must present; empty if no token is required.
    pub client_tokens: ClientTokens,
    /// Whether chats are read. Forced to [`Mode::Off`] if clearing, proactive compaction and
    /// overflow recovery are all disabled.
    pub mode: Mode,
    /// Whether a request that carries its own key may do more by its headers than the settings allow.
    pub headers_may_raise: bool,
    /// Whether gateways get smaller messages back from `POST /v1/compress`.
    pub compress_enabled: bool,
    /// Hosts at which a request for a Claude model without cache marks gets two.
    pub mark_hosts: Vec<String>,
    /// Treatment of requests to speak the Responses API over a WebSocket.
    pub responses_websocket: ResponsesWebSocket,
    /// Upstream for requests outside every mount.
    pub upstream: UpstreamConfig,
    /// Upstreams for particular path prefixes, longest path first.
    pub mounts: Vec<Mount>,
    /// Memory and connection limits.
    pub limits: Limits,
    /// Time that requests in flight get to finish after the stop signal.
    pub drain_timeout: Duration,
    /// Time after that signal during which new connections are still accepted.
    pub drain_delay: Duration,
    /// Listener for health, metrics and the dashboard in `longhaul serve`.
    pub admin: AdminListener,
    /// Whether the dashboard shows the text of summaries.
    pub admin_show_content: bool,
    /// Whether the dashboard takes commands.
    pub admin_commands: bool,
    /// The user's state folder, which the user's longhauls share; set by a command that serves or asks them.
    pub(crate) state_folder: Option<PathBuf>,
    /// Log output on standard error.
    pub log: LogConfig,
    /// Compaction settings for models without their own table.
    pub compaction: CompactionSettings,
    /// Caps on spending.
    pub caps: Caps,
    /// Rules that classify a reply as an overflow.
    pub overflow_rules: ClassifierRules,
    /// Context window for models without their own table: the configured one, or else the default
    /// for models of unknown size.
    pub window: Tokens,
    /// Place of the setting `window`, such as `env LONGHAUL_WINDOW`; `None` for a default.
    pub window_place: Option<String>,
    /// Host names under which requests may reach a listener for this machine, and whose pages may
    /// call it.
    pub allowed_hosts: Vec<String>,
    /// Whether only this machine can connect, and the operator has not opened the listener.
    pub is_for_this_machine: bool,
    /// Form of the lines by which agents read originals; `None` if recall is off.
    pub(crate) recall: Option<RecallForm>,
    /// Settings for particular models, matched in order.
    models: Vec<(ModelPattern, ModelSettings<'static>)>,
    /// Prices of particular models, matched in order.
    prices: Vec<(ModelPattern, TokenPrices)>,
    /// Texts that stay in the compacted conversations of particular models.
    kept: Vec<(ModelPattern, KeptText)>,
    /// Summary model, and how long a request may wait for a summary.
    pub summary: SummaryConfig,
    /// Record storage: location, scope and lifetime.
    pub store: StoreConfig,
    /// Files of keys and tokens that the settings name.
    secret_files: Vec<PathBuf>,
    /// Whether replies carry headers that report what was done to their requests.
    pub report_headers: bool,
}

/// Settings for the conversations of one model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelSettings<'c> {
    /// Compaction settings.
    pub compaction: Cow<'c, CompactionSettings>,
    /// Context window to assume unless a better source is available.
    pub window: Tokens,
    /// Place of the setting `window`; `None` for a default.
    pub window_place: Option<Cow<'c, str>>,
}

impl ModelSettings<'_> {
    /// Returns the window set by the operator, if any.
    pub(crate) fn configured_window(&self) -> Option<Tokens> {
        self.window_place.is_some().then_some(self.window)
    }
}

/// Memory and connection limits of one process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one chat body; a larger body is streamed through unread.
    pub body_bytes: u64,
    /// Bytes of all buffered chat bodies together; a body that exceeds them is streamed through
    /// unread.
    pub buffered_bytes: u64,
    /// Concurrent client connections; further ones wait to be accepted.
    pub connections: u32,
    /// Concurrent requests; further ones are refused.
    pub requests: u32,
    /// Header fields and query parameters that authenticate a caller, in addition to the known ones.
    pub credentials: Vec<String>,
    /// Reverse proxies whose `X-Forwarded-For` names the client.
    pub trusted_proxies: Vec<IpNet>,
}

/// Log output on standard error.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LogConfig {
    /// Minimum severity that is written.
    pub level: LogLevel,
    /// Line format.
    pub format: LogFormat,
}

impl Config {
    /// Builds the default configuration with some settings changed, each a key and its value as
    /// text (`("upstream.base", "http://127.0.0.1:9000/v1")`).
    ///
    /// # Errors
    /// A [`Problem`] for each invalid key or value.
    pub fn default_with<'a>(
        changes: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Vec<Problem>> {
        let mut layers = Layers::default();
        for (key, value) in changes {
            layers.set(key, value);
        }
        Self::from_resolved(&layers.resolve()?)
    }

    /// Returns the settings for `model`: those of the first matching table, or the general ones.
    pub fn settings_for(&self, model: &str) -> ModelSettings<'_> {
        let own = self.models.iter().find(|(of, _)| of.matches(model));
        let (compaction, window, place) = match own {
            Some((_, own)) => (&*own.compaction, own.window, own.window_place.as_deref()),
            None => (&self.compaction, self.window, self.window_place.as_deref()),
        };
        ModelSettings {
            compaction: Cow::Borrowed(compaction),
            window,
            window_place: place.map(Cow::Borrowed),
        }
    }

    /// Returns the settings for the upstream that gets requests to `model`: that of the Messages API if only its
    /// provider has such models.
    pub(crate) fn for_upstream_of(&self, model: &str) -> Cow<'_, Self> {
        let has = |base: &BaseUrl| models::has_family(base.host_kind(), model);
        let moved =
            self.upstream.messages.as_ref().filter(|base| has(base) && !has(&self.upstream.base));
        moved.map_or(Cow::Borrowed(self), |base| {
            let mut config = self.clone();
            config.upstream.move_to(base.clone(), None);
            Cow::Owned(config)
        })
    }

    /// Returns the window that the table states for `model` at this upstream, if any.
    pub(crate) fn table_window(&self, model: &str) -> Option<TableWindow> {
        let found = models::look_up(self.upstream.base.host_kind(), model)?;
        Some(found.limits.table_window())
    }

    /// Returns the prices of `model` at this upstream: those that the operator set, or the listed ones.
    pub(crate) fn prices(&self, model: &str) -> Option<TokenPrices> {
        self.prices_at(self.upstream.base.authority().host(), model)
    }

    /// Returns the prices of `model` where summaries are written.
    pub(crate) fn summary_prices(&self, model: &str) -> Option<TokenPrices> {
        let endpoint = self.summary.endpoint.as_ref();
        let base = endpoint.map_or(&self.upstream.base, |endpoint| &endpoint.base);
        self.prices_at(base.authority().host(), model)
    }

    fn prices_at(&self, host: &str, model: &str) -> Option<TokenPrices> {
        let set = self.prices.iter().find(|(of, _)| of.matches(model));
        set.map(|(_, prices)| *prices).or_else(|| models::prices(host, model))
    }

    /// Returns the texts that stay in every compacted conversation of `model`.
    pub(crate) fn kept_texts(&self, model: &str) -> impl Iterator<Item = &KeptText> {
        let kept = self.kept.iter().filter(move |(of, _)| of.matches(model));
        kept.map(|(_, kept)| kept)
    }

    /// Returns the base URL of every upstream, mounts included.
    pub(crate) fn upstream_bases(&self) -> impl Iterator<Item = &BaseUrl> {
        let mounted = self.mounts.iter().map(|mount| &mount.base);
        let apart = self.upstream.messages.iter().chain(&self.upstream.login);
        mounted.chain(apart).chain([&self.upstream.base])
    }

    /// Returns this configuration for the upstream of `mount`, without any other upstream's key.
    pub(crate) fn for_mount(&self, mount: &Mount) -> Self {
        self.only_at(&mount.base, mount.authorization.clone())
    }

    fn only_at(&self, base: &BaseUrl, authorization: Option<HeaderValue>) -> Self {
        let mut own = self.clone();
        own.upstream.move_to(base.clone(), authorization);
        own.mounts = Vec::new();
        own
    }

    /// Returns this configuration for an upstream set apart at `base`, without the other upstream's key.
    /// `None` if `base` is.
    pub(crate) fn for_upstream(&self, base: Option<&BaseUrl>) -> Option<Self> {
        Some(self.only_at(base?, None))
    }

    /// Whether the form of a credential selects among the built-in upstreams: nobody has set an upstream,
    /// a mount, a key or client tokens.
    pub(crate) fn selects_by_credential(&self) -> bool {
        self.upstream.login.is_some()
            && self.upstream.authorization.is_none()
            && self.mounts.is_empty()
            && self.client_tokens.is_empty()
    }

    /// Returns warnings about upstreams that receive no credentials at all: if clients present
    /// tokens, longhaul strips their credentials. A server on this machine or its network may need
    /// none, so it is left out.
    pub(crate) fn keyless_upstream_warnings(&self) -> impl Iterator<Item = String> {
        let key = settings::UPSTREAM_API_KEY_FILE.key;
        let own = (&self.upstream.base, &self.upstream.authorization, key);
        let mounts = self.mounts.iter().map(|mount| {
            let key = "the api_key_file of its mount";
            (&mount.base, &mount.authorization, key)
        });
        let all = mounts.chain([own]).filter(|(base, key, _)| {
            !self.client_tokens.is_empty() && key.is_none() && base.host_kind() != HostKind::Local
        });
        all.map(|(base, _, key)| {
            format!(
                "{} receives no API key: clients send a token instead of their own key, and the \
                 token is not forwarded; set {key}",
                base.origin()
            )
        })
    }

    /// Returns the window that the operator set for models without their own table, if any.
    pub(crate) fn configured_window(&self) -> Option<Tokens> {
        self.window_place.is_some().then_some(self.window)
    }

    pub(crate) fn from_resolved(found: &ResolvedSettings) -> Result<Self, Vec<Problem>> {
        let tables = found.tables_of(&model_tables::MODEL_TABLES);
        let models = tables.iter().map(|table| {
            let settings = model_settings(&found.with_table(table))?;
            Ok((table.value(&model_tables::MODEL_MATCH)?, settings))
        });
        read_all! {
            general = model_settings(found);
            models = all_of(models);
            prices = all_of(found.tables_of(&model_tables::PRICE_TABLES).iter().map(model_tables::build_price));
            kept = all_of(found.tables_of(&model_tables::KEEP_TABLES).iter().map(model_tables::build_kept));
            listen = listener::listen_address(found);
            secret_files = exposed_files::secret_files(found);
            tls = listener::tls_files(found);
            client_tokens = keys::from_file(found, &settings::CLIENT_TOKENS_FILE, ClientTokens::read);
            upstream = upstream::read_upstream(found);
            mounts = mounts::build_mounts(found);
            admin = listener::admin_listener(found);
            summary = summary::read_summary(found);
            store = store::read_store(found);
        }
        let compaction = general.compaction.into_owned();
        let acts = compaction.prune || compaction.proactive || compaction.recover;
        let mode = found.value(&settings::MODE)?;
        Ok(Self {
            listen,
            secret_files,
            tls,
            client_tokens: client_tokens.unwrap_or_default(),
            allowed_hosts: found.value(&settings::ALLOWED_HOSTS)?,
            is_for_this_machine: listener::is_loopback(listen)
                && !found.value(&settings::PUBLIC)?,
            mode: if acts { mode } else { Mode::Off },
            headers_may_raise: found.value(&settings::HEADERS_MAY_RAISE)?,
            compress_enabled: found.value(&settings::COMPRESS_ENABLED)?,
            mark_hosts: found.value(&settings::MARK_HOSTS)?,
            responses_websocket: found.value(&settings::RESPONSES_WEBSOCKET)?,
            upstream,
            mounts,
            limits: Limits {
                body_bytes: found.value(&settings::LIMITS_BODY)?,
                buffered_bytes: found.value(&settings::LIMITS_BUFFERED)?,
                connections: found.value(&settings::LIMITS_CONNECTIONS)?,
                requests: found.value(&settings::LIMITS_REQUESTS)?,
                credentials: found.value(&settings::LIMITS_CREDENTIALS)?,
                trusted_proxies: found.value(&settings::LIMITS_TRUSTED_PROXIES)?,
            },
            drain_timeout: found.value(&settings::LIMITS_DRAIN)?,
            drain_delay: found.value(&settings::LIMITS_DRAIN_DELAY)?,
            admin,
            state_folder: None,
            admin_show_content: found.value(&settings::ADMIN_SHOW_CONTENT)?,
            admin_commands: found.value(&settings::ADMIN_COMMANDS)?,
            log: LogConfig {
                level: found.value(&settings::LOG_LEVEL)?,
                format: found.value(&settings::LOG_FORMAT)?,
            },
            compaction,
            overflow_rules: found.value(&settings::OVERFLOW_PATTERNS)?,
            window: general.window,
            window_place: general.window_place.map(Cow::into_owned),
            recall: recall::form(found, listen)?,
            models,
            prices,
            kept,
            summary,
            store,
            report_headers: found.value(&settings::REPORT_HEADERS)?,
            caps: Caps {
                conversation: found.value(&settings::CAP_CONVERSATION)?,
                day: found.value(&settings::CAP_DAY)?,
            },
        })
    }
}

fn model_settings(found: &ResolvedSettings) -> Result<ModelSettings<'static>, Problem> {
    let compaction = compaction::compaction_settings(found)?;
    let window = found.value(&settings::WINDOW)?;
    let place = window.map(|_| found.origin(&settings::WINDOW).to_string());
    Ok(ModelSettings {
        window: window.unwrap_or_else(|| Policy::default_window(compaction.profile)),
        compaction: Cow::Owned(compaction),
        window_place: place.map(Cow::Owned),
    })
}
