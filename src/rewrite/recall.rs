//! Messages that were met before, found again by their bytes: a turn costs what is new in it.
//!
//! An agent sends its whole history with every request, and nearly all of it just as before. What a
//! message reads as and its digest hang on its bytes alone, so they are kept under a fast keyed hash
//! of them, of 128 bits. That hash is no cryptographic one, and this is what is asked of it:
//!
//! - Two messages that differ share a hash by chance once in 2¹²⁸ pairs.
//! - To find two on purpose one would have to know the key, which is drawn at start and told to
//!   nobody. `HighwayHash` is made to withstand those who choose the bytes and do not know the key.
//! - Whoever succeeded all the same would harm nobody else: the scope is part of what is looked up,
//!   so that no caller is given what was kept for another.

mod readings;

use super::chain::Scope;
use highway::{HighwayHash, HighwayHasher, Key};
use readings::Readings;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use readings::Thread;

/// Messages that are shorter are as soon hashed as found: a digest takes about six instructions a
/// byte, finding one about five hundred.
const WORTH_BYTES: usize = 128;
/// How many messages are kept: 6 MiB once all places are taken, and next to nothing before.
const MESSAGES: usize = 131_072;
/// Parts that are locked apart, so that workers seldom wait for each other.
const SHARDS: usize = 16;
/// Messages in each set, the latest used first. What is met next may push the last one out.
const WAYS: usize = 4;
/// Sets in each part.
const SETS: usize = MESSAGES / SHARDS / WAYS;

/// What a message says, whatever its place: a cryptographic digest.
pub(super) type Digest = [u8; 32];

/// The hash by which a message of one caller's is found again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Print(u128);

impl Print {
    /// A half of it, to go on with.
    fn half(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// The digests of messages that were met, at most `MESSAGES`, and what the latest of them were read
/// as. The core is lent it by whoever lives longer than a request.
pub struct Recall {
    key: [u64; 4],
    shards: Box<[Mutex<Shard>]>,
    readings: Readings,
}

/// Hashes with the digests kept under them, set by set. Zero is no hash.
struct Shard {
    hashes: Vec<[u128; WAYS]>,
    digests: Vec<[Digest; WAYS]>,
}

impl Recall {
    /// An empty memory under a secret, a scope that is no caller's.
    pub fn new(secret: Scope) -> Self {
        let (words, _) = secret.bytes().as_chunks();
        let mut key = [0; 4];
        for (to, from) in key.iter_mut().zip(words) {
            *to = u64::from_le_bytes(*from);
        }
        let shard = || {
            // Zeros from the system take no room until they are written over.
            Mutex::new(Shard {
                hashes: vec![[0; WAYS]; SETS],
                digests: vec![[[0; 32]; WAYS]; SETS],
            })
        };
        Self {
            key,
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            readings: Readings::default(),
        }
    }

    /// The digest of the message of these bytes, from memory or else as `work_out` has it. Their
    /// print may be known already.
    pub(super) fn digest(
        &self,
        scope: Scope,
        message: &str,
        print: Option<Print>,
        work_out: impl FnOnce() -> Digest,
    ) -> Digest {
        if message.len() < WORTH_BYTES {
            return work_out();
        }
        let Print(hash) = print.unwrap_or_else(|| self.print(scope, message.as_bytes()));
        let (set, shard) = (set_of(hash), self.shard(hash));
        if let Some(found) = shard.and_then(|shard| lock(shard).find(set, hash)) {
            return found;
        }
        let digest = work_out();
        if let Some(shard) = shard {
            lock(shard).keep(set, hash, digest);
        }
        digest
    }

    fn print(&self, scope: Scope, message: &[u8]) -> Print {
        let [low, high] = HighwayHasher::new(Key(self.key)).hash128(message);
        let hash = u128::from(low) | u128::from(high) << 64;
        let (halves, _) = scope.bytes().as_chunks();
        let hash = halves
            .iter()
            .fold(hash, |hash, half| hash ^ u128::from_le_bytes(*half));
        Print(hash.max(1))
    }

    fn shard(&self, hash: u128) -> Option<&Mutex<Shard>> {
        self.shards.get((hash % SHARDS as u128) as usize)
    }
}

impl std::fmt::Debug for Recall {
    /// Neither its key nor what it keeps.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recall").finish_non_exhaustive()
    }
}

impl Shard {
    fn find(&mut self, set: usize, hash: u128) -> Option<Digest> {
        let hashes = self.hashes.get_mut(set)?;
        let at = hashes.iter().position(|kept| *kept == hash)?;
        let digests = self.digests.get_mut(set)?;
        hashes.get_mut(..=at)?.rotate_right(1);
        digests.get_mut(..=at)?.rotate_right(1);
        digests.first().copied()
    }

    fn keep(&mut self, set: usize, hash: u128, digest: Digest) {
        let Some((hashes, digests)) = self.hashes.get_mut(set).zip(self.digests.get_mut(set))
        else {
            return;
        };
        hashes.rotate_right(1);
        digests.rotate_right(1);
        if let (Some(first), Some(its)) = (hashes.first_mut(), digests.first_mut()) {
            (*first, *its) = (hash, digest);
        }
    }
}

fn set_of(hash: u128) -> usize {
    (hash / SHARDS as u128 % SETS as u128) as usize
}

/// Nothing in a shard is half done when a worker panics but a message that is then not found.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn scope(number: u8) -> Scope {
        Scope::new(&[number; 32], &[])
    }

    fn message(number: usize) -> String {
        format!("{number:>WORTH_BYTES$}")
    }

    /// The digest of `message`, worked out as `fresh`, and whether it had to be.
    fn ask(recall: &Recall, scope: Scope, message: &str, fresh: u8) -> (u8, bool) {
        let worked = Cell::new(false);
        let digest = recall.digest(scope, message, None, || {
            worked.set(true);
            [fresh; 32]
        });
        (digest[0], worked.get())
    }

    #[test]
    fn a_message_is_worked_out_once() {
        let recall = Recall::new(scope(0));
        assert_eq!(ask(&recall, scope(1), &message(1), 7), (7, true));
        assert_eq!(ask(&recall, scope(1), &message(2), 8), (8, true));
        assert_eq!(ask(&recall, scope(1), &message(1), 9), (7, false));
        assert_eq!(ask(&recall, scope(1), &message(2), 9), (8, false));
    }

    #[test]
    fn nobody_is_given_what_was_kept_for_another() {
        let recall = Recall::new(scope(0));
        assert_eq!(ask(&recall, scope(1), &message(1), 7), (7, true));
        assert_eq!(ask(&recall, scope(2), &message(1), 8), (8, true));
        assert_eq!(ask(&recall, scope(1), &message(1), 9), (7, false));
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_used_stays() {
        let recall = Recall::new(scope(0));
        for number in 0..3 * MESSAGES {
            _ = ask(&recall, scope(1), &message(number), 1);
            _ = ask(&recall, scope(1), &message(0), 1);
        }
        assert_eq!(ask(&recall, scope(1), &message(0), 2), (1, false));
        let known = (0..3 * MESSAGES).filter(|&number| {
            let Print(shard) = recall.print(scope(1), message(number).as_bytes());
            let found = recall
                .shard(shard)
                .and_then(|it| lock(it).find(set_of(shard), shard));
            found.is_some()
        });
        let known = known.count();
        assert!((MESSAGES / 2..=MESSAGES).contains(&known), "{known}");
    }
}
