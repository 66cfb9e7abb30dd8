//! Keys of a request body that longhaul uses.

use crate::dialect::request_keys::keys;

keys! {
    /// Keys that longhaul uses, at any level.
    RequestKey {
        Arguments = "arguments" | "input",
        CacheControl = "cache_control",
        Content = "content",
        Detail = "detail",
        Function = "function" | "custom",
        FunctionCall = "function_call",
        Id = "id",
        ImageUrl = "image_url",
        MaxCompletionTokens = "max_completion_tokens",
        MaxTokens = "max_tokens",
        Messages = "messages",
        Model = "model",
        Name = "name",
        PromptCache = "prompt_cache_key",
        Refusal = "refusal",
        Role = "role",
        Stream = "stream",
        Text = "text",
        ToolCallId = "tool_call_id",
        ToolCalls = "tool_calls",
        Type = "type",
    } shared {
        Reasoning = "reasoning" | "reasoning_content" | "reasoning_details" | "thinking_blocks",
        Routing = "provider" | "models" | "preset" | "providerOptions" | "route"
            | "safety_identifier" | "service_tier" | "store" | "tags" | "transforms" | "user",
        Thinking = "chat_template_kwargs" | "enable_thinking" | "reasoning_effort" | "think" | "thinking",
        Tools = "tools" | "functions",
    }
}
