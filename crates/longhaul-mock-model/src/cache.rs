//! A simulation of a provider's prefix cache: the prefix of an earlier request is cheap.

use std::collections::HashSet;

use serde_json::Value;

use crate::count::TokenDensity;
use crate::request::ChatBody;

/// The maximum number of prefixes stored. Beyond it, the cache is cleared, as a provider's would
/// be.
const PREFIXES: usize = 1 << 18;

/// The messages of a request, each with its tokens and a digest of everything up to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedMessages {
    tools_tokens: u64,
    messages: Vec<(u64, [u8; 32])>,
}

impl CountedMessages {
    pub(crate) fn count(chat: &ChatBody, density: TokenDensity) -> Self {
        let (tools, system) = (chat.field("tools"), chat.system());
        let mut chain = blake3::Hasher::new();
        chain
            .update(chat.model().as_bytes())
            .update(tools.to_string().as_bytes())
            .update(system.to_string().as_bytes());
        let weigh = |message: &Value| {
            chain.update(without_marks(message).to_string().as_bytes());
            (
                density.message_tokens(message),
                *chain.finalize().as_bytes(),
            )
        };
        let messages = chat.messages().iter().map(weigh).collect();
        Self {
            tools_tokens: density.tools_tokens(tools) + density.instruction_tokens(system),
            messages,
        }
    }

    /// Returns the tokens of messages and tools.
    pub(crate) fn tokens(&self) -> u64 {
        self.first(self.messages.len())
    }

    fn first(&self, count: usize) -> u64 {
        self.tools_tokens
            + self
                .messages
                .iter()
                .take(count)
                .map(|(tokens, _)| tokens)
                .sum::<u64>()
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of leading messages that are the same in `other`.
    pub(crate) fn shared_with(&self, other: &Self) -> usize {
        let pairs = self.messages.iter().zip(&other.messages);
        pairs
            .take_while(|(mine, theirs)| mine.1 == theirs.1)
            .count()
    }
}

/// Returns a message without its cache marks, which clients move and no cache depends on.
fn without_marks(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_marks).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| *name != "cache_control");
            let kept = kept.map(|(name, member)| (name.clone(), without_marks(member)));
            Value::Object(kept.collect())
        }
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The prefixes of accepted requests.
#[derive(Debug, Default)]
pub(crate) struct PrefixCache {
    prefixes: HashSet<[u8; 32]>,
}

impl PrefixCache {
    /// Returns the tokens of the longest cached prefix.
    pub(crate) fn cached_tokens(&self, counted: &CountedMessages) -> u64 {
        let known = |(_, prefix): &(u64, [u8; 32])| self.prefixes.contains(prefix);
        counted
            .messages
            .iter()
            .rposition(known)
            .map_or(0, |last| counted.first(last + 1))
    }

    /// Stores every prefix of an accepted request.
    pub(crate) fn insert(&mut self, counted: &CountedMessages) {
        if self.prefixes.len() + counted.messages.len() > PREFIXES {
            self.prefixes.clear();
        }
        self.prefixes
            .extend(counted.messages.iter().map(|(_, prefix)| *prefix));
    }
}
