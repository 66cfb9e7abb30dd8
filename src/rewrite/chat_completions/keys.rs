//! The keys of a request body that are acted upon, and that each stands once in its object.

use crate::rewrite::bypass::Bypass;
use crate::rewrite::scan::{Literal, Scanner};

/// The keys that we act upon, at whatever level. One that comes twice in an object makes the body
/// ambiguous: readers differ in which of the two they take.
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
            "reasoning" | "reasoning_content" | "reasoning_details" => Self::Reasoning,
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

/// Which keys an object has shown so far.
#[derive(Default)]
pub(super) struct SeenKeys(u32);

impl SeenKeys {
    pub(super) fn contains(&self, key: RequestKey) -> bool {
        self.0 & (1 << key as u32) != 0
    }

    /// Notes `key`; refuses it the second time. Keys that share a meaning may stand together.
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

/// The known key that a literal spells, however it is escaped.
pub(super) fn known_key(scanner: &Scanner<'_>, key: Literal) -> Option<RequestKey> {
    let text = scanner.text();
    // Who escapes in a key takes a copy of it.
    if key.is_escaped() {
        RequestKey::from_name(&key.decode(text))
    } else {
        RequestKey::from_name(key.raw(text))
    }
}
