//! What a strict model is like.

use std::time::Duration;

use super::count::TokenDensity;
use super::reading::FileReading;
use super::refusal::{Family, RefusalReply};
use super::validity::Dialect;

/// What a strict model is like; it can be changed while it runs.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// What it holds, prompt and output together, in tokens.
    pub window: u64,
    /// How it counts.
    pub density: TokenDensity,
    /// The rules it enforces.
    pub dialect: Dialect,
    /// What a token of a prompt is charged at, in billionths of a dollar: with it, each answer says
    /// what it cost, as `OpenRouter` does.
    pub price: Option<u32>,
    /// How it refuses a prompt that is too large. A reply in events goes to requests that asked for
    /// a stream; the others are refused as OpenAI does.
    pub refusal: RefusalReply,
    /// How it refuses a prompt that fits, where the output asked for does not beside it.
    pub sum_refusal: RefusalReply,
    /// How it serves a request for a summary.
    pub summary: SummaryBehaviour,
    /// Words that make a request one for a summary if its last user message has them, whatever else
    /// it is like: for a summariser that repeats the live conversation instead of writing it out.
    pub summary_instruction: Option<String>,
    /// How it serves any other request.
    pub chat: ChatBehaviour,
}

impl Default for ModelOptions {
    /// 32,768 tokens, standard in all.
    fn default() -> Self {
        Self {
            window: 32_768,
            density: TokenDensity::STANDARD,
            dialect: Dialect::standard(),
            price: None,
            refusal: Family::OpenAi.refusal(),
            sum_refusal: Family::OpenAi.sum_refusal(),
            summary: SummaryBehaviour::Faithful,
            summary_instruction: None,
            chat: ChatBehaviour::Steady,
        }
    }
}

impl ModelOptions {
    /// A model of a window, standard else.
    pub fn with_window(window: u64) -> Self {
        Self {
            window,
            ..Self::default()
        }
    }

    /// This model, refusing as a provider does.
    #[must_use]
    pub fn refusing_as(self, family: Family) -> Self {
        Self {
            refusal: family.refusal(),
            sum_refusal: family.sum_refusal(),
            ..self
        }
    }
}

/// How a model serves a request that is not for a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatBehaviour {
    /// Answers with a call of the first tool it was offered, or with text if there is none.
    CallsTool,
    /// Reads the request and sends nothing, for ever.
    HangsAtHead,
    /// Sends the head and the first half of the answer, and nothing more.
    HangsMidway,
    /// Answers a request that offers a tool for it with a call that reads the next of these files,
    /// and says [`Reading::END`] when it has asked for all; answers any other with text.
    Reads(FileReading),
    /// Sends this instead of an answer.
    Replies(RefusalReply),
    /// Sends the first half of the answer and breaks the connection.
    ResetsMidway,
    /// Waits so long before each piece.
    Slow(Duration),
    /// Answers with text.
    Steady,
}

/// How a model serves a request for a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryBehaviour {
    /// An answer without text.
    Empty,
    /// 500.
    Fails,
    /// The template, made from the transcript, every fact carried on.
    Faithful,
    /// The template without the facts: what a test that looks for facts must find out.
    Forgetful,
    /// Nothing, for ever.
    Hangs,
    /// The template with `(none)` everywhere.
    None,
    /// A polite refusal in place of the template.
    Refuses,
    /// 429.
    Throttled,
    /// A tool call, though no tools were offered.
    ToolCall,
    /// The first half of the template, with `finish_reason` `length`.
    Truncated,
}
