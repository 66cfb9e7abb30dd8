//! A simulation of a provider's prefix cache: the prefix of an earlier request is cheap.
//!
//! Most providers find a prefix by themselves. The Messages API stores and finds prefixes at the
//! marks of the request ([`marks`]).

mod marks;

use std::collections::HashSet;

use serde_json::Value;

use crate::count::TokenDensity;
use crate::request::{Api, ChatBody};
use marks::MarkedPrompt;

/// The maximum number of prefixes stored. Beyond it, the cache is cleared, as a provider's would
/// be.
const PREFIXES: usize = 1 << 18;
/// The minimum tokens of a prefix that the Responses API caches.
const RESPONSES_MINIMUM: u64 = 1_024;

/// The messages of a request, each with its tokens and a digest of everything up to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedMessages {
    tools_tokens: u64,
    messages: Vec<(u64, [u8; 32])>,
    /// The minimum tokens of a prefix that the provider caches.
    minimum: u64,
    /// The prompt up to each mark, for the Messages API.
    marked: Option<MarkedPrompt>,
}

/// The tokens of a prompt that the provider read from its cache, and those that it stored there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CachedTokens {
    pub(crate) read: u64,
    /// Always 0 where storing costs nothing.
    pub(crate) written: u64,
}

impl CountedMessages {
    pub(crate) fn count(chat: &ChatBody, density: TokenDensity) -> Self {
        let (tools, system) = (chat.field("tools"), chat.system());
        let mut chain = blake3::Hasher::new();
        chain
            .update(chat.model().as_bytes())
            .update(tools.to_string().as_bytes())
            .update(system.to_string().as_bytes());
        let weigh = |(message, sent): (&Value, &Value)| {
            add_without_marks(&mut chain, sent);
            (density.message_tokens(message), *chain.finalize().as_bytes())
        };
        let messages = chat.messages().iter().zip(chat.sent_messages());
        let messages = messages.map(weigh).collect();
        Self {
            tools_tokens: density.tools_tokens(tools) + density.instruction_tokens(system),
            messages,
            minimum: match chat.api() {
                Api::ChatCompletions | Api::Messages => 0,
                Api::Responses => RESPONSES_MINIMUM,
            },
            marked: chat.is_messages().then(|| MarkedPrompt::read(chat, density)),
        }
    }

    /// Returns the tokens of messages and tools.
    pub(crate) fn tokens(&self) -> u64 {
        self.first(self.messages.len())
    }

    fn first(&self, count: usize) -> u64 {
        self.tools_tokens + self.messages.iter().take(count).map(|(tokens, _)| tokens).sum::<u64>()
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of leading messages that are the same in `other`.
    pub(crate) fn shared_with(&self, other: &Self) -> usize {
        let pairs = self.messages.iter().zip(&other.messages);
        pairs.take_while(|(mine, theirs)| mine.1 == theirs.1).count()
    }
}

/// Adds a value without its cache marks, which clients move and no cache depends on.
fn add_without_marks(chain: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Array(items) => {
            chain.update(b"[");
            for item in items {
                add_without_marks(chain, item);
            }
            chain.update(b"]");
        }
        Value::Object(members) => {
            chain.update(b"{");
            for (name, member) in members.iter().filter(|(name, _)| *name != "cache_control") {
                add_text(chain, name);
                add_without_marks(chain, member);
            }
            chain.update(b"}");
        }
        Value::String(text) => add_text(chain, text),
        Value::Bool(_) | Value::Null | Value::Number(_) => {
            chain.update(b"=").update(value.to_string().as_bytes());
        }
    }
}

/// Adds a text behind its length, so that no two sequences of texts are the same bytes.
fn add_text(chain: &mut blake3::Hasher, text: &str) {
    chain.update(b"\"").update(&text.len().to_le_bytes());
    chain.update(text.as_bytes());
}

/// The prefixes of accepted requests.
#[derive(Debug, Default)]
pub(crate) struct PrefixCache {
    prefixes: HashSet<[u8; 32]>,
}

impl PrefixCache {
    /// Returns the cached tokens of an accepted request, and stores its prefixes.
    pub(crate) fn take(&mut self, counted: &CountedMessages) -> CachedTokens {
        if let Some(marked) = &counted.marked {
            let cached = marked.cached(&self.prefixes);
            self.insert(marked.entries());
            return cached;
        }
        let known = |(_, prefix): &(u64, [u8; 32])| self.prefixes.contains(prefix);
        let last = counted.messages.iter().rposition(known);
        let read = last.map_or(0, |last| counted.first(last + 1));
        self.insert(counted.messages.iter().map(|(_, prefix)| *prefix));
        CachedTokens { read: if read < counted.minimum { 0 } else { read }, written: 0 }
    }

    fn insert(&mut self, prefixes: impl Iterator<Item = [u8; 32]>) {
        if self.prefixes.len() > PREFIXES {
            self.prefixes.clear();
        }
        self.prefixes.extend(prefixes);
    }
}
