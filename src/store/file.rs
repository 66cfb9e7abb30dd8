//! Entries in a file that only this process uses.
//!
//! One thread reads and one writes, because the disk may block either. A read never waits for a
//! write, and neither blocks a request's own thread.
//!
//! Each batch of writes is one transaction, which is on the disk before it is answered. After a
//! kill at any moment, or a power cut, the file is as it was after one of them. If the system could
//! delay the writes, it would save a few milliseconds for which no request waits. Each crash would
//! then cost a summary, or the prompt cache of a conversation.

mod identify;
mod open;
mod sweep;
mod table;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use super::secret::Secret;
use crate::callers::AcceptedCallers;
use crate::error::Problem;
use crate::store::durable::{Answer, EntryWrite, ListedEntry, StoredEntry, WriteResult};
use crate::wall_clock;
use longhaul_core::units::scope::{RecordKey, ScopeTag};
use open::OpenError;
pub(crate) use open::create_private_dir;
pub(super) use open::{StoreFile, check, lock_or_share, try_lock_for_a_moment};
use sweep::FileLimits;
use threads::{Order, SharedDatabase};

/// Purpose for which a file is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Intent {
    /// To list or remove entries: no file is created, and none is set aside.
    Inspect,
    /// To store records.
    Use,
}

/// Returns the path of the file of originals that belongs to the store at `path`.
pub(super) fn originals_path(path: &Path) -> PathBuf {
    with_suffix(path, ".recall")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Handle of the file and of the two threads that read and write it, which end when it is dropped.
pub(crate) struct FileStore {
    database: SharedDatabase,
    limits: FileLimits,
    reader: SyncSender<Box<dyn FnOnce() + Send>>,
    writer: SyncSender<Order>,
}

impl FileStore {
    /// Opens or creates the file at `path`, and reads the scope secret next to it.
    ///
    /// - A store that is damaged or of another version is set aside.
    /// - An existing store that cannot be written now stays closed until it can be. A restarted
    ///   proxy then has as much as one that kept running.
    ///
    /// # Errors
    /// If another process has the file, if it is not a store of longhaul's, or if it never existed
    /// and cannot be created.
    pub(crate) fn open(
        path: &Path,
        (max_bytes, ttl): (u64, Duration),
        intent: Intent,
    ) -> Result<(Self, Secret), Problem> {
        let limits = FileLimits { max_bytes, idle_secs: ttl.as_secs() };
        let (place, secret) = StoreFile::lock(path, intent)?;
        let database = match place.open() {
            Ok(database) => Some(database),
            Err(OpenError::Io(_)) => None,
            Err(refused) => return Err(refused.into_problem(path)),
        };
        Ok((Self::start(place, database, limits)?, secret))
    }

    /// Divides the file among the owners of `accepted` callers.
    pub(crate) fn set_accepted(&self, accepted: &Arc<AcceptedCallers>) {
        let accepted = Some(Arc::clone(accepted));
        _ = self.queue(|thread| thread.accepted = accepted);
    }

    pub(super) async fn read(&self, keys: &[RecordKey]) -> Answer<Vec<Option<StoredEntry>>> {
        let (keys, limits) = (keys.to_vec(), self.limits);
        let read = self.read_on_thread(move |database| {
            let since = limits.expiry(wall_clock::unix_seconds());
            table::read(database, &keys, since)
        });
        let (entries, to_touch) = read.await?;
        if !to_touch.is_empty() {
            _ = self.queue(move |thread| {
                _ = thread.call(|database| table::touch(database, &to_touch));
            });
        }
        Ok(entries)
    }

    pub(super) async fn write(&self, writes: &[EntryWrite]) -> Answer<Vec<WriteResult>> {
        let writes = writes.to_vec();
        self.write_on_thread(move |thread| thread.write(&writes)).await
    }

    pub(super) async fn for_each_entry(
        &self,
        scope: Option<ScopeTag>,
        show: &mut (dyn FnMut(ListedEntry) + Send),
    ) -> Answer<()> {
        let mut after = None;
        loop {
            let list = move |database: &_| table::list(database, scope, after);
            let entries = self.read_on_thread(list).await?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            after = Some(last.key);
            entries.into_iter().for_each(&mut *show);
        }
    }

    pub(super) async fn purge(&self, scope: Option<ScopeTag>) -> Answer<u64> {
        self.write_on_thread(move |thread| thread.purge(scope)).await
    }
}

#[cfg(test)]
mod tests;
