//! A client's connection: whether a request is under way, and what its unended head occupies.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::body::budget::{BufferBudget, Reservation};
use crate::callers::owners::Owners;
use crate::request::peer_address::PeerAddress;

/// Flag of a connection that has made room for another.
const CLOSED: usize = 1 << (usize::BITS - 1);

pub(crate) struct ClientConnection {
    pub(crate) peer: PeerAddress,
    /// Requests under way, until the last byte of their replies is handed to the connection, or
    /// [`CLOSED`].
    uses: AtomicUsize,
    /// Requests so far.
    requests: AtomicU64,
    /// Whether reply bytes wait for the client.
    pub(crate) is_writing: AtomicBool,
    idle_since: Mutex<Instant>,
    /// Memory of bytes that are no request yet. `None` while there are few.
    unended: Mutex<Option<Reservation>>,
    closed: Notify,
}

impl ClientConnection {
    pub(crate) fn new(peer: PeerAddress) -> Self {
        Self {
            peer,
            uses: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            is_writing: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
            unended: Mutex::new(None),
            closed: Notify::new(),
        }
    }

    /// Records the begin of a request, which is under way until the returned value is dropped.
    pub(crate) fn begin_use(self: &Arc<Self>) -> ConnectionUse {
        self.uses.fetch_add(1, Ordering::AcqRel);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.release_unended();
        ConnectionUse(Arc::clone(self))
    }

    /// Whether a request is under way.
    pub(crate) fn is_in_use(&self) -> bool {
        self.uses.load(Ordering::Acquire) & !CLOSED > 0
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the time since when no request is under way and no byte of a reply waits. `None` if the
    /// connection is in use or closed.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let is_idle =
            self.uses.load(Ordering::Acquire) == 0 && !self.is_writing.load(Ordering::Relaxed);
        is_idle.then(|| *self.idle_since.lock())
    }

    /// Closes the connection unless a request is under way. Returns whether the connection was closed now.
    pub(crate) fn close_if_idle(&self) -> bool {
        let closed = self.uses.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        if closed.is_ok() {
            self.closed.notify_one();
        }
        closed.is_ok()
    }

    /// Waits until the connection is closed to make room.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Reserves memory for `bytes` that are no request yet, on behalf of the address. Fails if the budget, or
    /// the share of the address, has too little left.
    pub(crate) fn reserve_unended(&self, budget: &BufferBudget, bytes: u64) -> io::Result<()> {
        let mut unended = self.unended.lock();
        let reservation = unended.get_or_insert_with(|| {
            let owners = Owners::strangers(Some(self.peer.peer));
            budget.owned_by(owners).reservation()
        });
        let grown = reservation.grow_to(bytes);
        grown.map_err(|_| io::Error::other("no memory is left for the head of a request"))
    }

    /// Returns the memory of bytes that are no request yet.
    pub(crate) fn release_unended(&self) {
        *self.unended.lock() = None;
    }
}

#[cfg(test)]
impl ClientConnection {
    /// Whether the connection was closed to make room.
    pub(crate) fn is_closed(&self) -> bool {
        self.uses.load(Ordering::Acquire) & CLOSED > 0
    }
}

/// A request under way on a connection.
pub(crate) struct ConnectionUse(Arc<ClientConnection>);

impl Drop for ConnectionUse {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Instant::now();
        self.0.uses.fetch_sub(1, Ordering::AcqRel);
    }
}
