//! Keys of a request body that longhaul uses.

use crate::dialect::request_keys::keys;

keys! {
    /// Keys that longhaul uses, at any level.
    RequestKey {
        CacheControl = "cache_control",
        CacheReference = "cache_reference",
        Compaction = "compaction",
        Content = "content",
        ContextManagement = "context_management",
        Edits = "edits",
        Id = "id",
        Input = "input",
        IsError = "is_error",
        MaxTokens = "max_tokens",
        Messages = "messages",
        Model = "model",
        Name = "name",
        OutputConfig = "output_config",
        Role = "role",
        Stream = "stream",
        System = "system",
        Text = "text",
        Thinking = "thinking",
        Thread = "thread",
        ToolUseId = "tool_use_id",
        Tools = "tools",
        Type = "type",
    } shared {
        // Keys of OpenRouter, behind the first three.
        Routing = "inference_geo" | "metadata" | "service_tier" | "models" | "provider" | "route"
            | "transforms" | "user",
    }
}
