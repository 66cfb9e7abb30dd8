//! Keys that longhaul uses, by the object that they belong to.

use crate::dialect::request_values::keys;

keys! {
    RequestKey {
        ContextManagement = "context_management",
        MaxTokens = "max_tokens",
        Messages = "messages",
        Model = "model",
        OutputConfig = "output_config",
        Stream = "stream",
        System = "system",
        Thinking = "thinking",
        Tools = "tools",
    } shared {
        ProviderHistory = "compaction" | "thread",
        // Keys of clouds, then keys of OpenRouter, after the first three.
        Routing = "inference_geo" | "metadata" | "service_tier" | "anthropic_beta"
            | "anthropic_version" | "models" | "provider" | "route" | "transforms" | "user",
    }
}

keys! {
    MessageKey {
        Content = "content",
        Role = "role",
    } shared {}
}

keys! {
    BlockKey {
        CacheControl = "cache_control",
        Content = "content",
        Id = "id",
        Input = "input",
        IsError = "is_error",
        Name = "name",
        Text = "text",
        Thinking = "thinking",
        ToolUseId = "tool_use_id",
        Type = "type",
    } shared {
        CacheReference = "cache_reference",
    }
}
