//! A limited quantity that all callers share, of which no caller may hold more than is left to the
//! others.

use std::collections::HashMap;
use std::net::IpAddr;

use longhaul_core::collections::CacheHashState;
use longhaul_core::units::scope::Scope;
use parking_lot::Mutex;

/// Holder of a share.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Owner {
    /// A caller, identified by credentials that an upstream has accepted.
    Caller(Scope),
    /// Other callers at one address.
    Peer(IpAddr),
}

/// Divisor of the quantity that peers, however many addresses they have, leave to callers that an
/// upstream has accepted.
const RESERVED_FRACTION: u64 = 4;

/// A limited quantity. Invariant: an owner holds at most as much as is free, so at most half of
/// what the other owners leave.
#[derive(Debug)]
pub(crate) struct FairShare {
    /// Quantity that peers leave.
    reserved: u64,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    free: u64,
    /// Quantities of the owners that hold any.
    by_owner: HashMap<Owner, u64, CacheHashState>,
}

/// Error: the quantity cannot be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exhausted {
    /// Too little is free.
    Total,
    /// The owner holds its share already.
    Share,
}

impl FairShare {
    pub(crate) fn new(total: u64) -> Self {
        Self {
            reserved: total / RESERVED_FRACTION,
            held: Mutex::new(Held {
                free: total,
                by_owner: HashMap::default(),
            }),
        }
    }

    /// Takes `more` for `owner` and leaves at least `min_free` free. Without an owner, no share
    /// applies. On an error, nothing was taken.
    pub(crate) fn take(
        &self,
        owner: Option<Owner>,
        more: u64,
        min_free: u64,
    ) -> Result<(), Exhausted> {
        let mut held = self.held.lock();
        let left = held.free.checked_sub(more).ok_or(Exhausted::Total)?;
        if left < min_free {
            return Err(Exhausted::Total);
        }
        if let Some(owner) = owner {
            let own = held.by_owner.get(&owner).copied().unwrap_or_default() + more;
            let reserved = match owner {
                Owner::Caller(_) => 0,
                Owner::Peer(_) => self.reserved,
            };
            if own > left || left < reserved {
                return Err(Exhausted::Share);
            }
            held.by_owner.insert(owner, own);
        }
        held.free = left;
        Ok(())
    }

    /// Returns a quantity that was taken for `owner`.
    pub(crate) fn give_back(&self, owner: Option<Owner>, quantity: u64) {
        let mut held = self.held.lock();
        held.free += quantity;
        let Some(owner) = owner else { return };
        if let Some(own) = held.by_owner.get_mut(&owner) {
            *own = own.saturating_sub(quantity);
            if *own == 0 {
                held.by_owner.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(number: u8) -> Owner {
        Owner::Caller(Scope::new(&[0; 32], &[&[number]]))
    }

    #[test]
    fn owner_must_leave_free_as_much_as_it_holds() {
        let share = FairShare::new(16);
        assert_eq!(share.take(Some(caller(1)), 8, 0), Ok(()));
        assert_eq!(share.take(Some(caller(1)), 1, 0), Err(Exhausted::Share));
        assert_eq!(share.take(Some(caller(2)), 4, 0), Ok(()));
        assert_eq!(share.take(Some(caller(2)), 1, 0), Err(Exhausted::Share));
        assert_eq!(share.take(None, 4, 0), Ok(()), "no owner, no share");
        assert_eq!(share.take(None, 1, 0), Err(Exhausted::Total));
    }

    #[test]
    fn peers_leave_a_quarter_to_accepted_callers() {
        let share = FairShare::new(64);
        for address in 0..=255 {
            let peer = Owner::Peer(IpAddr::from([10, 0, 0, address]));
            while share.take(Some(peer), 1, 0).is_ok() {}
        }
        assert_eq!(share.held.lock().free, 16);
        assert_eq!(share.take(Some(caller(1)), 8, 0), Ok(()));
    }

    #[test]
    fn returned_bytes_are_free_for_every_owner() {
        let share = FairShare::new(16);
        assert_eq!(share.take(Some(caller(1)), 8, 0), Ok(()));
        share.give_back(Some(caller(1)), 8);
        assert_eq!(share.take(Some(caller(2)), 8, 0), Ok(()));
        assert_eq!(share.take(Some(caller(1)), 4, 0), Ok(()));
        share.give_back(Some(caller(2)), 8);
        share.give_back(Some(caller(1)), 4);
        assert!(share.held.lock().by_owner.is_empty(), "no owner is kept");
    }
}
