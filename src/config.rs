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

pub use base::Base;
pub(crate) use base::CHAT;
use http::HeaderValue;
pub use keys::ClientTokens;
pub(crate) use layers::{Layers, Resolved};
pub use listener::TlsFiles;
pub use mounts::Mount;
pub(crate) use names::strangers;
pub use proxies::{Proxies, ProxyUrl};
pub(crate) use render::{defaults, report, report_json, secrets, table};
pub(crate) use setting::Entry;
use setting::Setting;
pub(crate) use settings::flags;
pub(crate) use shown::url as shown_url;
pub use store::{RedisUrl, ScopeBy, ScopeSecret, StoreAt, StoreConfig};
pub use summary::{Placing, Style, Summariser, SummaryConfig, SummaryEndpoint};

use crate::error::Problem;
use crate::rewrite::overflow::Rules;
use crate::rewrite::policy::Wishes;
use crate::rewrite::tokens::Tokens;
pub(crate) use kinds::Choice;
use models::Pattern;
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
    pub drain: Duration,
    /// How long after that signal connections are still taken.
    pub drain_delay: Duration,
    /// Where `longhaul serve` tells of itself.
    pub admin: AdminAt,
    /// Whether the text of summaries is shown there.
    pub admin_shows_content: bool,
    /// The model that says there what conversations are called; none if nobody does.
    pub title_model: Option<String>,
    /// What is written to standard error.
    pub log: Log,
    /// What to do with conversations of models that have no conduct of their own.
    pub wishes: Wishes,
    /// What an overflow is known by.
    pub rules: Rules,
    /// What such a model is taken to hold where it is set, and else one of which nobody says anything.
    pub window: Tokens,
    /// Who says so.
    pub window_source: WindowSource,
    /// The same for models that have their own, in the order in which they are looked through.
    models: Vec<(Pattern, Conduct<'static>)>,
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
pub struct Conduct<'c> {
    /// What to do with them.
    pub wishes: Cow<'c, Wishes>,
    /// What the model is taken to hold where nothing better is known.
    pub window: Tokens,
    /// Who says so.
    pub window_source: Cow<'c, WindowSource>,
}

impl Conduct<'_> {
    /// The window that the operator has set, if any.
    pub(crate) fn set_window(&self) -> Option<Tokens> {
        self.window_source.set(self.window)
    }
}

/// Who says what a model holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WindowSource {
    /// Nobody: a number that most models hold.
    Default,
    /// The profile.
    Profile,
    /// The setting, which came from here.
    Setting(String),
}

impl WindowSource {
    /// The `window`, if it was set.
    fn set(&self, window: Tokens) -> Option<Tokens> {
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
    pub base: Base,
    /// Whether HTTP/2 is offered.
    pub http2: Http2,
    /// What is sent in place of the client's own credentials.
    pub authorization: Option<HeaderValue>,
    /// PEM certificates trusted beside the machine's own.
    pub ca_file: Option<PathBuf>,
    /// What lies between, if anything does.
    pub proxies: Proxies,
    /// How long name, connection and TLS session may take together.
    pub connect: Duration,
    /// Whether it is asked what its models hold.
    pub ask: bool,
}

/// Bounds on what one process holds.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one chat body; a larger one is streamed through unread.
    pub body: u64,
    /// Bytes of all chat bodies held at once; what does not fit is streamed through unread.
    pub buffered: u64,
    /// Client connections at once; more wait to be accepted.
    pub connections: u32,
}

/// Where a process tells of itself: whether it is well, what it has counted, how it is set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdminAt {
    /// Here, for that was asked.
    Asked(SocketAddr),
    /// Here if it is free: nobody asked for it.
    IfFree(SocketAddr),
    /// Nowhere.
    Off,
}

/// What is written to standard error.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Log {
    /// The least important line still written.
    pub level: Level,
    /// For people or for machines.
    pub format: Format,
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

impl Choice for Mode {
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

impl Choice for Http2 {
    const ALL: &'static [(&'static str, Self)] = &[("off", Self::Off), ("auto", Self::Auto)];
}

/// The least important log line still written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the levels every logger has")]
pub enum Level {
    Debug,
    Error,
    Info,
    Off,
    Trace,
    Warn,
}

impl Choice for Level {
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
pub enum Format {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Choice for Format {
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
        Self::of(&layers.resolve()?)
    }

    /// What is done with conversations of `model`: as the first table that matches it says.
    pub fn conduct(&self, model: &str) -> Conduct<'_> {
        let own = self.models.iter().find(|(of, _)| of.matches(model));
        match own {
            Some((_, own)) => Conduct {
                wishes: Cow::Borrowed(&*own.wishes),
                window: own.window,
                window_source: Cow::Borrowed(&*own.window_source),
            },
            None => Conduct {
                wishes: Cow::Borrowed(&self.wishes),
                window: self.window,
                window_source: Cow::Borrowed(&self.window_source),
            },
        }
    }

    /// Every place that requests go to.
    pub(crate) fn bases(&self) -> impl Iterator<Item = &Base> {
        let mounted = self.mounts.iter().map(|mount| &mount.base);
        mounted.chain([&self.upstream.base])
    }

    /// The window that the operator has set for models without their own, if any.
    pub(crate) fn set_window(&self) -> Option<Tokens> {
        self.window_source.set(self.window)
    }

    /// Reads every setting out of what the layers came to.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn of(found: &Resolved) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        let general = problems.take(conduct(found));
        let models = problems.take_each(found.tables().iter().map(|table| {
            let conduct = conduct(&found.with(table))?;
            Ok((table.pattern.clone(), conduct))
        }));
        let listen = problems.take(listener::listen(found));
        let tls = problems.take(listener::tls(found));
        let client_tokens = problems.take(keys::client_tokens(found));
        let authorization = problems.take(keys::upstream(found));
        let proxies = problems.take(proxies::proxies(found));
        let mounts = problems.take(mounts::mounts(found));
        let admin = problems.take(listener::admin(found));
        let summary = problems.take(summary::summary(found));
        let store = problems.take(store::store(found));
        let read = || {
            let Conduct {
                wishes,
                window,
                window_source,
            } = general?;
            let acts = wishes.prune || wishes.proactive || wishes.recover;
            let mut value = Values {
                found,
                problems: &mut problems,
            };
            let mode = value.of(&settings::MODE)?;
            Some(Self {
                listen: listen?,
                tls: tls?,
                client_tokens: client_tokens?,
                mode: if acts { mode } else { Mode::Off },
                upstream: UpstreamConfig {
                    base: value.of(&settings::UPSTREAM_BASE)?,
                    http2: value.of(&settings::UPSTREAM_HTTP2)?,
                    authorization: authorization?,
                    ca_file: value.of(&settings::UPSTREAM_CA_FILE)?,
                    proxies: proxies?,
                    connect: value.of(&settings::UPSTREAM_CONNECT)?,
                    ask: value.of(&settings::UPSTREAM_ASK)?,
                },
                mounts: mounts?,
                limits: Limits {
                    body: value.of(&settings::LIMITS_BODY)?,
                    buffered: value.of(&settings::LIMITS_BUFFERED)?,
                    connections: value.of(&settings::LIMITS_CONNECTIONS)?,
                },
                drain: value.of(&settings::LIMITS_DRAIN)?,
                drain_delay: value.of(&settings::LIMITS_DRAIN_DELAY)?,
                admin: admin?,
                admin_shows_content: value.of(&settings::ADMIN_SHOW_CONTENT)?,
                title_model: value.of(&settings::UI_TITLE_MODEL)?,
                log: Log {
                    level: value.of(&settings::LOG_LEVEL)?,
                    format: value.of(&settings::LOG_FORMAT)?,
                },
                wishes: wishes.into_owned(),
                rules: value.of(&conversations::OVERFLOW_PATTERNS)?,
                window,
                window_source: window_source.into_owned(),
                models: models?,
                summary: summary?,
                store: store?,
                report_headers: value.of(&settings::REPORT_HEADERS)?,
            })
        };
        read().ok_or_else(|| problems.into())
    }
}

/// Values that stand alone, each of which was checked when the layers were put together.
struct Values<'p> {
    found: &'p Resolved,
    problems: &'p mut Problems,
}

impl Values<'_> {
    fn of<T>(&mut self, setting: &Setting<T>) -> Option<T> {
        self.problems.take(self.found.value(setting))
    }
}

/// What `found` says of conversations.
fn conduct(found: &Resolved) -> Result<Conduct<'static>, Problem> {
    let wishes = wishes::wishes(found)?;
    let (window, source) = wishes::window(found, wishes.profile)?;
    Ok(Conduct {
        wishes: Cow::Owned(wishes),
        window,
        window_source: Cow::Owned(source),
    })
}
