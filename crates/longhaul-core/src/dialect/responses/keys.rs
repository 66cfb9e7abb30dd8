//! Keys that longhaul uses, by the object that they belong to, and the check that an object contains
//! each at most once.

use crate::dialect::bypass::Bypass;
use crate::json::scanner::{Literal, Scanner};

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

/// A key of one kind of object.
pub(super) trait Key: Copy {
    /// Returns the key with this name, or `None` if longhaul does not use it.
    fn from_name(name: &str) -> Option<Self>;

    /// Returns the key's number within its kind.
    fn number(self) -> u32;

    /// Whether several names share this meaning, and may occur together.
    fn is_shared(self) -> bool;
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
            "client_metadata" | "models" | "preset" | "provider" | "providerOptions" | "route"
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
            "call_id" => Self::CallId,
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

/// Set of keys found in an object so far.
#[derive(Default)]
pub(super) struct SeenKeys(u32);

impl SeenKeys {
    pub(super) fn contains(&self, key: impl Key) -> bool {
        self.0 & (1 << key.number()) != 0
    }

    /// Returns the known key that a literal spells, escaped or not.
    ///
    /// # Errors
    /// The object contains the key twice. Parsers differ in which of the two values they take.
    pub(super) fn next<K: Key>(
        &mut self,
        scanner: &Scanner<'_>,
        spelt: Literal,
    ) -> Result<Option<K>, Bypass> {
        let text = scanner.text();
        // Only an escaped key is copied.
        let key = if spelt.is_escaped() {
            K::from_name(&spelt.decode(text))
        } else {
            K::from_name(spelt.raw(text))
        };
        if let Some(key) = key {
            if self.contains(key) && !key.is_shared() {
                return Err(Bypass::Duplicate);
            }
            self.0 |= 1 << key.number();
        }
        Ok(key)
    }
}
