//! The open connections of a listener, of which each address has a share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::body::budget::Exhausted;
use crate::body::budget::fair_share::FairShare;
use crate::callers::owners::Owners;
use crate::exchange::client_connection::ClientConnection;
use crate::request::peer_address::PeerAddress;
use longhaul_core::collections::CacheHashState;

/// Divisor of the places that idle connections leave at once when none is free: the search for them looks
/// at each connection.
const ROOM_FRACTION: u64 = 64;
pub(crate) struct Connections {
    /// Maximum number of open connections.
    pub(super) limit: u64,
    /// Name of the setting or constant that defines the limit.
    pub(super) limit_name: &'static str,
    places: FairShare,
    open: Mutex<HashMap<usize, Arc<ClientConnection>, CacheHashState>>,
}

/// An open connection, and its place until the value is dropped.
pub(crate) struct OpenConnection {
    pub(crate) connection: Arc<ClientConnection>,
    all: Arc<Connections>,
}

impl Connections {
    /// Creates places for `limit` connections, a limit named `limit_name`.
    pub(crate) fn new(limit: u32, limit_name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.into(),
            limit_name,
            places: FairShare::new(limit.into()),
            open: Mutex::default(),
        })
    }

    /// Takes a place for a connection from `peer`. Fails if all places, or the share of the address, are
    /// taken.
    pub(super) fn open(self: &Arc<Self>, peer: PeerAddress) -> Result<OpenConnection, Exhausted> {
        self.places.take(Some(&Owners::of_address(peer.peer)), 1, 0)?;
        let connection = Arc::new(ClientConnection::new(peer));
        let key = key(&connection);
        self.open.lock().insert(key, Arc::clone(&connection));
        Ok(OpenConnection { connection, all: Arc::clone(self) })
    }

    /// Closes idle connections of the address that has the most: first those without any request so far,
    /// then those that have been idle longest. For a connection from `peer`, other addresses that have no
    /// more stay. Returns whether a place became free.
    pub(super) fn make_room(&self, peer: PeerAddress) -> bool {
        let mut idle: Vec<(bool, Instant, Arc<ClientConnection>)> = {
            let open = self.open.lock();
            let by_peer = |peer: IpAddr| {
                let connections = open.values().filter(move |open| open.peer.peer == peer);
                connections.filter_map(|open| {
                    let since = open.idle_since()?;
                    Some((open.requests() > 0, since, Arc::clone(open)))
                })
            };
            let gives_way = largest_peer(open.values(), peer.peer);
            gives_way.into_iter().flat_map(by_peer).collect()
        };
        idle.sort_unstable_by_key(|(has_asked, since, _)| (*has_asked, *since));
        let most = usize::try_from(self.limit / ROOM_FRACTION).unwrap_or(usize::MAX).max(1);
        let closed = idle.iter().filter(|(_, _, connection)| connection.close_if_idle());
        closed.take(most).inspect(|(_, _, connection)| self.forget(connection)).count() > 0
    }

    pub(super) fn has_any(&self, peer: PeerAddress) -> bool {
        let open = self.open.lock();
        open.values().any(|open| open.peer.peer == peer.peer)
    }

    fn forget(&self, connection: &Arc<ClientConnection>) {
        if self.open.lock().remove(&key(connection)).is_some() {
            self.places.give_back(Some(&Owners::of_address(connection.peer.peer)), 1);
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.forget(&self.connection);
    }
}

/// Returns the address with the most connections, of those with an idle one. Addresses other than `peer` count
/// only if they have more.
fn largest_peer<'c>(
    open: impl Iterator<Item = &'c Arc<ClientConnection>>,
    peer: IpAddr,
) -> Option<IpAddr> {
    let mut by_peer = HashMap::<IpAddr, (u64, bool), CacheHashState>::default();
    for connection in open {
        let (count, has_idle) = by_peer.entry(connection.peer.peer).or_default();
        *count += 1;
        *has_idle |= connection.idle_since().is_some();
    }
    let own = by_peer.get(&peer).map_or(0, |(count, _)| *count);
    let may_give_way = |(other, (count, has_idle)): &(IpAddr, (u64, bool))| {
        *has_idle && (*count > own || *other == peer)
    };
    let candidates = by_peer.into_iter().filter(may_give_way);
    candidates.max_by_key(|(_, (count, _))| *count).map(|(peer, _)| peer)
}

fn key(connection: &Arc<ClientConnection>) -> usize {
    Arc::as_ptr(connection).addr()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn peer(number: u8) -> PeerAddress {
        PeerAddress::new(IpAddr::from([10, 0, 0, number]))
    }

    fn open_all(connections: &Arc<Connections>, peers: &[u8]) -> Vec<OpenConnection> {
        let opened = peers.iter().map(|number| connections.open(peer(*number)));
        opened.map_while(Result::ok).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_leaves_the_last_places_and_makes_room_for_itself() {
        let connections = Connections::new(16, "sixteen");
        let mut open = Vec::new();
        while let Ok(one) = connections.open(peer(1)) {
            open.push(one);
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(open.len(), 14);
        let other = connections.open(peer(2)).unwrap();
        assert!(connections.make_room(peer(1)));
        assert!(open[0].connection.is_closed(), "the oldest");
        assert!(!open[1].connection.is_closed());
        while connections.open(peer(1)).is_err() {
            assert!(connections.make_room(peer(1)));
        }
        drop((open, other));
        assert!(connections.open.lock().is_empty());
    }

    #[tokio::test]
    async fn no_connection_with_a_request_makes_room() {
        let connections = Connections::new(4, "four");
        let open = open_all(&connections, &[1, 1, 2, 3]);
        let uses: Vec<_> = open.iter().map(|open| open.connection.begin_use()).collect();
        assert!(!connections.make_room(peer(4)));
        open[2].connection.is_writing.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(uses);
        assert!(connections.make_room(peer(4)));
        let closed = open.iter().map(|open| open.connection.is_closed());
        assert_eq!(closed.filter(|is_closed| *is_closed).count(), 1);
        assert!(open[..2].iter().any(|open| open.connection.is_closed()));
        assert!(!connections.make_room(peer(2)), "bytes of a reply wait");
    }
}
