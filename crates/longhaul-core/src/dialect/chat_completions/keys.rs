//! Keys of a request body that longhaul uses.

use crate::dialect::request_keys::Key;

/// Keys that longhaul uses, at any level.
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

impl Key for RequestKey {
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

    fn number(self) -> u32 {
        self as u32
    }

    fn is_shared(self) -> bool {
        matches!(
            self,
            Self::Reasoning | Self::Routing | Self::Thinking | Self::Tools
        )
    }
}
