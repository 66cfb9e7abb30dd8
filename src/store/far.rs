//! What a far tier is: a store behind memory that outlives the process.
//!
//! It keeps one entry under each key and looks into nothing of it: records and notes are sealed
//! bytes ([`format`](super::format)). All that changes an entry is a [`Change`], and each can be
//! repeated without harm. Deadlines and the breaker are not its business but that of
//! [`tiered`](super::tiered): a call that is given up is dropped.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::file::FileStore;
use super::redis::RedisStore;
use crate::rewrite::chain::{RecordKey, ScopeTag};

/// Where entries lie that outlive the process.
pub(crate) enum DurableStore {
    /// In a file of this process alone.
    File(FileStore),
    /// At a server that replicas share.
    Redis(Box<RedisStore>),
    /// In a test.
    #[cfg(test)]
    Scripted(super::scripted::ScriptedStore),
}

/// What is kept under one key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct StoredEntry {
    /// The sealed record. The first that was written stays.
    pub(crate) record: Option<Bytes>,
    /// Whether a request with the record was accepted. Goes back to false only with the record that
    /// it was of.
    pub(crate) adopted: bool,
    /// Whether a request that ended here has been through. Never goes back to false.
    pub(crate) seen: bool,
    /// Whether what we made of the conversation was refused here. Never goes back to false.
    pub(crate) refused: bool,
    /// Sealed notes by their names, in any order. The last that was written under a name stays.
    pub(crate) notes: Vec<(NoteName, Bytes)>,
}

/// The name of a note among those of one entry.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct NoteName(pub(crate) [u8; 8]);

/// One thing to write into an entry, which is made if it is not there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// A request with the record was accepted.
    Adopted,
    /// Takes this record away again if it is still the one that is there, and its mark of use with
    /// it: it cannot be read.
    Discard(Bytes),
    /// A request that ended here has been through.
    Seen,
    /// A note takes the place of one of that name.
    Note(NoteName, Bytes),
    /// A record, unless one is there.
    Record(Bytes),
    /// What we made of the conversation was refused here.
    Refused,
}

/// What is written under one key, whole and in this order: who reads sees all of it or nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EntryWrite {
    /// The key.
    pub(crate) key: RecordKey,
    /// What changes there.
    pub(crate) changes: Vec<Change>,
}

/// What stands under a key after a [`Write`] that had a [`Change::Record`] in it; of any other write
/// it may say nothing ([`Winner::default`]).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Winner {
    /// The record that is there now: the one that was written first, by whomever.
    pub(crate) record: Option<Bytes>,
    /// Whether it is adopted.
    pub(crate) adopted: bool,
}

/// The far tier did not do what it was asked. It may still have done it, and nothing follows but
/// that it is not known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Unavailable {
    /// Why, in a few words for the operator. Never an address, a key or a value.
    pub(crate) why: &'static str,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

/// Who may write the summary of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LeaseAttempt {
    /// We may, until it ends; the token that it was asked for with proves it.
    Acquired,
    /// Somebody else may.
    Taken,
}

/// What tells one holder of a lease from another: drawn anew for each lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LeaseToken(pub(crate) u128);

/// Whether a lease is still ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LeaseRenewal {
    /// It ended, and somebody else may hold it now.
    Lost,
    /// It ends later than it did.
    Extended,
}

/// One entry as `longhaul store` lists it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ListedEntry {
    /// Its key.
    pub(crate) key: RecordKey,
    /// What is kept under it.
    pub(crate) entry: StoredEntry,
    /// How long ago it was used last, where that is known.
    pub(crate) idle: Option<Duration>,
}

impl DurableStore {
    /// Waits until it can be asked, or is known to be away; for a bounded time.
    pub(crate) async fn wait_until_ready(&self) -> Result<(), Unavailable> {
        match self {
            Self::File(file) => file.ensure_open(),
            Self::Redis(redis) => redis.wait_until_ready().await,
            #[cfg(test)]
            Self::Scripted(_) => Ok(()),
        }
    }

    /// The entries under `keys`, in their order, in one round trip; at most 512 of them, all of one
    /// scope. What is found counts as used: its time to live begins anew.
    pub(crate) async fn read(
        &self,
        keys: &[RecordKey],
    ) -> Result<Vec<Option<StoredEntry>>, Unavailable> {
        match self {
            Self::File(file) => file.read(keys).await,
            Self::Redis(redis) => redis.read(keys).await,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.read(keys).await,
        }
    }

    /// Writes, and says what stands there now, in the order of `writes`. They may be of any scopes;
    /// each is whole, all together need not be.
    pub(crate) async fn write(&self, writes: &[EntryWrite]) -> Result<Vec<Winner>, Unavailable> {
        match self {
            Self::File(file) => file.write(writes).await,
            Self::Redis(redis) => redis.write(writes).await,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.write(writes).await,
        }
    }

    /// Takes the lease of a key for `ttl`, unless somebody has it.
    pub(crate) async fn lease(
        &self,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<LeaseAttempt, Unavailable> {
        match self {
            // Nobody else has the file open, and this process has its own desk.
            Self::File(_) => Ok(LeaseAttempt::Acquired),
            Self::Redis(redis) => redis.lease(key, token, ttl).await,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.lease(key, token, ttl).await,
        }
    }

    /// Makes a lease end `ttl` from now, if it is still ours.
    pub(crate) async fn renew(
        &self,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<LeaseRenewal, Unavailable> {
        match self {
            Self::File(_) => Ok(LeaseRenewal::Extended),
            Self::Redis(redis) => redis.renew(key, token, ttl).await,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.renew(key, token, ttl).await,
        }
    }

    /// Ends a lease, if it is still ours.
    pub(crate) async fn release(
        &self,
        key: RecordKey,
        token: LeaseToken,
    ) -> Result<(), Unavailable> {
        match self {
            Self::File(_) => Ok(()),
            Self::Redis(redis) => redis.release(key, token).await,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.release(key, token).await,
        }
    }

    /// Shows every entry, or those of one scope, one after the other in no order. For the command
    /// line: what is shown does not count as used. An entry that changes meanwhile may be shown
    /// twice.
    pub(crate) async fn for_each_entry(
        &self,
        scope: Option<ScopeTag>,
        show: &mut (dyn FnMut(ListedEntry) + Send),
    ) -> Result<(), Unavailable> {
        match self {
            Self::File(file) => file.for_each_entry(scope, show).await,
            Self::Redis(redis) => redis.for_each_entry(scope, show).await,
            #[cfg(test)]
            Self::Scripted(_) => Ok(()),
        }
    }

    /// Takes every entry away, or those of one scope; says how many.
    pub(crate) async fn purge(&self, scope: Option<ScopeTag>) -> Result<u64, Unavailable> {
        match self {
            Self::File(file) => file.purge(scope).await,
            Self::Redis(redis) => redis.purge(scope).await,
            #[cfg(test)]
            Self::Scripted(_) => Ok(0),
        }
    }

    /// Lets go of what is held open. Nothing is asked afterwards.
    pub(crate) async fn close(&self) {
        match self {
            Self::File(file) => file.close().await,
            Self::Redis(_) => {}
            #[cfg(test)]
            Self::Scripted(_) => {}
        }
    }

    /// Whether other processes write there too. What they have written since is known only by
    /// asking.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Redis(_) => true,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.script().is_shared,
        }
    }
}
