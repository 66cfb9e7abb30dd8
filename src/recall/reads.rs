//! The places of concurrent reads, of which each owner has a share.

use std::sync::LazyLock;

use tokio::sync::Notify;

use crate::body::budget::fair_share::FairShare;
use crate::callers::owners::Owners;

/// Maximum concurrent reads; further ones wait. A read may decrypt a whole history.
const MAX_READS: u64 = 4;

static READS: LazyLock<Reads> = LazyLock::new(|| Reads {
    places: FairShare::new(MAX_READS),
    freed: Notify::new(),
});

struct Reads {
    places: FairShare,
    freed: Notify,
}

/// A place, returned on drop.
pub(super) struct ReadPlace(Owners);

impl ReadPlace {
    /// Waits for a place of these owners.
    pub(super) async fn acquire(owners: Owners) -> Self {
        loop {
            let freed = READS.freed.notified();
            if READS.places.take(Some(&owners), 1, 0).is_ok() {
                return Self(owners);
            }
            freed.await;
        }
    }
}

impl Drop for ReadPlace {
    fn drop(&mut self) {
        READS.places.give_back(Some(&self.0), 1);
        READS.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use longhaul_core::units::scope::ScopeTag;

    use super::*;

    #[tokio::test]
    async fn reads_of_one_owner_leave_a_place_to_another() {
        let owners = |number| Owners::of_tags(&[ScopeTag([number; 8])]);
        let try_acquire = async |number| {
            tokio::select! {
                biased;
                place = ReadPlace::acquire(owners(number)) => Some(place),
                () = ready(()) => None,
            }
        };
        let first = try_acquire(1).await;
        let second = try_acquire(1).await;
        assert!(first.is_some() && second.is_some());
        assert!(try_acquire(1).await.is_none());
        assert!(try_acquire(2).await.is_some());
        let waiting = tokio::spawn(ReadPlace::acquire(owners(1)));
        tokio::task::yield_now().await;
        drop(first);
        waiting.await.unwrap();
    }
}
