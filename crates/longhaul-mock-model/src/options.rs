//! The options of a strict model.

use std::time::Duration;

use crate::count::TokenDensity;
use crate::reading::FileReading;
use crate::refusal::{ErrorFamily, RefusalReply};
#[cfg(feature = "validity")]
use crate::server_rules::ModelServer;
use crate::thinking::ThinkingRules;
#[cfg(feature = "validity")]
use crate::validity::ValidityRules;

/// The options of a strict model, which can be changed while it runs.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// The window for prompt and output together, in tokens.
    pub window: u64,
    /// The density by which the model counts tokens.
    pub density: TokenDensity,
    /// The rules for a valid request that the model enforces.
    #[cfg(feature = "validity")]
    pub validity: ValidityRules,
    /// The server whose own rules hold in addition to those of the API.
    #[cfg(feature = "validity")]
    pub server: ModelServer,
    /// Whether `/responses/compact` takes a history with updates of the configuration.
    #[cfg(feature = "validity")]
    pub compacts_updates: bool,
    /// The price of a prompt token in billionths of a dollar. If set, each answer reports its cost,
    /// as `OpenRouter` does.
    pub price: Option<u32>,
    /// The refusal of a prompt that is too large. A reply in events goes only to requests for a
    /// stream; other requests get OpenAI's refusal.
    pub refusal: RefusalReply,
    /// The refusal of a prompt that fits alone, but not together with the requested output.
    pub sum_refusal: RefusalReply,
    /// The rules for signed thinking, which answers carry too.
    pub thinking: ThinkingRules,
    /// The behaviour for a summary request.
    pub summary: SummaryBehaviour,
    /// Words in the last user message that always make a request one for a summary. Intended for a
    /// summariser that repeats the live conversation instead of writing out a transcript.
    pub summary_instruction: Option<String>,
    /// A fault at the provider's own compaction.
    pub compaction: CompactionFault,
    /// The behaviour for any other request.
    pub chat: ChatBehaviour,
}

impl Default for ModelOptions {
    /// Returns the standard options with a window of 32,768 tokens.
    fn default() -> Self {
        Self {
            window: 32_768,
            density: TokenDensity::STANDARD,
            #[cfg(feature = "validity")]
            validity: ValidityRules::standard(),
            #[cfg(feature = "validity")]
            server: ModelServer::default(),
            #[cfg(feature = "validity")]
            compacts_updates: false,
            price: None,
            refusal: ErrorFamily::OpenAi.refusal(),
            sum_refusal: ErrorFamily::OpenAi.sum_refusal(),
            thinking: ThinkingRules::Off,
            summary: SummaryBehaviour::Faithful,
            summary_instruction: None,
            compaction: CompactionFault::None,
            chat: ChatBehaviour::Steady,
        }
    }
}

impl ModelOptions {
    /// Returns the standard options with this window.
    pub fn with_window(window: u64) -> Self {
        Self { window, ..Self::default() }
    }

    /// Sets both refusals to those of a provider.
    #[must_use]
    pub fn refusing_as(self, family: ErrorFamily) -> Self {
        Self { refusal: family.refusal(), sum_refusal: family.sum_refusal(), ..self }
    }
}

/// The model's behaviour for a request that is not for a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatBehaviour {
    /// Answers with a call of the first tool in the request, or with text if there is none.
    CallsTool,
    /// Calls `read_file` for the path after the last [`FOLLOWED_MARK`] that the request shows. Asks the user
    /// for the path if the request shows none. The next step is therefore known beforehand.
    Follows,
    /// Reads the request and never sends anything.
    HangsAtHead,
    /// Sends the head and the first half of the answer, and then nothing more.
    HangsMidway,
    /// Reads these files through the client's tools. If the request has a suitable tool, answers
    /// with a call for the next file, and with [`FileReading::END`] after the last. Answers other
    /// requests with text.
    Reads(FileReading),
    /// Sends this reply instead of an answer.
    Replies(RefusalReply),
    /// Sends the first half of the answer and breaks the connection.
    ResetsMidway,
    /// Waits for this long before each piece.
    Slow(Duration),
    /// Answers with text.
    Steady,
}

/// The mark before the path that [`ChatBehaviour::Follows`] reads. Letters, digits, dots, dashes, slashes and
/// underscores after the mark belong to the path.
pub const FOLLOWED_MARK: &str = "NEXT-FILE=";

/// A fault at the provider's own compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionFault {
    /// An order yields no compaction, with this stop reason, and is billed.
    Empty(&'static str),
    /// A request with a compaction is refused with this status.
    Item(u16),
    /// Every order and every compaction is in order.
    #[default]
    None,
    /// An order is refused with this status.
    Order(u16),
}

/// The model's behaviour for a summary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryBehaviour {
    /// Answers without text.
    Empty,
    /// Replies with 500.
    Fails,
    /// Fills the template from the transcript and carries every fact over.
    Faithful,
    /// Fills the template without the facts, which a test that looks for facts must detect.
    Forgetful,
    /// Never replies.
    Hangs,
    /// Fills the template with `(none)` everywhere.
    None,
    /// Answers with a polite refusal instead of the template.
    Refuses,
    /// Replies with 429.
    Throttled,
    /// Answers with a tool call, although the request has no tools.
    ToolCall,
    /// Answers with the first half of the template and `finish_reason` `length`.
    Truncated,
}
