//! Durable stores, which outlive the process.
//!
//! A durable store keeps one entry under each key and never looks into its contents: records and
//! notes are sealed bytes ([`format`](super::format)). Every modification of an entry is a
//! [`Change`], and each can be repeated without harm.
//!
//! Deadlines and the circuit breaker belong to [`tiered`](super::tiered): a call that is given up
//! is dropped.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::callers::AcceptedCallers;
use crate::store::file::FileStore;
use crate::store::redis::RedisStore;
use longhaul_core::units::scope::{RecordKey, ScopeTag};

/// Storage of entries that outlive the process.
pub(crate) enum DurableStore {
    /// A file that only this process uses.
    File(FileStore),
    /// A server that replicas share.
    Redis(Box<RedisStore>),
    #[cfg(test)]
    Scripted(crate::store::tests::scripted::ScriptedStore),
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct StoredEntry {
    /// The sealed record. The first one written stays.
    pub(crate) record: Option<Bytes>,
    /// Whether a request with the record was accepted. Reverts to false only when the record is
    /// discarded.
    pub(crate) adopted: bool,
    /// Whether a request that ended here has passed through. Never reverts to false.
    pub(crate) seen: bool,
    /// Whether a rewrite of the conversation was refused here. Never reverts to false.
    pub(crate) refused: bool,
    /// Sealed notes by name, in any order. The last one written under a name stays.
    pub(crate) notes: Vec<(NoteName, Bytes)>,
}

/// Name of a note within its entry.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct NoteName(pub(crate) [u8; 8]);

/// A modification of an entry, which is created if absent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// Marks the record as adopted: a request with it was accepted.
    Adopted,
    /// Removes this unreadable record and its adoption mark, if it is still the stored one.
    Discard(Bytes),
    /// Marks the prefix as seen: a request that ended here has passed through.
    Seen,
    /// Stores a note, replacing any of that name.
    Note(NoteName, Bytes),
    /// Stores a record, unless one exists.
    Record(Bytes),
    /// Marks the prefix as refused: a rewrite of the conversation was refused here.
    Refused,
}

impl Change {
    pub(crate) fn record(&self) -> Option<&Bytes> {
        if let Self::Record(record) = self { Some(record) } else { None }
    }
}

/// All changes to one entry, applied in order and atomically: a reader sees all of them or none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EntryWrite {
    pub(crate) key: RecordKey,
    pub(crate) changes: Vec<Change>,
}

/// The record under a key after an [`EntryWrite`] with a [`Change::Record`]. For any other write it
/// may be [`WriteResult::default`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct WriteResult {
    /// The stored record: the first one written, by any process.
    pub(crate) record: Option<Bytes>,
    pub(crate) adopted: bool,
}

pub(crate) type Answer<T> = Result<T, Unavailable>;

/// A failed call to the durable store. The store may still have done the work, so the state of the
/// entry is unknown. The text is a short reason for the operator, and never contains an address,
/// a key or a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unavailable(pub(crate) &'static str);

/// Identity of one holder of a lease, generated for each lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LeaseToken(pub(crate) u128);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LeaseAction {
    /// Acquires the lease, unless another holder has it.
    Acquire,
    /// Ends the lease, if the token still holds it.
    Release,
    /// Makes the lease last from now on, if the token still holds it. Otherwise another process may have
    /// the lease.
    Renew,
}

/// An entry as `longhaul store` lists it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ListedEntry {
    pub(crate) key: RecordKey,
    /// Value stored under the key.
    pub(crate) entry: StoredEntry,
    /// Time since the last use, if known.
    pub(crate) idle: Option<Duration>,
}

/// Calls the method that every kind of store has.
macro_rules! of_any {
    ($store:expr, $it:ident => $call:expr) => {
        match $store {
            DurableStore::File($it) => $call,
            DurableStore::Redis($it) => $call,
            #[cfg(test)]
            DurableStore::Scripted($it) => $call,
        }
    };
}

impl DurableStore {
    /// Waits for a bounded time until the store can be called, or is known to be unavailable.
    pub(crate) async fn wait_until_ready(&self) -> Answer<()> {
        of_any!(self, it => it.wait_until_ready().await)
    }

    /// Divides the store among the owners of `accepted` callers, if it has a bound of its own for all.
    pub(crate) fn set_accepted(&self, accepted: &Arc<AcceptedCallers>) {
        if let Self::File(file) = self {
            file.set_accepted(accepted);
        }
    }

    /// Reads the entries under `keys`, in their order, in one round trip: at most 1,026 keys, all
    /// of one scope. A read counts as use: the time to live of an entry begins again.
    pub(crate) async fn read(&self, keys: &[RecordKey]) -> Answer<Vec<Option<StoredEntry>>> {
        of_any!(self, it => it.read(keys).await)
    }

    /// Applies `writes`, which may be of any scopes, and returns the resulting records in their
    /// order. Each write is atomic; all together need not be.
    pub(crate) async fn write(&self, writes: &[EntryWrite]) -> Answer<Vec<WriteResult>> {
        of_any!(self, it => it.write(writes).await)
    }

    /// Takes, renews or ends the lease of a key, which `token` shall hold for `ttl` from now. Returns whether
    /// `token` held the lease, or holds the lease now.
    pub(crate) async fn lease(
        &self,
        action: LeaseAction,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Answer<bool> {
        match self {
            // No other process has the file open, and this process has its own `RunningSummaries`.
            Self::File(_) => Ok(true),
            Self::Redis(redis) => redis.lease(action, key, token, ttl).await,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.lease(action, key, token, ttl).await,
        }
    }

    /// Calls `show` with every entry, or with those of one scope, in no particular order. For the
    /// command line: a listing does not count as use. An entry that changes meanwhile may be shown
    /// twice.
    pub(crate) async fn for_each_entry(
        &self,
        scope: Option<ScopeTag>,
        show: &mut (dyn FnMut(ListedEntry) + Send),
    ) -> Answer<()> {
        of_any!(self, it => it.for_each_entry(scope, show).await)
    }

    /// Removes every entry, or those of one scope. Returns how many.
    pub(crate) async fn purge(&self, scope: Option<ScopeTag>) -> Answer<u64> {
        of_any!(self, it => it.purge(scope).await)
    }

    /// Closes the store. No call may follow.
    pub(crate) async fn close(&self) {
        if let Self::File(file) = self {
            file.close().await;
        }
    }

    /// Whether other processes write to the store too. Only a read shows their writes.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Redis(_) => true,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.script().is_shared,
        }
    }
}
