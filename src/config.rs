//! The settings as the program uses them, put together from their layers.

mod base;
mod file;
mod keys;
mod kinds;
mod layers;
mod listener;
mod models;
mod mounts;
mod names;
mod problems;
mod prompts;
mod proxies;
mod render;
mod setting;
mod settings;
mod shown;
mod store;
mod summary;
mod tables;
mod wishes;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use base::BaseUrl;
pub(crate) use base::CHAT;
use http::HeaderValue;
pub use keys::ClientTokens;
pub(crate) use layers::{Layers, ResolvedSettings};
pub use listener::TlsFiles;
pub use mounts::Mount;
pub(crate) use names::unknown_variables;
pub use proxies::{Proxies, ProxyUrl};
pub(crate) use render::{default_toml, report, report_json, secret_variables, settings_markdown};
pub(crate) use setting::AnySetting;
use setting::Setting;
pub(crate) use settings::settings_with_flags;
pub(crate) use shown::redacted_url as shown_url;
pub use store::{CallerIdentity, RedisUrl, ScopeSecret, StoreConfig, StoreLocation};
pub use summary::{PlacementSetting, SummaryConfig, SummaryEndpoint, SummaryModel, SummaryStyle};

use crate::error::Problem;
use crate::rewrite::overflow::ClassifierRules;
use crate::rewrite::policy::CompactionSettings;
use crate::rewrite::tokens::Tokens;
pub(crate) use kinds::ChoiceSetting;
use models::ModelPattern;
use problems::Problems;
use settings::conversations;

/// Everything a proxy needs to know. Made by [`Config::default_with`] or from the command line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The address clients are told.
    pub listen: SocketAddr,
    /// What clients are served in TLS with; none if they are served in plain HTTP.
    pub tls: Option<TlsFiles>,
    /// What clients must show; none if nobody is asked.
    pub client_tokens: ClientTokens,
    /// Whether chats are read at all: not with everything switched off that is done with them.
    pub mode: Mode,
    /// Where requests go.
    pub upstream: UpstreamConfig,
    /// Where those under certain paths go instead; the longest path comes first.
    pub mounts: Vec<Mount>,
    /// What may be held, and how much of it.
    pub limits: Limits,
    /// How long requests under way may take to end after the signal to stop.
    pub drain_timeout: Duration,
    /// How long after that signal connections are still taken.
    pub drain_delay: Duration,
    /// Where `longhaul serve` tells of itself.
    pub admin: AdminListener,
    /// Whether the text of summaries is shown there.
    pub admin_show_content: bool,
    /// The model that says there what conversations are called; none if nobody does.
    pub title_model: Option<String>,
    /// What is written to standard error.
    pub log: LogConfig,
    /// What to do with conversations of models that have no conduct of their own.
    pub compaction: CompactionSettings,
    /// What an overflow is known by.
    pub overflow_rules: ClassifierRules,
    /// What such a model is taken to hold where it is set, and else one of which nobody says anything.
    pub window: Tokens,
    /// Who says so.
    pub window_origin: WindowOrigin,
    /// The same for models that have their own, in the order in which they are looked through.
    models: Vec<(ModelPattern, ModelSettings<'static>)>,
    /// Who writes summaries, and how long a request may wait for one.
    pub summary: SummaryConfig,
    /// Where records are kept, for whom and for how long.
    pub store: StoreConfig,
    /// Whether replies say what was done to their requests.
    pub report_headers: bool,
}

/// What is done with the conversations of one model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelSettings<'c> {
    /// What to do with them.
    pub compaction: Cow<'c, CompactionSettings>,
    /// What the model is taken to hold where nothing better is known.
    pub window: Tokens,
    /// Who says so.
    pub window_origin: Cow<'c, WindowOrigin>,
}

impl ModelSettings<'_> {
    /// The window that the operator has set, if any.
    pub(crate) fn configured_window(&self) -> Option<Tokens> {
        self.window_origin.if_configured(self.window)
    }
}

/// Who says what a model holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WindowOrigin {
    /// Nobody: a number that most models hold.
    Default,
    /// The profile.
    Profile,
    /// The setting, which came from here.
    Setting(String),
}

impl WindowOrigin {
    /// The `window`, if it was set.
    fn if_configured(&self, window: Tokens) -> Option<Tokens> {
        match self {
            Self::Default | Self::Profile => None,
            Self::Setting(_) => Some(window),
        }
    }
}

/// Where requests go, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// The base URL that the agent would have used.
    pub base: BaseUrl,
    /// Whether HTTP/2 is offered.
    pub http2: Http2,
    /// What is sent in place of the client's own credentials.
    pub authorization: Option<HeaderValue>,
    /// PEM certificates trusted beside the machine's own.
    pub ca_file: Option<PathBuf>,
    /// What lies between, if anything does.
    pub proxies: Proxies,
    /// How long name, connection and TLS session may take together.
    pub connect_timeout: Duration,
    /// Whether it is asked what its models hold.
    pub query_windows: bool,
}

/// Bounds on what one process holds.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one chat body; a larger one is streamed through unread.
    pub body_bytes: u64,
    /// Bytes of all chat bodies held at once; what does not fit is streamed through unread.
    pub buffered_bytes: u64,
    /// Client connections at once; more wait to be accepted.
    pub connections: u32,
}

/// Where a process tells of itself: whether it is well, what it has counted, how it is set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdminListener {
    /// Here, for that was asked.
    Required(SocketAddr),
    /// Here if it is free: nobody asked for it.
    IfFree(SocketAddr),
    /// Nowhere.
    Off,
}

/// What is written to standard error.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LogConfig {
    /// The least important line still written.
    pub level: LogLevel,
    /// For people or for machines.
    pub format: LogFormat,
}

/// Whether chats are read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Mode {
    /// A plain wire: no body is held or parsed.
    Off,
    /// Chats are read, and changed where that helps.
    On,
    /// Chats are read and what `On` would do is worked out, but nothing is changed.
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

/// The least important log line still written.
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

/// How log lines are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl ChoiceSetting for LogFormat {
    const ALL: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

impl Config {
    /// The built-in defaults with some settings changed, each a key and its value as text
    /// (`("upstream.base", "http://127.0.0.1:9000/v1")`).
    ///
    /// # Errors
    /// A Problem for each key or value that is wrong.
    pub fn default_with<'a>(
        changes: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Vec<Problem>> {
        let mut layers = Layers::default();
        for (key, value) in changes {
            layers.set(key, value);
        }
        Self::from_resolved(&layers.resolve()?)
    }

    /// What is done with conversations of `model`: as the first table that matches it says.
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

    /// Every place that requests go to.
    pub(crate) fn upstream_bases(&self) -> impl Iterator<Item = &BaseUrl> {
        let mounted = self.mounts.iter().map(|mount| &mount.base);
        mounted.chain([&self.upstream.base])
    }

    /// The window that the operator has set for models without their own, if any.
    pub(crate) fn configured_window(&self) -> Option<Tokens> {
        self.window_origin.if_configured(self.window)
    }

    /// Reads every setting out of what the layers came to.
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

/// Values that stand alone, each of which was checked when the layers were put together.
struct SettingReader<'p> {
    found: &'p ResolvedSettings,
    problems: &'p mut Problems,
}

impl SettingReader<'_> {
    fn read<T>(&mut self, setting: &Setting<T>) -> Option<T> {
        self.problems.ok_or_record(self.found.value(setting))
    }
}

/// What `found` says of conversations.
fn model_settings(found: &ResolvedSettings) -> Result<ModelSettings<'static>, Problem> {
    let wishes = wishes::compaction_settings(found)?;
    let (window, source) = wishes::assumed_window(found, wishes.profile)?;
    Ok(ModelSettings {
        compaction: Cow::Owned(wishes),
        window,
        window_origin: Cow::Owned(source),
    })
}
