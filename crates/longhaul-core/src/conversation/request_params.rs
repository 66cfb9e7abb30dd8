//! Parameters of a request other than its messages.

use crate::conversation::tool_schemas::ToolSchemas;
use crate::json::scanner::Literal;
use crate::json::span::Span;
use crate::units::tokens::Tokens;
use std::sync::Arc;

/// The output limit of a request, with its position so that it can be lowered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutputLimit {
    /// The key that holds the limit. Upstreams differ in which key they accept.
    pub key: Literal,
    /// The number literal.
    pub span: Span,
    /// The limit, in tokens.
    pub tokens: Tokens,
}

/// Parameters of a request other than its messages.
#[derive(Clone, Debug, Default)]
pub struct RequestParams {
    /// The `model`, if it is a string.
    pub model: Option<Literal>,
    /// Whether the request is for a streamed reply.
    pub streaming: bool,
    /// The limit of output tokens.
    pub output_limit: Option<OutputLimit>,
    /// Plain estimate of the tool and function schemas, and of `instructions`.
    pub tool_tokens: Tokens,
    /// The tool schemas alone; `None` if the request has none.
    pub tool_schemas: Option<Arc<ToolSchemas>>,
    /// `prompt_cache_key`, if it is a string.
    pub prompt_cache_key: Option<Literal>,
    /// Keys and values that select who may serve the request, and on whose behalf.
    pub routing: Vec<(Literal, Span)>,
    /// Keys and values that control whether and how much the model reasons.
    pub thinking: Vec<(Literal, Span)>,
    /// Reasoning tokens that the request grants; zero if it states none.
    pub reasoning_budget: Tokens,
    /// Instructions outside the messages, if the dialect has a key for them.
    pub instructions: Option<Literal>,
    /// Statements of the path, if the path names the model.
    pub path: Option<PathParams>,
    /// The party other than the client that keeps or compacts the history.
    pub history: HistoryKeeper,
    /// Whether the provider adds to the prompt what the body lacks. The provider's counts then cannot
    /// correct the estimate.
    pub is_partial: bool,
}

/// Statements of a request's path in place of its body.
#[derive(Clone, Debug)]
pub struct PathParams {
    /// The model. Empty if the body names the model.
    pub model: String,
    /// Whether the request is for a streamed reply.
    pub streams: bool,
    /// The party that pays, such as a project. Empty if the path names none.
    pub tenant: String,
}

/// The party that keeps the history of a request, or compacts it. The later of two keepers leaves
/// longhaul less to do.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum HistoryKeeper {
    /// The client keeps the history, and the request holds all of it.
    #[default]
    Client,
    /// The client keeps the history, and the provider clears results in each request. longhaul
    /// clears none, and only recovers from refusals.
    ClearingProvider,
    /// The client keeps the history, and orders the provider to compact it now. longhaul begins nothing
    /// new in this request.
    OrderedCompaction,
    /// The client keeps the history, and the provider compacts it when it is full. longhaul begins
    /// nothing new in the whole conversation.
    CompactingProvider,
    /// The provider keeps the history, and the request holds only its newest part. longhaul changes
    /// nothing.
    Provider,
}
