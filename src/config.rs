//! The program's configuration, resolved from its layers.

pub(crate) mod base_url;
pub(crate) mod compaction;
mod file;
mod keys;
mod layers;
mod listener;
pub(crate) mod model_tables;
mod mounts;
pub(crate) mod parse;
mod problems;
mod prompts;
mod proxies;
pub(crate) mod redact;
mod render;
mod setting;
mod settings;
mod store;
pub(crate) mod suggestions;
mod summary;
mod tables;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use base_url::BaseUrl;
pub(crate) use base_url::CHAT;
use http::HeaderValue;
pub use keys::ClientTokens;
pub(crate) use layers::{Layers, ResolvedSettings};
pub use listener::TlsFiles;
pub use mounts::Mount;
pub use proxies::{Proxies, ProxyUrl};
pub(crate) use redact::redacted_url as shown_url;
pub(crate) use render::{default_toml, report, report_json, secret_variables, settings_markdown};
pub(crate) use setting::AnySetting;
use setting::Setting;
pub(crate) use settings::settings_with_flags;
pub use store::{CallerIdentity, RedisUrl, ScopeSecret, StoreConfig, StoreLocation};
pub(crate) use suggestions::unknown_variables;
pub use summary::{PlacementSetting, SummaryConfig, SummaryEndpoint, SummaryModel, SummaryStyle};

use crate::error::Problem;
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::policy::CompactionSettings;
use longhaul_core::units::tokens::Tokens;
use model_tables::ModelPattern;
pub(crate) use parse::ChoiceSetting;
use problems::Problems;
use settings::conversations;

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
    /// Whether chats are read. Forced to [`Mode::Off`] if pruning, proactive compaction and
    /// overflow recovery are all disabled.
    pub mode: Mode,
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
    /// Model that titles conversations on the dashboard; `None` generates no titles.
    pub title_model: Option<String>,
    /// Log output on standard error.
    pub log: LogConfig,
    /// Compaction settings for models without a table of their own.
    pub compaction: CompactionSettings,
    /// Rules that classify a reply as an overflow.
    pub overflow_rules: ClassifierRules,
    /// Context window for models without a table of their own: the configured one, or else the
    /// default for models of unknown size.
    pub window: Tokens,
    /// Origin of `window`.
    pub window_origin: WindowOrigin,
    /// Settings for particular models, matched in order.
    models: Vec<(ModelPattern, ModelSettings<'static>)>,
    /// Summary model, and how long a request may wait for a summary.
    pub summary: SummaryConfig,
    /// Record storage: location, scope and lifetime.
    pub store: StoreConfig,
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
    /// Origin of `window`.
    pub window_origin: Cow<'c, WindowOrigin>,
}

impl ModelSettings<'_> {
    /// Returns the window set by the operator, if any.
    pub(crate) fn configured_window(&self) -> Option<Tokens> {
        self.window_origin.if_configured(self.window)
    }
}

/// Origin of an assumed context window.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WindowOrigin {
    /// Built-in default: a size that most models support.
    Default,
    /// Default of the profile.
    Profile,
    /// The `window` setting, with its place (for example `env LONGHAUL_WINDOW`).
    Setting(String),
}

impl WindowOrigin {
    /// Returns `window` if the operator set it.
    fn if_configured(&self, window: Tokens) -> Option<Tokens> {
        match self {
            Self::Default | Self::Profile => None,
            Self::Setting(_) => Some(window),
        }
    }
}

/// Upstream address and connection settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// Base URL that the agent would have used.
    pub base: BaseUrl,
    /// Whether HTTP/2 is offered.
    pub http2: Http2,
    /// Authorization header that replaces the client's own credentials.
    pub authorization: Option<HeaderValue>,
    /// PEM certificates trusted in addition to the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Proxies between longhaul and the upstream.
    pub proxies: Proxies,
    /// Timeout for name resolution, connection and TLS handshake together.
    pub connect_timeout: Duration,
    /// Whether longhaul queries the upstream for the context windows of its models.
    pub query_windows: bool,
}

/// Memory and connection limits of one process.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one chat body; a larger body is streamed through unread.
    pub body_bytes: u64,
    /// Bytes of all buffered chat bodies together; a body that exceeds them is streamed through
    /// unread.
    pub buffered_bytes: u64,
    /// Concurrent client connections; further ones wait to be accepted.
    pub connections: u32,
}

/// Admin listener: health, metrics, settings and dashboard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdminListener {
    /// Binds this address and fails if it is taken: the operator set it.
    Required(SocketAddr),
    /// Binds this default address if it is free.
    IfFree(SocketAddr),
    /// No admin listener.
    Off,
}

/// Log output on standard error.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LogConfig {
    /// Least severe level that is written.
    pub level: LogLevel,
    /// Line format.
    pub format: LogFormat,
}

/// Whether chats are read and changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Mode {
    /// Passes every request through; no body is held or parsed.
    Off,
    /// Reads chats, and changes them when that helps.
    On,
    /// Reads chats and works out what `On` would do, but changes nothing.
    Shadow,
}

impl ChoiceSetting for Mode {
    const ALL: &'static [(&'static str, Self)] = &[
        ("on", Self::On),
        ("shadow", Self::Shadow),
        ("off", Self::Off),
    ];
}

/// Whether HTTP/2 is offered to the upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Http2 {
    /// Offered in the TLS handshake; the upstream chooses.
    Auto,
    /// HTTP/1.1 only.
    Off,
}

impl ChoiceSetting for Http2 {
    const ALL: &'static [(&'static str, Self)] = &[("off", Self::Off), ("auto", Self::Auto)];
}

/// Least severe log level that is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the levels every logger has")]
pub enum LogLevel {
    Debug,
    Error,
    Info,
    Off,
    Trace,
    Warn,
}

impl ChoiceSetting for LogLevel {
    const ALL: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LogFormat {
    /// JSON, an object per line.
    Json,
    /// Human-readable text.
    Text,
}

impl ChoiceSetting for LogFormat {
    const ALL: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
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
        match own {
            Some((_, own)) => ModelSettings {
                compaction: Cow::Borrowed(&*own.compaction),
                window: own.window,
                window_origin: Cow::Borrowed(&*own.window_origin),
            },
            None => ModelSettings {
                compaction: Cow::Borrowed(&self.compaction),
                window: self.window,
                window_origin: Cow::Borrowed(&self.window_origin),
            },
        }
    }

    /// Returns the base URL of every upstream, mounts included.
    pub(crate) fn upstream_bases(&self) -> impl Iterator<Item = &BaseUrl> {
        let mounted = self.mounts.iter().map(|mount| &mount.base);
        mounted.chain([&self.upstream.base])
    }

    /// Returns the window that the operator set for models without a table of their own, if any.
    pub(crate) fn configured_window(&self) -> Option<Tokens> {
        self.window_origin.if_configured(self.window)
    }

    /// Builds the configuration from the resolved layers.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn from_resolved(found: &ResolvedSettings) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        let general = problems.ok_or_record(model_settings(found));
        let models = problems.all_ok_or_record(found.model_tables().iter().map(|table| {
            let conduct = model_settings(&found.with_table(table))?;
            Ok((table.pattern.clone(), conduct))
        }));
        let listen = problems.ok_or_record(listener::listen_address(found));
        let tls = problems.ok_or_record(listener::tls_files(found));
        let client_tokens = problems.ok_or_record(keys::read_client_tokens(found));
        let authorization = problems.ok_or_record(keys::upstream_authorization(found));
        let proxies = problems.ok_or_record(proxies::read_proxies(found));
        let mounts = problems.ok_or_record(mounts::build_mounts(found));
        let admin = problems.ok_or_record(listener::admin_listener(found));
        let summary = problems.ok_or_record(summary::read_summary(found));
        let store = problems.ok_or_record(store::read_store(found));
        let read = || {
            let ModelSettings {
                compaction: wishes,
                window,
                window_origin: window_source,
            } = general?;
            let acts = wishes.prune || wishes.proactive || wishes.recover;
            let mut value = SettingReader {
                found,
                problems: &mut problems,
            };
            let mode = value.read(&settings::MODE)?;
            Some(Self {
                listen: listen?,
                tls: tls?,
                client_tokens: client_tokens?,
                mode: if acts { mode } else { Mode::Off },
                upstream: UpstreamConfig {
                    base: value.read(&settings::UPSTREAM_BASE)?,
                    http2: value.read(&settings::UPSTREAM_HTTP2)?,
                    authorization: authorization?,
                    ca_file: value.read(&settings::UPSTREAM_CA_FILE)?,
                    proxies: proxies?,
                    connect_timeout: value.read(&settings::UPSTREAM_CONNECT)?,
                    query_windows: value.read(&settings::UPSTREAM_ASK)?,
                },
                mounts: mounts?,
                limits: Limits {
                    body_bytes: value.read(&settings::LIMITS_BODY)?,
                    buffered_bytes: value.read(&settings::LIMITS_BUFFERED)?,
                    connections: value.read(&settings::LIMITS_CONNECTIONS)?,
                },
                drain_timeout: value.read(&settings::LIMITS_DRAIN)?,
                drain_delay: value.read(&settings::LIMITS_DRAIN_DELAY)?,
                admin: admin?,
                admin_show_content: value.read(&settings::ADMIN_SHOW_CONTENT)?,
                title_model: value.read(&settings::UI_TITLE_MODEL)?,
                log: LogConfig {
                    level: value.read(&settings::LOG_LEVEL)?,
                    format: value.read(&settings::LOG_FORMAT)?,
                },
                compaction: wishes.into_owned(),
                overflow_rules: value.read(&conversations::OVERFLOW_PATTERNS)?,
                window,
                window_origin: window_source.into_owned(),
                models: models?,
                summary: summary?,
                store: store?,
                report_headers: value.read(&settings::REPORT_HEADERS)?,
            })
        };
        read().ok_or_else(|| problems.into())
    }
}

/// Reader of single settings, whose values were checked when the layers were resolved.
struct SettingReader<'p> {
    found: &'p ResolvedSettings,
    problems: &'p mut Problems,
}

impl SettingReader<'_> {
    fn read<T>(&mut self, setting: &Setting<T>) -> Option<T> {
        self.problems.ok_or_record(self.found.value(setting))
    }
}

/// Reads the model settings from `found`.
fn model_settings(found: &ResolvedSettings) -> Result<ModelSettings<'static>, Problem> {
    let wishes = compaction::compaction_settings(found)?;
    let (window, source) = compaction::assumed_window(found, wishes.profile)?;
    Ok(ModelSettings {
        compaction: Cow::Owned(wishes),
        window,
        window_origin: Cow::Owned(source),
    })
}
