//! Entries in a file that only this process uses.
//!
//! One thread reads and one writes, because the disk may block either. A read never waits for a
//! write, and neither blocks a request's own thread.
//!
//! Each batch of writes is one transaction, which is on the disk before it is answered. After a
//! kill at any moment, or a power cut, the file is as it was after one of them. If the system could
//! delay the writes, it would save a few milliseconds for which no request waits. Each crash would
//! then cost a summary, or the prompt cache of a conversation.

pub(crate) mod catch_panic;
pub(crate) mod entry_meta;
pub(crate) mod identify;
mod open;
mod purge;
mod sweep;
mod table;
mod threads;

use std::path::{Path, PathBuf};

use tokio::sync::oneshot;

use super::secret::Secret;
use crate::config::StoreConfig;
use crate::error::Problem;
use crate::store::durable::{EntryWrite, ListedEntry, StoredEntry, Unavailable, WriteResult};
use longhaul_core::units::scope::{RecordKey, ScopeTag};
use open::StoreFile;
use sweep::FileLimits;
use table::ListRange;
use threads::{FileThreads, ReadCommand, WriteCommand};

/// Number of entries listed at a time.
const LIST_PAGE_ENTRIES: usize = 256;

/// Purpose for which a file is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Intent {
    /// To list or remove entries: no file is created, and none is set aside.
    Inspect,
    /// To store records.
    Use,
}

/// Suffix of the file of originals, appended to the name of the store.
const ORIGINALS_SUFFIX: &str = ".recall";

/// Returns the path of the file of originals that belongs to the store at `path`.
pub(super) fn originals_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ORIGINALS_SUFFIX);
    name.into()
}

/// The file, and the threads that read and write it.
pub(crate) struct FileStore {
    threads: FileThreads,
}

const CLOSED: Unavailable = Unavailable {
    why: "the file is closed",
};

impl FileStore {
    /// Opens or creates the file at `path`, and reads the scope secret beside it.
    ///
    /// - A store that is damaged or of another version is set aside.
    /// - An existing store that cannot be written now stays closed until it can be. A restarted
    ///   proxy is then no worse off than one that kept running.
    ///
    /// # Errors
    /// If another process has the file, if it is not a store of longhaul's, or if it never existed
    /// and cannot be created.
    pub(crate) fn open(
        path: &Path,
        config: &StoreConfig,
        intent: Intent,
    ) -> Result<(Self, Secret), Problem> {
        let limits = FileLimits {
            max_bytes: config.max_bytes,
            idle_secs: config.ttl.as_secs(),
        };
        Self::open_within(path, limits, intent)
    }

    /// Opens or creates the file of originals that belongs to the store at `path`.
    pub(crate) fn open_originals(
        path: &Path,
        config: &StoreConfig,
        intent: Intent,
    ) -> Result<Self, Problem> {
        let limits = FileLimits {
            max_bytes: config.recall_max_bytes,
            idle_secs: config.recall_ttl.as_secs(),
        };
        // The file has a secret of its own for its lock. The secret of the records seals the entries.
        let (file, _) = Self::open_within(&originals_path(path), limits, intent)?;
        Ok(file)
    }

    fn open_within(
        path: &Path,
        limits: FileLimits,
        intent: Intent,
    ) -> Result<(Self, Secret), Problem> {
        let (place, secret) = StoreFile::lock(path, intent)?;
        let database = match place.open() {
            Ok(database) => Some(database),
            Err(refused) if refused.is_temporary() => None,
            Err(refused) => return Err(refused.into_problem(path)),
        };
        let threads = FileThreads::start(place, database, limits)?;
        Ok((Self { threads }, secret))
    }

    /// Checks whether the file at `path` could be opened or created, without locking it. Fails if
    /// it is not a store of longhaul's, or if it never existed and cannot be created.
    pub(super) fn check(path: &Path) -> Result<(), Problem> {
        open::check(path)
    }

    pub(super) fn ensure_open(&self) -> Result<(), Unavailable> {
        self.threads.ensure_open()
    }

    pub(super) async fn read(
        &self,
        keys: &[RecordKey],
    ) -> Result<Vec<Option<StoredEntry>>, Unavailable> {
        let keys = keys.to_vec();
        self.call_reader(|answer| ReadCommand::Read(keys, answer))
            .await
    }

    pub(super) async fn write(
        &self,
        writes: &[EntryWrite],
    ) -> Result<Vec<WriteResult>, Unavailable> {
        let writes = writes.to_vec();
        self.call_writer(|answer| WriteCommand::Write(writes, answer))
            .await
    }

    pub(super) async fn for_each_entry(
        &self,
        scope: Option<ScopeTag>,
        show: &mut (dyn FnMut(ListedEntry) + Send),
    ) -> Result<(), Unavailable> {
        let mut after = None;
        loop {
            let page = ListRange {
                scope,
                after,
                limit: LIST_PAGE_ENTRIES,
            };
            let entries = self
                .call_reader(|answer| ReadCommand::List(page, answer))
                .await?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            after = Some(last.key);
            for entry in entries {
                show(entry);
            }
        }
    }

    pub(super) async fn purge(&self, scope: Option<ScopeTag>) -> Result<u64, Unavailable> {
        self.call_writer(|answer| WriteCommand::Purge(scope, answer))
            .await
    }

    /// Closes the file. Everything written is on the disk.
    pub(super) async fn close(&self) {
        _ = self.call_writer(WriteCommand::Close).await;
    }

    async fn call_reader<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, Unavailable>>) -> ReadCommand,
    ) -> Result<T, Unavailable> {
        let (answer, answered) = oneshot::channel();
        self.threads.send_read(ask(answer))?;
        answered.await.unwrap_or(Err(CLOSED))
    }

    async fn call_writer<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, Unavailable>>) -> WriteCommand,
    ) -> Result<T, Unavailable> {
        let (answer, answered) = oneshot::channel();
        self.threads.send_write(order(answer))?;
        answered.await.unwrap_or(Err(CLOSED))
    }
}

#[cfg(test)]
mod tests;
