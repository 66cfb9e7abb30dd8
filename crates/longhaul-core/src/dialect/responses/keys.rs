//! Keys that longhaul uses, by the object that they belong to.

use crate::dialect::request_values::keys;

keys! {
    RequestKey {
        ContextManagement = "context_management",
        Conversation = "conversation",
        Input = "input",
        Instructions = "instructions",
        MaxOutputTokens = "max_output_tokens",
        Messages = "messages",
        Model = "model",
        PreviousResponse = "previous_response_id",
        Prompt = "prompt",
        PromptCache = "prompt_cache_key",
        Reasoning = "reasoning",
        Stream = "stream",
        Tools = "tools",
    } shared {
        Routing = "models" | "preset" | "provider" | "providerOptions" | "route"
            | "safety_identifier" | "service_tier" | "tags" | "transforms" | "user",
    }
}

keys! {
    ItemKey {
        Arguments = "arguments" | "input",
        CallId = "approval_request_id" | "call_id",
        Content = "content",
        EncryptedContent = "encrypted_content",
        Id = "id",
        Name = "name",
        Output = "output",
        Role = "role",
        Type = "type",
    } shared {}
}
