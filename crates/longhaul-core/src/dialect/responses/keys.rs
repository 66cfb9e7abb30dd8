//! Keys that longhaul uses, by the object that they belong to.

use crate::dialect::request_keys::Key;

/// Keys of a request body.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum RequestKey {
    ContextManagement,
    Conversation,
    Input,
    Instructions,
    MaxOutputTokens,
    Messages,
    Model,
    PreviousResponse,
    Prompt,
    PromptCache,
    Reasoning,
    Routing,
    Stream,
    Tools,
}

/// Keys of an item of the input.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum ItemKey {
    Arguments,
    CallId,
    Content,
    EncryptedContent,
    Id,
    Name,
    Output,
    Role,
    Type,
}

/// Keys of a part of a content or an output.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum PartKey {
    CacheMark,
    Detail,
    Stderr,
    Stdout,
    Text,
    Type,
}

impl Key for RequestKey {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "context_management" => Self::ContextManagement,
            "conversation" => Self::Conversation,
            "input" => Self::Input,
            "instructions" => Self::Instructions,
            "max_output_tokens" => Self::MaxOutputTokens,
            "messages" => Self::Messages,
            "model" => Self::Model,
            "previous_response_id" => Self::PreviousResponse,
            "prompt" => Self::Prompt,
            "prompt_cache_key" => Self::PromptCache,
            "reasoning" => Self::Reasoning,
            "models" | "preset" | "provider" | "providerOptions" | "route"
            | "safety_identifier" | "service_tier" | "tags" | "transforms" | "user" => {
                Self::Routing
            }
            "stream" => Self::Stream,
            "tools" => Self::Tools,
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

impl Key for ItemKey {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "arguments" | "input" => Self::Arguments,
            "approval_request_id" | "call_id" => Self::CallId,
            "content" => Self::Content,
            "encrypted_content" => Self::EncryptedContent,
            "id" => Self::Id,
            "name" => Self::Name,
            "output" => Self::Output,
            "role" => Self::Role,
            "type" => Self::Type,
            _ => return None,
        })
    }

    fn number(self) -> u32 {
        self as u32
    }

    fn is_shared(self) -> bool {
        false
    }
}

impl Key for PartKey {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            super::CACHE_MARK_KEY => Self::CacheMark,
            "detail" => Self::Detail,
            "stderr" => Self::Stderr,
            "stdout" => Self::Stdout,
            "text" => Self::Text,
            "type" => Self::Type,
            _ => return None,
        })
    }

    fn number(self) -> u32 {
        self as u32
    }

    fn is_shared(self) -> bool {
        false
    }
}
