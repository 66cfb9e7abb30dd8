//! Settings whose value is one of a few words.

use longhaul_core::dialect::Dialect;
use longhaul_core::policy::cache_price::CachePrice;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::{Profile, PruneTrigger};
use longhaul_core::pruning::placeholder::Placeholder;

/// A setting whose value is one of a few words.
pub(crate) trait ChoiceSetting: Copy + PartialEq + 'static {
    /// Each word with its value.
    const ALL: &'static [(&'static str, Self)];

    /// Returns the word for this value.
    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, value)| *value == self);
        named.map_or("", |(name, _)| name)
    }
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

/// Treatment of a request to speak the Responses API over a WebSocket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ResponsesWebSocket {
    /// The request is refused once, so that the client speaks HTTP.
    Refuse,
    /// The upstream decides, and longhaul reads nothing of the conversation.
    Tunnel,
}

impl ChoiceSetting for ResponsesWebSocket {
    const ALL: &'static [(&'static str, Self)] =
        &[("refuse", Self::Refuse), ("tunnel", Self::Tunnel)];
}

/// Whether agents can read originals, and how a line tells them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RecallSetting {
    /// By a tool of `longhaul mcp`.
    Mcp,
    /// Not at all.
    Off,
    /// By a URL, or by a command.
    Url,
}

impl ChoiceSetting for RecallSetting {
    const ALL: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("url", Self::Url), ("mcp", Self::Mcp)];
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
    /// [`Console`](Self::Console) on a terminal, [`Text`](Self::Text) elsewhere.
    Auto,
    /// Lines for people, without the fields that only machines read.
    Console,
    /// JSON, an object per line.
    Json,
    /// Every field as `name=value`.
    Text,
}

impl ChoiceSetting for LogFormat {
    const ALL: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("console", Self::Console),
        ("text", Self::Text),
        ("json", Self::Json),
    ];
}

/// Model that writes summaries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SummaryModel {
    /// The model with this name.
    Named(String),
    /// No model: digests replace old history.
    Disabled,
    /// The conversation's own model.
    SameAsConversation,
}

/// Form in which the summary model receives the history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummaryStyle {
    /// The conversation as forwarded, to reuse the provider's cache; only for summaries that no
    /// request waits for.
    Cached,
    /// A transcript.
    Transcript,
}

impl ChoiceSetting for SummaryStyle {
    const ALL: &'static [(&'static str, Self)] =
        &[("transcript", Self::Transcript), ("cached", Self::Cached)];
}

/// The API of a separate endpoint for summaries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummaryApi {
    /// The API of each conversation.
    SameAsConversation,
    /// This API.
    Fixed(Dialect),
}

impl ChoiceSetting for SummaryApi {
    const ALL: &'static [(&'static str, Self)] = &[
        ("same", Self::SameAsConversation),
        ("chat-completions", Self::Fixed(Dialect::ChatCompletions)),
        ("messages", Self::Fixed(Dialect::Messages)),
        ("responses", Self::Fixed(Dialect::Responses)),
    ];
}

impl SummaryApi {
    /// Returns the dialect of the calls for a conversation of this dialect.
    pub(crate) fn for_conversation(self, dialect: Dialect) -> Dialect {
        match self {
            Self::SameAsConversation => dialect,
            Self::Fixed(fixed) => fixed,
        }
    }
}

/// Placement of the text that replaces old history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PlacementSetting {
    /// A separate message, unless the model has refused one.
    Auto,
    /// Merged into the adjacent user messages.
    Merge,
    /// A separate message.
    Separate,
}

impl ChoiceSetting for PlacementSetting {
    const ALL: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("separate", Self::Separate),
        ("merge", Self::Merge),
    ];
}

impl PlacementSetting {
    /// Returns the placement to use before anything is learned.
    pub(super) fn initial_placement(self) -> Placement {
        match self {
            Self::Auto | Self::Separate => Placement::Separate,
            Self::Merge => Placement::Merged,
        }
    }
}

impl ChoiceSetting for Profile {
    const ALL: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("standard", Self::Standard),
        ("local", Self::Local),
        ("frugal", Self::Frugal),
    ];
}

impl ChoiceSetting for CachePrice {
    const ALL: &'static [(&'static str, Self)] = &[
        ("fiftieth", Self::Fiftieth),
        ("tenth", Self::Tenth),
        ("quarter", Self::Quarter),
        ("half", Self::Half),
    ];
}

impl ChoiceSetting for PruneTrigger {
    const ALL: &'static [(&'static str, Self)] = &[
        ("always", Self::Always),
        ("pressure", Self::Pressure),
        ("mark", Self::HardMark),
    ];
}

impl ChoiceSetting for Placeholder {
    const ALL: &'static [(&'static str, Self)] = &[
        ("fixed", Self::Fixed),
        ("fixed-index", Self::FixedIndex),
        ("described", Self::Described),
        ("index", Self::Index),
    ];
}
