//! The threads that read and write the file, and what becomes of it when the disk refuses.
//!
//! After an error the database is closed and opened again, at once and then every second: a disk
//! that was full is not full for ever, and a damaged file is found and set aside on the way.

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
use crate::config::StoreConfig;
use crate::error::Problem;
use crate::lock::RwLock;
use crate::rewrite::chain::{RecordKey, ScopeTag};
use crate::store::far::{EntryWrite, ListedEntry, StoredEntry, Unavailable, Winner};
use crate::wall_clock;

/// How many calls may wait for a thread. Past this the file is too slow to be of use.
const MAX_WAITING: usize = 64;
/// How often a database that was closed after an error is opened again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
/// How often the file is swept; at once where it has become too large.
const SWEEP_INTERVAL: Duration = Duration::from_mins(10);

const TOO_SLOW: Unavailable = Unavailable {
    why: "the disk is slow",
};
const UNREADABLE: Unavailable = Unavailable {
    why: "the file cannot be read",
};
const UNWRITABLE: Unavailable = Unavailable {
    why: "the file cannot be written: a full disk, or one that is read-only?",
};

type AnswerSender<T> = oneshot::Sender<Result<T, Unavailable>>;

/// What the reading thread does.
pub(super) enum ReadCommand {
    /// Shows some entries.
    List(ListRange, AnswerSender<Vec<ListedEntry>>),
    /// Reads the entries under these keys.
    Read(Vec<RecordKey>, AnswerSender<Vec<Option<StoredEntry>>>),
}

/// What the writing thread does.
pub(super) enum WriteCommand {
    /// Closes the file for good.
    Close(AnswerSender<()>),
    /// Takes away every entry, or those of one scope.
    Purge(Option<ScopeTag>, AnswerSender<u64>),
    /// Opens the database again: reading it failed.
    Reopen,
    /// These entries count as used now.
    Touch(Vec<RecordKey>),
    /// Writes.
    Write(Vec<EntryWrite>, AnswerSender<Vec<Winner>>),
}

/// The two threads, which end when this is dropped.
pub(super) struct FileThreads {
    slot: DatabaseSlot,
    read_commands: SyncSender<ReadCommand>,
    write_commands: SyncSender<WriteCommand>,
}

/// The database, while it is open. Its readers and its writer share it; to close it takes it alone.
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
        // Of a file that was damaged under its feet, the library may panic.
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

/// Why nothing came of work on the database.
enum DatabaseFailure {
    /// The file is not what it should be, or the disk refuses.
    Broken,
    /// It is closed.
    Closed(Unavailable),
}

impl FileThreads {
    /// Starts them for a database, which is opened as soon as it can be where it is not.
    ///
    /// # Errors
    /// The system gives no threads.
    pub(super) fn start(
        place: StoreFile,
        database: Option<Database>,
        config: &StoreConfig,
    ) -> Result<Self, Problem> {
        let bounds = FileLimits {
            max_bytes: config.max_bytes,
            idle_secs: config.ttl.as_secs(),
        };
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
            |error| Problem::Store(format!("store.at: the system gives no threads: {error}"));
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

    /// Whether the database is open.
    pub(super) fn ensure_open(&self) -> Result<(), Unavailable> {
        if self.slot.is_open() {
            Ok(())
        } else {
            Err(UNWRITABLE)
        }
    }

    /// Has the reading thread do something.
    pub(super) fn send_read(&self, ask: ReadCommand) -> Result<(), Unavailable> {
        self.read_commands.try_send(ask).map_err(|_| TOO_SLOW)
    }

    /// Has the writing thread do something.
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
                // Whoever waited may have given up, and then nobody hears the answer.
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
                        _ = self.write_commands.try_send(WriteCommand::Touch(touched));
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
    /// Bytes of entries, about.
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
                    // The lock goes with the place, before anybody hears that it has.
                    drop(self);
                    _ = answer.send(Ok(()));
                    return;
                }
                Ok(WriteCommand::Purge(scope, answer)) => {
                    _ = answer.send(self.purge(scope));
                }
                Ok(WriteCommand::Reopen) => self.reopen(),
                Ok(WriteCommand::Touch(keys)) => {
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
