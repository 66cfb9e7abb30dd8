//! The proxy as the lab uses it. The program implements [`ProxySettings`] over its own configuration.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use longhaul_core::cost::pricing::TokenPrices;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::usage::Usage;
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::units::tokens::Tokens;

/// Settings of one proxy.
pub type Settings = Box<dyn ProxySettings>;

/// A proxy that starts.
pub type Starting<'a> = Pin<Box<dyn Future<Output = io::Result<RunningProxy>> + 'a>>;

/// Returns the default settings with these changes, each a key and a value. Fails if a value is invalid;
/// the text says why.
pub type DefaultsWith = fn(&[(&str, &str)]) -> Result<Settings, String>;

/// Returns the token counts of a whole reply to a call for a summary, if stated. The outer `None` stands for a
/// refusal under a status of success.
pub type SummaryReader = fn(Dialect, &[u8]) -> Option<Option<Usage>>;

/// The settings of a proxy, and the proxy under these settings.
pub trait ProxySettings {
    /// Whether the mode is off, so that longhaul changes no request.
    fn is_off(&self) -> bool;

    /// Whether a model writes summaries.
    fn has_summary_model(&self) -> bool;

    /// Returns the model of summaries, if the settings name one.
    fn summary_model(&self) -> Option<PricedModel>;

    /// Returns the settings whose upstream is the endpoint of summaries, and its key. `None` if the
    /// upstream itself receives the calls for summaries.
    fn summary_endpoint(&self) -> Option<(Settings, Option<String>)>;

    /// Returns window and prices of a model without a conversation.
    fn known_model(&self, name: &str) -> KnownModel;

    /// Returns a model of the same provider whose window holds `least` tokens, if the table has one.
    fn wider_model(&self, name: &str, least: Tokens) -> Option<&'static str>;

    /// Returns the rules that recognise refusals for the size.
    fn overflow_rules(&self) -> ClassifierRules;

    /// Whether the settings have a key for the upstream.
    fn has_key(&self) -> bool;

    /// Returns the base URLs of the upstream, without credentials.
    fn upstream_bases(&self) -> UpstreamBases;

    /// Returns the settings with another upstream, as window and prices depend on the provider.
    fn at_upstream(&self, base: &str) -> Settings;

    /// Starts the proxy on a free port of loopback. Fails if loopback cannot be used, or the proxy refuses
    /// the settings.
    fn start(&self, role: ProxyRole<'_>) -> Starting<'_>;

    /// Returns the reader of replies to calls for summaries.
    fn summary_reader(&self) -> SummaryReader;
}

/// The role of a proxy.
#[derive(Clone, Copy, Debug)]
pub enum ProxyRole<'a> {
    /// Serves under the settings as they are.
    AsConfigured,
    /// Serves under the settings as they are, with a dashboard that opens in the user's browser.
    WithPage,
    /// Forwards everything unchanged to the upstream of the settings, and applies its credentials.
    PassThrough,
    /// Replays a session to a server in this process, cut off from everything else.
    Replay(ReplayTarget<'a>),
}

/// The server that a replayed session reaches.
#[derive(Clone, Copy, Debug)]
pub struct ReplayTarget<'a> {
    /// Base URL of the server.
    pub base: &'a str,
    /// The model of the session, whose window the proxy takes as its setting.
    pub model: &'a KnownModel,
    /// Limits of summary calls, if not those of the settings. The server then also receives the calls for
    /// a configured endpoint of summaries.
    pub summaries: Option<SummaryLimits>,
}

/// Limits of the calls for summaries.
#[derive(Clone, Copy, Debug)]
pub struct SummaryLimits {
    /// Time that a request waits for its summary.
    pub wait: Duration,
    /// Calls for one conversation in an hour.
    pub per_hour: usize,
}

/// A model and its prices.
#[derive(Clone, Debug)]
pub struct PricedModel {
    /// The model's name at its upstream.
    pub name: String,
    /// The prices, if known.
    pub prices: Option<TokenPrices>,
}

/// Window and prices of a model.
#[derive(Clone, Debug)]
pub struct KnownModel {
    /// The window by which longhaul clears and compacts, in estimated tokens.
    pub window: Tokens,
    /// The window of the model itself, in its own tokens.
    pub actual_window: Tokens,
    /// The source of the window in a word or two.
    pub window_source: String,
    /// The largest window that a setting or the table states, in the model's own tokens. `None` if the window is
    /// assumed.
    pub largest_window: Option<Tokens>,
    /// The prices, if known.
    pub prices: Option<TokenPrices>,
}

/// The base URLs of an upstream, without credentials.
#[derive(Clone, Debug)]
pub struct UpstreamBases {
    /// Base URL for all APIs.
    pub base: String,
    /// Base URL for the Messages API, if that API has an upstream of its own.
    pub messages: Option<String>,
}

/// A proxy on a free port of loopback, stopped on drop.
pub struct RunningProxy {
    /// Address of its listener.
    pub address: SocketAddr,
    _guard: Box<dyn Send + Sync>,
}

impl RunningProxy {
    /// Creates a value for the proxy at `address`, which stops when `guard` is dropped.
    pub fn new(address: SocketAddr, guard: impl Send + Sync + 'static) -> Self {
        Self { address, _guard: Box::new(guard) }
    }
}

impl Debug for RunningProxy {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_struct("RunningProxy").field("address", &self.address).finish_non_exhaustive()
    }
}
