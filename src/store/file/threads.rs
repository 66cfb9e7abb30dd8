//! The threads that read and write the file, and their recovery from disk errors.
//!
//! After an error the database is closed and reopened, at once and then every second. A full disk
//! is not full for ever, and reopening detects a damaged file and sets it aside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _};
use tokio::sync::oneshot;

use super::FileStore;
use super::open::StoreFile;
use super::sweep::{FileLimits, sweep};
use super::table::{self, METADATA, RECORDS};
use crate::callers::AcceptedCallers;
use crate::error::Problem;
use crate::store::durable::{Answer, EntryWrite, Unavailable, WriteResult};
use crate::wall_clock;
use longhaul_core::units::scope::ScopeTag;

/// Maximum number of calls that wait for a thread. With more, the file is too slow to be of use.
const MAX_WAITING: usize = 64;
/// Interval at which a database that was closed after an error is reopened.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the file is swept. A file that is too large is swept at once.
const SWEEP_INTERVAL: Duration = Duration::from_mins(10);

const CLOSED: Unavailable = Unavailable("the file is closed");
const TOO_SLOW: Unavailable = Unavailable("the disk is slow");
const UNREADABLE: Unavailable = Unavailable("the file cannot be read");
const UNWRITABLE: Unavailable =
    Unavailable("the file cannot be written; is the disk full, or read-only?");

pub(super) enum Order {
    /// Closes the file for good, and signals that it is closed.
    Close(oneshot::Sender<()>),
    Work(Box<dyn FnOnce(&mut WriteThread) + Send>),
}

impl FileStore {
    /// Starts the threads. If `database` is `None`, it is opened as soon as possible. Fails if a
    /// thread cannot be spawned.
    pub(super) fn start(
        place: StoreFile,
        database: Option<Database>,
        limits: FileLimits,
    ) -> Result<Self, Problem> {
        let database = SharedDatabase(Arc::new(RwLock::new(database)));
        let (reader, reads) = sync_channel::<Box<dyn FnOnce() + Send>>(MAX_WAITING);
        let (writer, orders) = sync_channel(MAX_WAITING);
        let write_thread = WriteThread {
            place,
            database: database.clone(),
            limits,
            bytes: 0,
            last_sweep: None,
            accepted: None,
        };
        spawn("store-read", move || reads.iter().for_each(|read| read()))?;
        spawn("store-write", move || write_thread.run(&orders))?;
        Ok(Self { database, limits, reader, writer })
    }

    #[expect(clippy::unused_async, reason = "other stores wait")]
    pub(in crate::store) async fn wait_until_ready(&self) -> Answer<()> {
        self.database.is_open().then_some(()).ok_or(UNWRITABLE)
    }

    /// Reads on the reading thread, unless the caller gives up first.
    pub(super) async fn read_on_thread<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, redb::Error> + Send + 'static,
    ) -> Answer<T> {
        let (answer, answered) = oneshot::channel();
        let (database, writer) = (self.database.clone(), self.writer.clone());
        let work = move || {
            if answer.is_closed() {
                return;
            }
            let found = database.call(read).map_err(|failure| match failure {
                Failure::Broken => {
                    _ = writer.try_send(Order::Work(Box::new(WriteThread::reopen)));
                    UNREADABLE
                }
                Failure::Closed => UNWRITABLE,
            });
            _ = answer.send(found);
        };
        let sent = self.reader.try_send(Box::new(work));
        sent.map_err(|_| TOO_SLOW)?;
        answered.await.unwrap_or(Err(CLOSED))
    }

    /// Does work on the writing thread, even if the caller gives up.
    pub(super) async fn write_on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriteThread) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let (answer, answered) = oneshot::channel();
        let sent = self.queue(|thread| _ = answer.send(work(thread)));
        sent?;
        answered.await.unwrap_or(Err(CLOSED))
    }

    pub(super) fn queue(&self, work: impl FnOnce(&mut WriteThread) + Send + 'static) -> Answer<()> {
        let sent = self.writer.try_send(Order::Work(Box::new(work)));
        sent.map_err(|_| TOO_SLOW)
    }

    /// Closes the file. Everything written is on the disk.
    pub(in crate::store) async fn close(&self) {
        let (answer, closed) = oneshot::channel();
        if self.writer.try_send(Order::Close(answer)).is_ok() {
            _ = closed.await;
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    let spawned = thread::Builder::new().name(name.into()).spawn(run);
    let failed = |error| Problem::Store(format!("store.at: cannot start a thread: {error}"));
    spawned.map(drop).map_err(failed)
}

/// The database, while it is open. Both threads share it; closing it takes it exclusively.
#[derive(Clone)]
pub(super) struct SharedDatabase(Arc<RwLock<Option<Database>>>);

/// Reason why work on the database failed.
enum Failure {
    /// The file is damaged, or the disk refuses access.
    Broken,
    Closed,
}

impl SharedDatabase {
    fn call<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Failure> {
        let database = self.0.read();
        let database = database.as_ref().ok_or(Failure::Closed)?;
        // The library may panic on a file that is damaged while it is open.
        match catch_unwind(AssertUnwindSafe(|| work(database))) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) | Err(_) => Err(Failure::Broken),
        }
    }

    fn is_open(&self) -> bool {
        self.0.read().is_some()
    }

    fn set(&self, database: Option<Database>) {
        let before = std::mem::replace(&mut *self.0.write(), database);
        _ = catch_unwind(AssertUnwindSafe(|| drop(before)));
    }
}

pub(super) struct WriteThread {
    place: StoreFile,
    database: SharedDatabase,
    limits: FileLimits,
    /// Approximate bytes of entries.
    bytes: u64,
    last_sweep: Option<Instant>,
    /// Owners of callers; any other caller counts as an owner. `None` where the process serves none.
    pub(super) accepted: Option<Arc<AcceptedCallers>>,
}

impl WriteThread {
    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let is_open = self.database.is_open();
            let wait = if is_open { SWEEP_INTERVAL } else { REOPEN_INTERVAL };
            match orders.recv_timeout(wait) {
                Ok(Order::Work(work)) => work(&mut self),
                Ok(Order::Close(answer)) => {
                    self.database.set(None);
                    // The lock is released with the `StoreFile`, before the caller gets its answer.
                    drop(self);
                    _ = answer.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) if is_open => {}
                Err(RecvTimeoutError::Timeout) => self.reopen(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.sweep_if_due();
        }
    }

    /// Applies writes. Returns the resulting records.
    pub(super) fn write(&mut self, writes: &[EntryWrite]) -> Answer<Vec<WriteResult>> {
        let (winners, grown) = self.call(|database| table::write(database, writes))?;
        self.bytes += grown;
        Ok(winners)
    }

    /// Removes every entry, or those of one scope. Returns how many.
    pub(super) fn purge(&mut self, scope: Option<ScopeTag>) -> Answer<u64> {
        let copy = self.place.create_copy().map_err(|_| UNWRITABLE)?;
        let gone = self.call(|database| copy_other_scopes(database, &copy, scope))?;
        drop(copy);
        self.database.set(None);
        let replaced = self.place.replace_with_copy();
        let purged = match scope {
            None => replaced.and_then(|()| self.place.remove_aside()),
            Some(_) => replaced,
        };
        self.reopen();
        purged.map(|()| gone).map_err(|_| UNWRITABLE)
    }

    /// Runs a transaction. After a failure, reopens the database.
    pub(super) fn call<T>(
        &mut self,
        write: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Answer<T> {
        let done = self.database.call(write);
        if let Err(Failure::Broken) = done {
            self.reopen();
        }
        done.map_err(|_| UNWRITABLE)
    }

    fn reopen(&mut self) {
        self.database.set(None);
        if let Ok(database) = self.place.open() {
            self.database.set(Some(database));
        }
    }

    fn sweep_if_due(&mut self) {
        let is_due = |last: Instant| last.elapsed() >= SWEEP_INTERVAL;
        if self.last_sweep.is_none_or(is_due) || self.bytes > self.limits.max_bytes {
            self.last_sweep = Some(Instant::now());
            let (limits, now) = (self.limits, wall_clock::unix_seconds());
            let accepted = self.accepted.clone();
            let owner_of = move |scope| {
                let owner = accepted.as_ref().and_then(|accepted| accepted.owner(scope));
                owner.unwrap_or(scope)
            };
            if let Ok(left) = self.call(|database| sweep(database, limits, now, owner_of)) {
                self.bytes = left;
            }
        }
    }
}

/// Copies every entry except those of one scope; without a scope, copies none. Returns how many it
/// left out.
fn copy_other_scopes(
    from: &Database,
    to: &Database,
    scope: Option<ScopeTag>,
) -> Result<u64, redb::Error> {
    let reading = from.begin_read()?;
    let writing = to.begin_write()?;
    for table in [METADATA, RECORDS] {
        let mut copy = writing.open_table(table)?;
        for found in reading.open_table(table)?.iter()? {
            let (key, value) = found?;
            if scope.is_some_and(|scope| !key.value().starts_with(&scope.0)) {
                copy.insert(key.value(), value.value())?;
            }
        }
    }
    let before = reading.open_table(METADATA)?.len()?;
    let left = writing.open_table(METADATA)?.len()?;
    writing.commit()?;
    Ok(before.saturating_sub(left))
}
