//! Cache of parsed messages, keyed by a hash of their bytes, so that a request costs only the
//! parsing of its new messages.
//!
//! An agent sends its whole history with every request, nearly all of it unchanged. The parse of a
//! message, and most data derived from that parse, depends on the message's bytes alone. The cache
//! stores both under a fast keyed 128-bit hash of the bytes. The hash is not cryptographic. The
//! cache relies on these properties:
//!
//! - Two different messages share a hash by chance once in 2¹²⁸ pairs.
//! - Constructing a collision requires the key, which is drawn at start and never disclosed.
//!   `HighwayHash` is designed to resist attackers who choose the bytes without the key.
//! - A successful attacker would harm only themselves. The scope is part of the hash, so a caller
//!   never receives an entry stored for another.

mod cache_entry;
mod cursor;
mod pages;
mod parsed_messages;
pub(crate) mod script_sample;
mod tool_definitions;

use crate::units::scope::Scope;
use highway::{HighwayHash, HighwayHasher, Key};
use pages::{CachePages, GENERATION_PAGES};
use parsed_messages::{GENERATION_MESSAGES, MAX_STORED, ParsedMessages};
use tool_definitions::{CachedDefinitions, GENERATION_DEFINITIONS};

pub(crate) use cache_entry::{CacheEntry, MessageMemo, PrefixHashStep};
pub(crate) use cursor::{ObjectStart, ParseCursor};
pub(crate) use parsed_messages::ParsedMessage;

/// Keyed hash of a message, or of a page of messages, of one caller.
type Fingerprint = u128;

/// Parses of the most recently used messages. The caller owns the cache, which outlives requests.
pub struct ParseCache {
    key: [u64; 4],
    messages: ParsedMessages,
    pages: CachePages,
    tools: CachedDefinitions,
    /// Maximum messages that one body adds.
    max_stored: usize,
}

impl ParseCache {
    /// Creates an empty cache with `secret` as its key, a scope that belongs to no caller.
    pub fn new(secret: Scope) -> Self {
        Self::with_fraction(secret, 1)
    }

    /// Like [`new`](Self::new), with room for one part in `divisor` of the usual messages.
    pub fn with_fraction(secret: Scope, divisor: usize) -> Self {
        let divisor = divisor.max(1);
        let (words, _) = secret.bytes().as_chunks();
        let mut key = [0; 4];
        for (to, from) in key.iter_mut().zip(words) {
            *to = u64::from_le_bytes(*from);
        }
        Self {
            key,
            messages: ParsedMessages::new(GENERATION_MESSAGES / divisor),
            pages: CachePages::new(GENERATION_PAGES / divisor),
            tools: CachedDefinitions::new(GENERATION_DEFINITIONS / divisor),
            max_stored: MAX_STORED / divisor,
        }
    }

    /// Removes all entries and frees their memory. The next request of each conversation is parsed anew.
    pub fn clear(&self) {
        self.messages.clear();
        self.pages.clear();
        self.tools.clear();
    }

    fn fingerprint(&self, scope: Scope, message: &[u8]) -> Fingerprint {
        let [low, high] = HighwayHasher::new(Key(self.key)).hash128(message);
        let hash = u128::from(low) | u128::from(high) << 64;
        let (halves, _) = scope.bytes().as_chunks();
        halves.iter().fold(hash, |hash, half| hash ^ u128::from_le_bytes(*half))
    }
}

impl std::fmt::Debug for ParseCache {
    /// Omits the key and the entries.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParseCache").finish_non_exhaustive()
    }
}
