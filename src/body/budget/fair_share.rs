//! A limited quantity that all callers share, of which no owner may hold more than is left to the others.

use std::collections::HashMap;
use std::net::IpAddr;

use longhaul_core::collections::CacheHashState;
use parking_lot::Mutex;

use crate::callers::owners::{OwnerTag, Owners};

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Holder {
    Credential(OwnerTag),
    /// Everyone at one address.
    Peer(IpAddr),
    /// Callers at one address whose credentials nobody has accepted.
    Strangers(IpAddr),
}

/// Divisor of the quantity that strangers, however many addresses they have, leave to callers that an
/// upstream has accepted.
const RESERVED_FRACTION: u64 = 4;
/// Divisor of the quantity that an address leaves to addresses that hold less.
const LAST_FRACTION: u64 = 8;

/// A limited quantity. Invariants, after each grant:
///
/// - a credential holds at most as much as is free, so at most half of what the others leave;
/// - so do the strangers at one address, and all strangers leave a quarter of the total;
/// - an address that holds more than is free leaves an eighth of the total.
///
/// Callers at one address, such as those of a reverse proxy, thus keep a share for each credential.
#[derive(Debug)]
pub(crate) struct FairShare {
    total: u64,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    free: u64,
    by_holder: HashMap<Holder, u64, CacheHashState>,
}

/// Error: the quantity cannot be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exhausted {
    /// Too little is free.
    Total,
    /// An owner holds its share already.
    Share,
}

impl FairShare {
    pub(crate) fn new(total: u64) -> Self {
        Self { total, held: Mutex::new(Held { free: total, by_holder: HashMap::default() }) }
    }

    /// Takes `more` for `owners` and leaves at least `min_free` free. Without owners, no share
    /// applies. On an error, nothing was taken.
    pub(crate) fn take(
        &self,
        owners: Option<&Owners>,
        more: u64,
        min_free: u64,
    ) -> Result<(), Exhausted> {
        let mut held = self.held.lock();
        let left = held.free.checked_sub(more).ok_or(Exhausted::Total)?;
        if left < min_free {
            return Err(Exhausted::Total);
        }
        if let Some(owners) = owners {
            let is_within_share = |holder| {
                let fits = held.quantity(&holder) + more <= left;
                match holder {
                    Holder::Credential(_) => fits,
                    Holder::Strangers(_) => fits && left >= self.total / RESERVED_FRACTION,
                    Holder::Peer(_) => fits || left >= self.total / LAST_FRACTION,
                }
            };
            if !holders(owners).all(is_within_share) {
                return Err(Exhausted::Share);
            }
            for holder in holders(owners) {
                *held.by_holder.entry(holder).or_default() += more;
            }
        }
        held.free = left;
        Ok(())
    }

    pub(crate) fn give_back(&self, owners: Option<&Owners>, quantity: u64) {
        let mut held = self.held.lock();
        held.free += quantity;
        for holder in owners.into_iter().flat_map(holders) {
            if let Some(own) = held.by_holder.get_mut(&holder) {
                *own = own.saturating_sub(quantity);
                if *own == 0 {
                    held.by_holder.remove(&holder);
                }
            }
        }
    }

    /// Whether so little is free that an address leaves the rest to others.
    pub(crate) fn has_run_out(&self) -> bool {
        self.held.lock().free <= (self.total / LAST_FRACTION).max(1)
    }

    /// Returns the largest quantity that one credential of `owners` holds, or else its address.
    pub(crate) fn held_by(&self, owners: &Owners) -> u64 {
        let held = self.held.lock();
        let of_one = |holder: &Holder| !matches!(holder, Holder::Peer(_));
        let quantities = holders(owners).filter(of_one).map(|holder| held.quantity(&holder));
        quantities.max().unwrap_or_default()
    }
}

impl Held {
    fn quantity(&self, holder: &Holder) -> u64 {
        self.by_holder.get(holder).copied().unwrap_or_default()
    }
}

fn holders(owners: &Owners) -> impl Iterator<Item = Holder> {
    let strangers = owners.peer().filter(|_| !owners.is_accepted);
    let credentials = owners.credentials().iter().copied();
    credentials
        .map(Holder::Credential)
        .chain(strangers.map(Holder::Strangers))
        .chain(owners.peer().map(Holder::Peer))
}

#[cfg(test)]
mod tests {
    use longhaul_core::units::scope::ScopeTag;

    use super::*;

    fn tag(number: u8) -> OwnerTag {
        ScopeTag([number; 8])
    }

    fn caller(number: u8) -> Owners {
        Owners::of_tags(&[tag(number)])
    }

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn take_all(share: &FairShare, owners: &Owners) -> u64 {
        let mut taken = 0;
        while share.take(Some(owners), 1, 0).is_ok() {
            taken += 1;
        }
        taken
    }

    #[test]
    fn owner_must_leave_free_as_much_as_it_holds() {
        let share = FairShare::new(16);
        assert_eq!(share.take(Some(&caller(1)), 8, 0), Ok(()));
        assert_eq!(share.take(Some(&caller(1)), 1, 0), Err(Exhausted::Share));
        assert_eq!(share.take(Some(&caller(2)), 4, 0), Ok(()));
        assert_eq!(share.take(Some(&caller(2)), 1, 0), Err(Exhausted::Share));
        assert_eq!(share.take(None, 4, 0), Ok(()), "no owner, no share");
        assert_eq!(share.take(None, 1, 0), Err(Exhausted::Total));
    }

    #[test]
    fn a_request_counts_against_each_of_its_credentials() {
        let share = FairShare::new(64);
        let taken = (2..200).filter(|made_up| {
            let owners = Owners::of_tags(&[tag(*made_up), tag(1)]);
            share.take(Some(&owners), 1, 0).is_ok()
        });
        assert_eq!(taken.count(), 32);
        assert_eq!(share.take(Some(&caller(1)), 1, 0), Err(Exhausted::Share));
        assert_eq!(share.take(Some(&caller(201)), 16, 0), Ok(()));
    }

    #[test]
    fn peers_leave_a_quarter_to_accepted_callers() {
        let share = FairShare::new(64);
        for number in 0..=255 {
            take_all(&share, &Owners::strangers(Some(address(number))));
        }
        assert_eq!(share.held.lock().free, 16);
        assert_eq!(share.take(Some(&caller(1)), 8, 0), Ok(()));
    }

    #[test]
    fn accepted_callers_of_one_address_have_shares_and_leave_the_last_places() {
        let share = FairShare::new(64);
        let at = |number, place| Owners::of_tag(tag(number), Some(address(place)));
        let taken: Vec<u64> = (1..=4).map(|one| take_all(&share, &at(one, 1))).collect();
        assert_eq!(taken, [32, 16, 8, 0]);
        assert_eq!(take_all(&share, &Owners::strangers(Some(address(1)))), 0);
        assert_eq!(take_all(&share, &at(9, 2)), 4, "half of what is left");
    }

    #[test]
    fn returned_bytes_are_free_for_every_owner() {
        let share = FairShare::new(16);
        let one = Owners::of_tag(tag(1), Some(address(1)));
        assert_eq!(share.take(Some(&one), 8, 0), Ok(()));
        assert_eq!(share.held_by(&one), 8);
        share.give_back(Some(&one), 8);
        assert_eq!(share.take(Some(&caller(2)), 8, 0), Ok(()));
        assert_eq!(share.take(Some(&one), 4, 0), Ok(()));
        share.give_back(Some(&caller(2)), 8);
        share.give_back(Some(&one), 4);
        assert!(share.held.lock().by_holder.is_empty(), "no owner is kept");
    }
}
