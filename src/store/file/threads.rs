//! The threads that read and write the file, and their recovery from disk errors.
//!
//! After an error the database is closed and reopened, at once and then every second. A full disk
//! is not full for ever, and reopening detects a damaged file and sets it aside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use redb::Database;
use tokio::sync::oneshot;

use super::open::StoreFile;
use super::purge;
use super::sweep::{FileLimits, sweep};
use super::table::{self, ListRange};
use crate::error::Problem;
use crate::store::durable::{EntryWrite, ListedEntry, StoredEntry, Unavailable, WriteResult};
use crate::wall_clock;
use longhaul_core::units::scope::{RecordKey, ScopeTag};
use parking_lot::RwLock;

/// Maximum number of calls that wait for a thread. With more, the file is too slow to be of use.
const MAX_WAITING: usize = 64;
/// Interval at which a database that was closed after an error is reopened.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the file is swept. A file that is too large is swept at once.
const SWEEP_INTERVAL: Duration = Duration::from_mins(10);

const TOO_SLOW: Unavailable = Unavailable {
    why: "the disk is slow",
};
const UNREADABLE: Unavailable = Unavailable {
    why: "the file cannot be read",
};
const UNWRITABLE: Unavailable = Unavailable {
    why: "the file cannot be written; is the disk full, or read-only?",
};

type AnswerSender<T> = oneshot::Sender<Result<T, Unavailable>>;

/// Command for the reading thread.
pub(super) enum ReadCommand {
    /// Lists some entries.
    List(ListRange, AnswerSender<Vec<ListedEntry>>),
    /// Reads the entries under these keys.
    Read(Vec<RecordKey>, AnswerSender<Vec<Option<StoredEntry>>>),
}

/// Command for the writing thread.
pub(super) enum WriteCommand {
    /// Closes the file for good.
    Close(AnswerSender<()>),
    /// Removes every entry, or those of one scope.
    Purge(Option<ScopeTag>, AnswerSender<u64>),
    /// Reopens the database after a failed read.
    Reopen,
    /// Marks these entries as used now.
    FileAccess(Vec<RecordKey>),
    /// Applies writes.
    Write(Vec<EntryWrite>, AnswerSender<Vec<WriteResult>>),
}

/// Handle of the two threads, which end when it is dropped.
pub(super) struct FileThreads {
    slot: DatabaseSlot,
    read_commands: SyncSender<ReadCommand>,
    write_commands: SyncSender<WriteCommand>,
}

/// The database, while it is open. Its reader and its writer share it; closing it takes it
/// exclusively.
#[derive(Clone)]
struct DatabaseSlot(Arc<RwLock<Option<Database>>>);

impl DatabaseSlot {
    fn with_database<T>(
        &self,
        closed: Unavailable,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, DatabaseFailure> {
        let database = self.0.read();
        let database = database.as_ref().ok_or(DatabaseFailure::Closed(closed))?;
        // The library may panic on a file that is damaged while it is open.
        catch_unwind(AssertUnwindSafe(|| work(database)))
            .ok()
            .and_then(Result::ok)
            .ok_or(DatabaseFailure::Broken)
    }

    fn is_open(&self) -> bool {
        self.0.read().is_some()
    }

    fn set(&self, database: Option<Database>) {
        let mut slot = self.0.write();
        let before = std::mem::replace(&mut *slot, database);
        _ = catch_unwind(AssertUnwindSafe(|| drop(before)));
    }
}

/// Reason why work on the database failed.
enum DatabaseFailure {
    /// The file is damaged, or the disk refuses access.
    Broken,
    /// The database is closed.
    Closed(Unavailable),
}

impl FileThreads {
    /// Starts the threads. If `database` is `None`, it is opened as soon as possible. Fails if a
    /// thread cannot be spawned.
    pub(super) fn start(
        place: StoreFile,
        database: Option<Database>,
        bounds: FileLimits,
    ) -> Result<Self, Problem> {
        let slot = DatabaseSlot(Arc::new(RwLock::new(database)));
        let (asks, asked) = sync_channel(MAX_WAITING);
        let (orders, ordered) = sync_channel(MAX_WAITING);
        let reader = ReadThread {
            slot: slot.clone(),
            write_commands: orders.clone(),
            bounds,
        };
        let writer = WriteThread {
            place,
            slot: slot.clone(),
            bounds,
            bytes: 0,
            last_sweep: None,
        };
        let no_threads =
            |error| Problem::Store(format!("store.at: cannot start a thread: {error}"));
        let reads = thread::Builder::new().name("store-read".into());
        reads
            .spawn(move || reader.run(&asked))
            .map_err(no_threads)?;
        let writes = thread::Builder::new().name("store-write".into());
        writes
            .spawn(move || writer.run(&ordered))
            .map_err(no_threads)?;
        Ok(Self {
            slot,
            read_commands: asks,
            write_commands: orders,
        })
    }

    pub(super) fn ensure_open(&self) -> Result<(), Unavailable> {
        if self.slot.is_open() {
            Ok(())
        } else {
            Err(UNWRITABLE)
        }
    }

    pub(super) fn send_read(&self, ask: ReadCommand) -> Result<(), Unavailable> {
        self.read_commands.try_send(ask).map_err(|_| TOO_SLOW)
    }

    pub(super) fn send_write(&self, order: WriteCommand) -> Result<(), Unavailable> {
        self.write_commands.try_send(order).map_err(|_| TOO_SLOW)
    }
}

struct ReadThread {
    slot: DatabaseSlot,
    write_commands: SyncSender<WriteCommand>,
    bounds: FileLimits,
}

impl ReadThread {
    fn run(self, asked: &Receiver<ReadCommand>) {
        while let Ok(ask) = asked.recv() {
            match ask {
                // The caller may have given up. Then the answer is dropped.
                ReadCommand::List(page, answer) => {
                    _ = answer.send(self.read(|database| table::list(database, page)));
                }
                ReadCommand::Read(keys, answer) if !answer.is_closed() => {
                    let since = self.bounds.expiry(wall_clock::unix_seconds());
                    let read = self.read(|database| table::read(database, &keys, since));
                    let (entries, touched) = match read {
                        Ok(read) => (Ok(read.entries), read.to_touch),
                        Err(unavailable) => (Err(unavailable), Vec::new()),
                    };
                    _ = answer.send(entries);
                    if !touched.is_empty() {
                        _ = self
                            .write_commands
                            .try_send(WriteCommand::FileAccess(touched));
                    }
                }
                ReadCommand::Read(..) => {}
            }
        }
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Unavailable> {
        self.slot
            .with_database(UNWRITABLE, read)
            .map_err(|failed| match failed {
                DatabaseFailure::Broken => {
                    _ = self.write_commands.try_send(WriteCommand::Reopen);
                    UNREADABLE
                }
                DatabaseFailure::Closed(why) => why,
            })
    }
}

struct WriteThread {
    place: StoreFile,
    slot: DatabaseSlot,
    bounds: FileLimits,
    /// Approximate bytes of entries.
    bytes: u64,
    last_sweep: Option<Instant>,
}

impl WriteThread {
    fn run(mut self, ordered: &Receiver<WriteCommand>) {
        loop {
            let is_open = self.slot.is_open();
            match ordered.recv_timeout(if is_open {
                SWEEP_INTERVAL
            } else {
                REOPEN_INTERVAL
            }) {
                Ok(WriteCommand::Close(answer)) => {
                    self.slot.set(None);
                    // The lock is released with the `StoreFile`, before the caller gets its answer.
                    drop(self);
                    _ = answer.send(Ok(()));
                    return;
                }
                Ok(WriteCommand::Purge(scope, answer)) => {
                    _ = answer.send(self.purge(scope));
                }
                Ok(WriteCommand::Reopen) => self.reopen(),
                Ok(WriteCommand::FileAccess(keys)) => {
                    _ = self.write(|database| table::touch(database, &keys));
                }
                Ok(WriteCommand::Write(writes, answer)) => {
                    let written = self.write(|database| table::write(database, &writes));
                    if let Ok((_, grown)) = &written {
                        self.bytes += grown;
                    }
                    _ = answer.send(written.map(|(winners, _)| winners));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !is_open {
                        self.reopen();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.sweep_if_due();
        }
    }

    fn purge(&self, scope: Option<ScopeTag>) -> Result<u64, Unavailable> {
        let Some(scope) = scope else {
            let gone = self.write(purge::count_entries)?;
            self.slot.set(None);
            let emptied = self.place.truncate();
            self.reopen();
            return emptied.map(|()| gone).map_err(|_| UNWRITABLE);
        };
        let copy = self.place.create_copy().map_err(|_| UNWRITABLE)?;
        let gone = self.write(|database| purge::copy_other_scopes(database, &copy, scope))?;
        drop(copy);
        self.slot.set(None);
        let taken = self.place.replace_with_copy();
        self.reopen();
        taken.map(|()| gone).map_err(|_| UNWRITABLE)
    }

    fn write<T>(
        &self,
        write: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Unavailable> {
        self.slot
            .with_database(UNWRITABLE, write)
            .map_err(|failed| {
                match failed {
                    DatabaseFailure::Broken => self.reopen(),
                    DatabaseFailure::Closed(_) => {}
                }
                UNWRITABLE
            })
    }

    fn reopen(&self) {
        self.slot.set(None);
        if let Ok(database) = self.place.open() {
            self.slot.set(Some(database));
        }
    }

    fn sweep_if_due(&mut self) {
        let due = self
            .last_sweep
            .is_none_or(|at| at.elapsed() >= SWEEP_INTERVAL);
        if due || self.bytes > self.bounds.max_bytes {
            self.last_sweep = Some(Instant::now());
            let bounds = self.bounds;
            if let Ok(left) =
                self.write(|database| sweep(database, bounds, wall_clock::unix_seconds()))
            {
                self.bytes = left;
            }
        }
    }
}
