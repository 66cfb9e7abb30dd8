//! The memory budget that all buffered bodies share.

pub(crate) mod fair_share;
pub(crate) mod spare_buffer;

use std::sync::Arc;

pub(crate) use fair_share::Exhausted;
use fair_share::FairShare;
pub(crate) use spare_buffer::SpareBuffer;

use crate::callers::owners::Owners;

/// Bytes that may be buffered at once, over all requests. Clones share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct BufferBudget {
    bytes: Arc<FairShare>,
    limit: u64,
    /// Owners of the reservations. `None` for longhaul itself.
    owners: Option<Owners>,
    spare_buffer: SpareBuffer,
}

impl BufferBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            bytes: Arc::new(FairShare::new(bytes)),
            limit: bytes,
            owners: None,
            spare_buffer: SpareBuffer::default(),
        }
    }

    /// Returns a handle whose reservations count against `owners`.
    pub(crate) fn owned_by(&self, owners: Owners) -> Self {
        Self { owners: Some(owners), ..self.clone() }
    }

    /// Returns a handle to the spare buffer, left by a long body.
    pub(crate) fn spare_buffer(&self) -> SpareBuffer {
        self.spare_buffer.clone()
    }

    pub(crate) fn reservation(&self) -> Reservation {
        self.reservation_leaving(0)
    }

    /// Creates an empty reservation that leaves half of the budget free for others. Used for data
    /// that is held long and is dispensable.
    pub(crate) fn low_priority_reservation(&self) -> Reservation {
        self.reservation_leaving(self.limit / 2)
    }

    /// Creates an empty reservation that leaves three quarters of the budget free, for bytes that are read
    /// before anyone needs them. Readers of replies, of low priority, then still have a quarter.
    pub(crate) fn read_ahead_reservation(&self) -> Reservation {
        self.reservation_leaving(self.limit / 4 * 3)
    }

    fn reservation_leaving(&self, min_free: u64) -> Reservation {
        let (pool, owners) = (Arc::clone(&self.bytes), self.owners.clone());
        Reservation { pool, owners, bytes: 0, min_free }
    }
}

/// A part of the budget, returned on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    pool: Arc<FairShare>,
    owners: Option<Owners>,
    bytes: u64,
    /// Bytes that must stay free when this reservation grows.
    min_free: u64,
}

impl Reservation {
    /// Grows the reservation to `bytes` in total. An error leaves the reservation unchanged. Fails
    /// if the budget, or an owner's share of the budget, has too little left.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        self.pool.take(self.owners.as_ref(), more, self.min_free)?;
        self.bytes += more;
        Ok(())
    }

    /// Merges another reservation of the same owners into this one.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.pool.give_back(self.owners.as_ref(), self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_growth_beyond_the_budget_and_keeps_the_reservation() {
        let budget = BufferBudget::new(10);
        let (mut one, mut two) = (budget.reservation(), budget.reservation());
        assert_eq!(one.grow_to(6), Ok(()));
        assert_eq!(two.grow_to(5), Err(Exhausted::Total));
        assert_eq!(two.grow_to(4), Ok(()));
        assert_eq!(one.grow_to(3), Ok(()), "a smaller total takes nothing");
        assert_eq!(one.grow_to(7), Err(Exhausted::Total));
    }

    #[test]
    fn low_priority_reservation_leaves_half_to_others() {
        let budget = BufferBudget::new(10);
        let (mut lesser, mut own) = (budget.low_priority_reservation(), budget.reservation());
        assert_eq!(lesser.grow_to(6), Err(Exhausted::Total));
        assert_eq!(lesser.grow_to(5), Ok(()));
        assert_eq!(own.grow_to(5), Ok(()));
        assert_eq!(budget.low_priority_reservation().grow_to(0), Ok(()), "always fits");
    }

    #[test]
    fn merged_reservations_are_released_together() {
        let budget = BufferBudget::new(10);
        let (mut one, mut two) = (budget.reservation(), budget.reservation());
        assert_eq!((one.grow_to(4), two.grow_to(6)), (Ok(()), Ok(())));
        one.merge(two);
        assert_eq!(budget.reservation().grow_to(1), Err(Exhausted::Total));
        drop(one);
        assert_eq!(budget.reservation().grow_to(10), Ok(()));
    }

    #[test]
    fn a_dropped_reservation_is_free_again() {
        let budget = BufferBudget::new(10);
        let mut one = budget.reservation();
        assert_eq!(one.grow_to(10), Ok(()));
        drop(one);
        assert_eq!(budget.reservation().grow_to(10), Ok(()));
    }
}
