//! Request-body keys that longhaul uses, and the check that an object contains each at most once.

use crate::dialect::bypass::Bypass;
use crate::json::scanner::{Literal, Scanner};

/// Keys that longhaul uses, at any level. A duplicate makes the body ambiguous, because parsers
/// differ in which of the two values they take.
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

impl RequestKey {
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
}

/// Set of keys found in an object so far.
#[derive(Default)]
pub(super) struct SeenKeys(u32);

impl SeenKeys {
    pub(super) fn contains(&self, key: RequestKey) -> bool {
        self.0 & (1 << key as u32) != 0
    }

    /// Inserts `key`; fails if the set already contains it. Several routing keys may occur together.
    pub(super) fn insert_once(&mut self, key: RequestKey) -> Result<(), Bypass> {
        if self.contains(key) && key != RequestKey::Routing {
            return Err(Bypass::Duplicate);
        }
        self.0 |= 1 << key as u32;
        Ok(())
    }
}

/// Returns the known key that a literal spells, escaped or not.
pub(super) fn known_key(scanner: &Scanner<'_>, key: Literal) -> Option<RequestKey> {
    RequestKey::from_name(&key.decode(scanner.text()))
}
