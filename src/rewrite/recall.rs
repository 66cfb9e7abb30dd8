//! Messages that were met before, found again by their bytes: a turn costs what is new in it.
//!
//! An agent sends its whole history with every request, and nearly all of it just as before. What a
//! message reads as, and most of what is worked out of it, hangs on its bytes alone, so that is kept
//! under a fast keyed hash of them, of 128 bits. That hash is no cryptographic one, and this is what
//! is asked of it:
//!
//! - Two messages that differ share a hash by chance once in 2¹²⁸ pairs.
//! - To find two on purpose one would have to know the key, which is drawn at start and told to
//!   nobody. `HighwayHash` is made to withstand those who choose the bytes and do not know the key.
//! - Whoever succeeded all the same would harm nobody else: the scope is part of what is looked up,
//!   so that no caller is given what was kept for another.

mod notes;
mod pages;
mod readings;
mod thread;

use super::chain::Scope;
use highway::{HighwayHash, HighwayHasher, Key};
use pages::{CachePages, GENERATION_PAGES};
use readings::{GENERATION_MESSAGES, ParsedMessages};

pub(super) use notes::{MessageMemo, PrefixHashStep};
pub(super) use readings::ParsedMessage;
pub(super) use thread::ParseCursor;

/// The hash by which a message of one caller's is found again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Fingerprint(u128);

impl Fingerprint {
    /// A half of it, to go on with.
    fn high_bits(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// What the messages that were met last were read as. The core is lent it by whoever lives longer
/// than a request.
pub struct ParseCache {
    key: [u64; 4],
    messages: ParsedMessages,
    pages: CachePages,
}

impl ParseCache {
    /// An empty memory under a secret, a scope that is no caller's.
    pub fn new(secret: Scope) -> Self {
        let (words, _) = secret.bytes().as_chunks();
        let mut key = [0; 4];
        for (to, from) in key.iter_mut().zip(words) {
            *to = u64::from_le_bytes(*from);
        }
        Self {
            key,
            messages: ParsedMessages::new(GENERATION_MESSAGES),
            pages: CachePages::new(GENERATION_PAGES),
        }
    }

    fn fingerprint(&self, scope: Scope, message: &[u8]) -> Fingerprint {
        let [low, high] = HighwayHasher::new(Key(self.key)).hash128(message);
        let hash = u128::from(low) | u128::from(high) << 64;
        let (halves, _) = scope.bytes().as_chunks();
        let hash = halves
            .iter()
            .fold(hash, |hash, half| hash ^ u128::from_le_bytes(*half));
        Fingerprint(hash)
    }
}

impl std::fmt::Debug for ParseCache {
    /// Neither its key nor what it keeps.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recall").finish_non_exhaustive()
    }
}
