//! Settings whose value is one of a few words.

use serde::{Deserialize, Serialize};

use longhaul_core::dialect::Dialect;
use longhaul_core::policy::cache_price::CachePrice;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::{Profile, PruneTrigger};
use longhaul_core::pruning::placeholder::Placeholder;

/// A setting whose value is one of a few words.
pub(crate) trait ChoiceSetting: Copy + PartialEq + 'static {
    /// Each word with its value.
    const ALL: &'static [(&'static str, Self)];

    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, value)| *value == self);
        named.map_or("", |(name, _)| name)
    }

    /// Returns the words, in the order in which users read them.
    fn words() -> Vec<&'static str> {
        Self::ALL.iter().map(|(word, _)| *word).collect()
    }
}

/// Gives each value of an enum its word, in the order in which users read the words.
macro_rules! words {
    ($($name:ident { $($value:ident = $word:literal),+ })+) => {$(
        impl ChoiceSetting for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$value)),+];
        }
    )+};
}

/// Declares enums with their words.
macro_rules! choices {
    ($($(#[$of:meta])* $visible:vis enum $name:ident {
        $($(#[$about:meta])* $value:ident = $word:literal,)+
    })+) => {$(
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        $visible enum $name {
            $($(#[$about])* $value,)+
        }

        words! { $name { $($value = $word),+ } }
    )+};
}

choices! {
    /// Whether chats are read and changed. A later mode does less.
    #[derive(Deserialize, Ord, PartialOrd, Serialize)]
    #[serde(rename_all = "lowercase")]
    #[non_exhaustive]
    pub enum Mode {
        /// Reads chats, and changes them when that helps.
        On = "on",
        /// Reads chats and computes what `On` would do, but changes nothing.
        Shadow = "shadow",
        /// Passes every request through; no body is held or parsed.
        Off = "off",
    }

    /// Whether HTTP/2 is offered to the upstream.
    #[non_exhaustive]
    pub enum Http2 {
        /// HTTP/1.1 only.
        Off = "off",
        /// Offered in the TLS handshake; the upstream chooses.
        Auto = "auto",
    }

    /// Treatment of a request to speak the Responses API over a WebSocket.
    #[non_exhaustive]
    pub enum ResponsesWebSocket {
        /// The request is refused once, so that the client speaks HTTP.
        Refuse = "refuse",
        /// The upstream decides, and longhaul reads nothing of the conversation.
        Tunnel = "tunnel",
    }

    /// Whether agents can read originals, and how.
    pub(crate) enum RecallSetting {
        /// Not at all.
        Off = "off",
        /// By a URL, or by a command.
        Url = "url",
        /// By a tool of `longhaul mcp`.
        Mcp = "mcp",
    }

    /// Minimum severity that is logged.
    #[non_exhaustive]
    #[expect(missing_docs, reason = "the levels every logger has")]
    pub enum LogLevel {
        Off = "off",
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }

    /// Format of log lines.
    #[non_exhaustive]
    pub enum LogFormat {
        /// [`Console`](Self::Console) on a terminal, [`Text`](Self::Text) elsewhere.
        Auto = "auto",
        /// Lines for people, without the fields that only machines read.
        Console = "console",
        /// Every field as `name=value`.
        Text = "text",
        /// JSON, an object per line.
        Json = "json",
    }

    /// Form in which the summary model receives the history.
    pub enum SummaryStyle {
        /// A transcript.
        Transcript = "transcript",
        /// The conversation as forwarded, to reuse the provider's cache; only for summaries that no
        /// request waits for.
        Cached = "cached",
    }

    /// Placement of the text that replaces old history.
    pub enum PlacementSetting {
        /// A separate message, unless the model has refused one.
        Auto = "auto",
        /// A separate message.
        Separate = "separate",
        /// Merged into the adjacent user messages.
        Merge = "merge",
    }
}

/// Model that writes summaries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SummaryModel {
    /// The model with this name.
    Named(String),
    /// No model: digests replace old history.
    Disabled,
    /// The provider's own compaction, where its API has one; elsewhere the conversation's own model.
    Provider,
    /// The conversation's own model.
    SameAsConversation,
}

impl SummaryModel {
    /// Returns the name of the model; `None` unless the settings name one.
    pub(crate) fn name(&self) -> Option<&str> {
        if let Self::Named(name) = self { Some(name) } else { None }
    }
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
    #[expect(clippy::indexing_slicing, reason = "the compiler evaluates the indices")]
    const ALL: &'static [(&'static str, Self)] = &{
        let mut all = [("same", Self::SameAsConversation); Dialect::ALL.len() + 1];
        let mut at = 0;
        while at < Dialect::ALL.len() {
            let dialect = Dialect::ALL[at];
            at += 1;
            all[at] = (dialect.name(), Self::Fixed(dialect));
        }
        all
    };
}

impl SummaryApi {
    pub(crate) fn for_conversation(self, dialect: Dialect) -> Dialect {
        match self {
            Self::SameAsConversation => dialect,
            Self::Fixed(fixed) => fixed,
        }
    }
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

words! {
    Profile { Auto = "auto", Standard = "standard", Local = "local", Frugal = "frugal" }
    CachePrice { Fiftieth = "fiftieth", Tenth = "tenth", Quarter = "quarter", Half = "half" }
    PruneTrigger { Always = "always", HardThreshold = "mark" }
    Placeholder { Fixed = "fixed", Described = "described" }
}
