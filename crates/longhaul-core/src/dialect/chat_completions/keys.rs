//! Keys that longhaul uses, by the object that they belong to.

use crate::dialect::request_values::keys;

keys! {
    RequestKey {
        MaxCompletionTokens = "max_completion_tokens",
        MaxTokens = "max_tokens",
        Messages = "messages",
        Model = "model",
        Stream = "stream",
    } shared {
        PromptCache = "prompt_cache_key",
        Routing = "provider" | "models" | "preset" | "providerOptions" | "route"
            | "safety_identifier" | "service_tier" | "store" | "tags" | "transforms" | "user",
        Thinking = "chat_template_kwargs" | "enable_thinking" | "reasoning" | "reasoning_content"
            | "reasoning_details" | "reasoning_effort" | "think" | "thinking" | "thinking_blocks",
        Tools = "tools" | "functions",
    }
}

keys! {
    MessageKey {
        Content = "content",
        FunctionCall = "function_call",
        Name = "name",
        Refusal = "refusal",
        Role = "role",
        ToolCallId = "tool_call_id",
        ToolCalls = "tool_calls",
    } shared {
        Reasoning = "reasoning" | "reasoning_content" | "reasoning_details" | "thinking_blocks",
    }
}

keys! {
    /// Keys of a tool call and of its function.
    CallKey {
        Arguments = "arguments" | "input",
        Function = "function" | "custom",
        Id = "id",
        Name = "name",
    } shared {}
}
