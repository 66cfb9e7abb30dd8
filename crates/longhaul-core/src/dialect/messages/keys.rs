//! Keys of a request body that longhaul uses.

use crate::dialect::request_keys::Key;

/// Keys that longhaul uses, at any level.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum RequestKey {
    CacheControl,
    CacheReference,
    Compaction,
    Content,
    ContextManagement,
    Edits,
    Id,
    Input,
    IsError,
    MaxTokens,
    Messages,
    Model,
    Name,
    OutputConfig,
    Role,
    Routing,
    Stream,
    System,
    Text,
    Thinking,
    Thread,
    ToolUseId,
    Tools,
    Type,
}

impl Key for RequestKey {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "cache_control" => Self::CacheControl,
            "cache_reference" => Self::CacheReference,
            "compaction" => Self::Compaction,
            "content" => Self::Content,
            "context_management" => Self::ContextManagement,
            "edits" => Self::Edits,
            "id" => Self::Id,
            "input" => Self::Input,
            "is_error" => Self::IsError,
            "max_tokens" => Self::MaxTokens,
            "messages" => Self::Messages,
            "model" => Self::Model,
            "name" => Self::Name,
            "output_config" => Self::OutputConfig,
            "role" => Self::Role,
            // The rest are keys of OpenRouter.
            "inference_geo" | "metadata" | "service_tier" | "models" | "provider" | "route"
            | "transforms" | "user" => Self::Routing,
            "stream" => Self::Stream,
            "system" => Self::System,
            "text" => Self::Text,
            "thinking" => Self::Thinking,
            "thread" => Self::Thread,
            "tool_use_id" => Self::ToolUseId,
            "tools" => Self::Tools,
            "type" => Self::Type,
            _ => return None,
        })
    }

    fn number(self) -> u32 {
        self as u32
    }

    fn is_shared(self) -> bool {
        self == Self::Routing
    }
}
