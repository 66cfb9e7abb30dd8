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

use super::open::Place;
use super::purge;
use super::sweep::{Bounds, sweep};
use super::table::{self, Page};
use crate::config::StoreConfig;
use crate::error::Problem;
use crate::lock::RwLock;
use crate::rewrite::chain::{RecordKey, ScopeTag};
use crate::store::far::{Entry, Listed, Unavailable, Winner, Write};
use crate::wall_clock;

/// How many calls may wait for a thread. Past this the file is too slow to be of use.
const WAITING: usize = 64;
/// How often a database that was closed after an error is opened again.
const REOPEN: Duration = Duration::from_secs(1);
/// How often the file is swept; at once where it has become too large.
const SWEEP: Duration = Duration::from_mins(10);

const BUSY: Unavailable = Unavailable {
    why: "the disk is slow",
};
const UNREADABLE: Unavailable = Unavailable {
    why: "the file cannot be read",
};
const UNWRITABLE: Unavailable = Unavailable {
    why: "the file cannot be written: a full disk, or one that is read-only?",
};

type Answer<T> = oneshot::Sender<Result<T, Unavailable>>;

/// What the reading thread does.
pub(super) enum Ask {
    /// Shows some entries.
    List(Page, Answer<Vec<Listed>>),
    /// Reads the entries under these keys.
    Read(Vec<RecordKey>, Answer<Vec<Option<Entry>>>),
}

/// What the writing thread does.
pub(super) enum Order {
    /// Closes the file for good.
    Close(Answer<()>),
    /// Takes away every entry, or those of one scope.
    Purge(Option<ScopeTag>, Answer<u64>),
    /// Opens the database again: reading it failed.
    Reopen,
    /// These entries count as used now.
    Touch(Vec<RecordKey>),
    /// Writes.
    Write(Vec<Write>, Answer<Vec<Winner>>),
}

/// The two threads, which end when this is dropped.
pub(super) struct Threads {
    slot: Slot,
    asks: SyncSender<Ask>,
    orders: SyncSender<Order>,
}

/// The database, while it is open. Its readers and its writer share it; to close it takes it alone.
#[derive(Clone)]
struct Slot(Arc<RwLock<Option<Database>>>);

impl Slot {
    fn with<T>(
        &self,
        closed: Unavailable,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Failed> {
        let database = self.0.read();
        let database = database.as_ref().ok_or(Failed::Closed(closed))?;
        // Of a file that was damaged under its feet, the library may panic.
        catch_unwind(AssertUnwindSafe(|| work(database)))
            .ok()
            .and_then(Result::ok)
            .ok_or(Failed::Broken)
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
enum Failed {
    /// The file is not what it should be, or the disk refuses.
    Broken,
    /// It is closed.
    Closed(Unavailable),
}

impl Threads {
    /// Starts them for a database, which is opened as soon as it can be where it is not.
    ///
    /// # Errors
    /// The system gives no threads.
    pub(super) fn start(
        place: Place,
        database: Option<Database>,
        config: &StoreConfig,
    ) -> Result<Self, Problem> {
        let bounds = Bounds {
            bytes: config.max_bytes,
            idle: config.ttl.as_secs(),
        };
        let slot = Slot(Arc::new(RwLock::new(database)));
        let (asks, asked) = sync_channel(WAITING);
        let (orders, ordered) = sync_channel(WAITING);
        let reader = Reader {
            slot: slot.clone(),
            orders: orders.clone(),
            bounds,
        };
        let writer = Writer {
            place,
            slot: slot.clone(),
            bounds,
            bytes: 0,
            swept: None,
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
        Ok(Self { slot, asks, orders })
    }

    /// Whether the database is open.
    pub(super) fn begun(&self) -> Result<(), Unavailable> {
        if self.slot.is_open() {
            Ok(())
        } else {
            Err(UNWRITABLE)
        }
    }

    /// Has the reading thread do something.
    pub(super) fn ask(&self, ask: Ask) -> Result<(), Unavailable> {
        self.asks.try_send(ask).map_err(|_| BUSY)
    }

    /// Has the writing thread do something.
    pub(super) fn order(&self, order: Order) -> Result<(), Unavailable> {
        self.orders.try_send(order).map_err(|_| BUSY)
    }
}

struct Reader {
    slot: Slot,
    orders: SyncSender<Order>,
    bounds: Bounds,
}

impl Reader {
    fn run(self, asked: &Receiver<Ask>) {
        while let Ok(ask) = asked.recv() {
            match ask {
                // Whoever waited may have given up, and then nobody hears the answer.
                Ask::List(page, answer) => {
                    _ = answer.send(self.read(|database| table::list(database, page)));
                }
                Ask::Read(keys, answer) if !answer.is_closed() => {
                    let since = self.bounds.since(wall_clock::seconds());
                    let read = self.read(|database| table::read(database, &keys, since));
                    let (entries, touched) = match read {
                        Ok(read) => (Ok(read.entries), read.touched),
                        Err(unavailable) => (Err(unavailable), Vec::new()),
                    };
                    _ = answer.send(entries);
                    if !touched.is_empty() {
                        _ = self.orders.try_send(Order::Touch(touched));
                    }
                }
                Ask::Read(..) => {}
            }
        }
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Unavailable> {
        self.slot
            .with(UNWRITABLE, read)
            .map_err(|failed| match failed {
                Failed::Broken => {
                    _ = self.orders.try_send(Order::Reopen);
                    UNREADABLE
                }
                Failed::Closed(why) => why,
            })
    }
}

struct Writer {
    place: Place,
    slot: Slot,
    bounds: Bounds,
    /// Bytes of entries, about.
    bytes: u64,
    swept: Option<Instant>,
}

impl Writer {
    fn run(mut self, ordered: &Receiver<Order>) {
        loop {
            let is_open = self.slot.is_open();
            match ordered.recv_timeout(if is_open { SWEEP } else { REOPEN }) {
                Ok(Order::Close(answer)) => {
                    self.slot.set(None);
                    // The lock goes with the place, before anybody hears that it has.
                    drop(self);
                    _ = answer.send(Ok(()));
                    return;
                }
                Ok(Order::Purge(scope, answer)) => {
                    _ = answer.send(self.purge(scope));
                }
                Ok(Order::Reopen) => self.reopen(),
                Ok(Order::Touch(keys)) => {
                    _ = self.write(|database| table::touch(database, &keys));
                }
                Ok(Order::Write(writes, answer)) => {
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
            let gone = self.write(purge::count)?;
            self.slot.set(None);
            let emptied = self.place.empty();
            self.reopen();
            return emptied.map(|()| gone).map_err(|_| UNWRITABLE);
        };
        let copy = self.place.begin_copy().map_err(|_| UNWRITABLE)?;
        let gone = self.write(|database| purge::copy_others(database, &copy, scope))?;
        drop(copy);
        self.slot.set(None);
        let taken = self.place.take_copy();
        self.reopen();
        taken.map(|()| gone).map_err(|_| UNWRITABLE)
    }

    fn write<T>(
        &self,
        write: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Unavailable> {
        self.slot.with(UNWRITABLE, write).map_err(|failed| {
            match failed {
                Failed::Broken => self.reopen(),
                Failed::Closed(_) => {}
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
        let due = self.swept.is_none_or(|at| at.elapsed() >= SWEEP);
        if due || self.bytes > self.bounds.bytes {
            self.swept = Some(Instant::now());
            let bounds = self.bounds;
            if let Ok(left) = self.write(|database| sweep(database, bounds, wall_clock::seconds()))
            {
                self.bytes = left;
            }
        }
    }
}
