//! Request-body keys that longhaul uses, and the check that an object contains each at most once.

use crate::dialect::bypass::Bypass;
use crate::json::scanner::{Literal, Scanner};

/// Keys that longhaul uses, at any level. A duplicate makes the body ambiguous, because parsers
/// differ in which of the two values they take.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum RequestKey {
    Arguments,
    CacheControl,
    Content,
    Detail,
    Function,
    FunctionCall,
    Id,
    ImageUrl,
    MaxCompletionTokens,
    MaxTokens,
    Messages,
    Model,
    Name,
    PromptCache,
    Reasoning,
    Refusal,
    Role,
    Routing,
    Stream,
    Text,
    Thinking,
    ToolCallId,
    ToolCalls,
    Tools,
    Type,
}

impl RequestKey {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "arguments" | "input" => Self::Arguments,
            "cache_control" => Self::CacheControl,
            "content" => Self::Content,
            "detail" => Self::Detail,
            "function" | "custom" => Self::Function,
            "function_call" => Self::FunctionCall,
            "id" => Self::Id,
            "image_url" => Self::ImageUrl,
            "max_completion_tokens" => Self::MaxCompletionTokens,
            "max_tokens" => Self::MaxTokens,
            "messages" => Self::Messages,
            "model" => Self::Model,
            "name" => Self::Name,
            "prompt_cache_key" => Self::PromptCache,
            "reasoning" | "reasoning_content" | "reasoning_details" | "thinking_blocks" => {
                Self::Reasoning
            }
            "refusal" => Self::Refusal,
            "role" => Self::Role,
            "provider" | "models" | "preset" | "providerOptions" | "route"
            | "safety_identifier" | "service_tier" | "store" | "tags" | "transforms" | "user" => {
                Self::Routing
            }
            "stream" => Self::Stream,
            "text" => Self::Text,
            "chat_template_kwargs"
            | "enable_thinking"
            | "reasoning_effort"
            | "think"
            | "thinking" => Self::Thinking,
            "tool_call_id" => Self::ToolCallId,
            "tool_calls" => Self::ToolCalls,
            "tools" | "functions" => Self::Tools,
            "type" => Self::Type,
            _ => return None,
        })
    }
}

/// Set of keys found in an object so far.
#[derive(Default)]
pub(super) struct SeenKeys(u32);

impl SeenKeys {
    pub(super) fn contains(&self, key: RequestKey) -> bool {
        self.0 & (1 << key as u32) != 0
    }

    /// Inserts `key`; fails if the set already contains it. Several keys with one meaning may occur
    /// together.
    pub(super) fn insert_once(&mut self, key: RequestKey) -> Result<(), Bypass> {
        let shared = matches!(
            key,
            RequestKey::Reasoning | RequestKey::Routing | RequestKey::Thinking | RequestKey::Tools
        );
        if self.contains(key) && !shared {
            return Err(Bypass::Duplicate);
        }
        self.0 |= 1 << key as u32;
        Ok(())
    }
}

/// Returns the known key that a literal spells, escaped or not.
pub(super) fn known_key(scanner: &Scanner<'_>, key: Literal) -> Option<RequestKey> {
    let text = scanner.text();
    // Only an escaped key is copied.
    if key.is_escaped() {
        RequestKey::from_name(&key.decode(text))
    } else {
        RequestKey::from_name(key.raw(text))
    }
}
