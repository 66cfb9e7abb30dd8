//! Entries in a file of this process alone.
//!
//! One thread reads and one writes, for the disk may block either: a read waits for no write, and
//! neither holds up a request's own thread. Each batch of writes is one transaction, on the disk
//! before it is answered: a kill at any moment, or a power cut, leaves the file as it was after one
//! of them. To let the system write when it likes would save a few milliseconds that nobody waits
//! for, and cost a summary, or the prompt cache of a conversation, at each crash.

mod caught;
mod mark;
mod open;
mod ours;
mod purge;
mod sweep;
mod table;
mod threads;

use std::path::Path;

use tokio::sync::oneshot;

use super::far::{EntryWrite, ListedEntry, StoredEntry, Unavailable, Winner};
use super::secret::Secret;
use crate::config::StoreConfig;
use crate::error::Problem;
use crate::rewrite::chain::{RecordKey, ScopeTag};
use open::StoreFile;
use table::ListRange;
use threads::{FileThreads, ReadCommand, WriteCommand};

/// How many entries are shown at a time.
const LIST_PAGE_ENTRIES: usize = 256;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Intent {
    /// To see what is kept, or take it away: nothing is made, and nothing set aside.
    Inspect,
    /// To keep records there.
    Use,
}

/// The file, and the threads that read and write it.
pub(crate) struct FileStore {
    threads: FileThreads,
}

const CLOSED: Unavailable = Unavailable {
    why: "the file is closed",
};

impl FileStore {
    /// Opens the file at `path`, or makes it, and takes the scope secret from beside it. One of ours
    /// that is damaged or of another version is set aside. One that was there and cannot be written
    /// now is closed until it can be: a proxy that is started again is no worse than one that ran on.
    ///
    /// # Errors
    /// Another process has it, it is not ours, or it was never there and cannot be made.
    pub(crate) fn open(
        path: &Path,
        config: &StoreConfig,
        intent: Intent,
    ) -> Result<(Self, Secret), Problem> {
        let (place, secret) = StoreFile::lock(path, intent)?;
        let database = match place.open() {
            Ok(database) => Some(database),
            Err(refused) if refused.is_temporary() => None,
            Err(refused) => return Err(refused.into_problem(path)),
        };
        let threads = FileThreads::start(place, database, config)?;
        Ok((Self { threads }, secret))
    }

    /// Whether the file at `path` could be opened or made, as far as that shows without taking it.
    ///
    /// # Errors
    /// It is not ours, or it was never there and cannot be made.
    pub(super) fn check(path: &Path) -> Result<(), Problem> {
        open::check(path)
    }

    /// Whether it is open.
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

    pub(super) async fn write(&self, writes: &[EntryWrite]) -> Result<Vec<Winner>, Unavailable> {
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

    /// Closes the file. What was written is on the disk.
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
