//! A body that grows as it comes, within its limit and the budget.

use bytes::Bytes;

use super::super::budget::{Budget, Reservation};
use crate::metrics::Unread;

/// One growing buffer.
///
/// Invariant: its capacity was asked for exactly, is reserved in the budget and at most `limit`.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    limit: u64,
    reservation: Reservation,
}

impl Buffer {
    pub(super) fn new(budget: &Budget, limit: u64) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            reservation: budget.reservation(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Copies `data` in.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn append(&mut self, data: &[u8]) -> Result<(), Unread> {
        let needed = self.bytes.len() as u64 + data.len() as u64;
        let capacity = self.bytes.capacity() as u64;
        if needed > capacity {
            let doubled = capacity.saturating_mul(2).min(self.limit);
            self.grow_to(needed.max(doubled))?;
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Makes room for so many bytes in all.
    ///
    /// # Errors
    /// They are more than the limit or than the budget has left.
    pub(super) fn grow_to(&mut self, capacity: u64) -> Result<(), Unread> {
        if capacity > self.limit {
            return Err(Unread::Large);
        }
        self.reservation
            .grow_to(capacity)
            .map_err(|_| Unread::Crowded)?;
        let capacity = usize::try_from(capacity).map_err(|_| Unread::Large)?;
        self.bytes
            .reserve_exact(capacity.saturating_sub(self.bytes.len()));
        Ok(())
    }

    /// What it holds, with its part of the budget.
    pub(super) fn into_parts(self) -> (Bytes, Reservation) {
        (Bytes::from(self.bytes), self.reservation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_geometrically_and_stops_at_its_limit() {
        let budget = Budget::new(1 << 20);
        let mut buffer = Buffer::new(&budget, 100);
        assert_eq!(buffer.grow_to(16), Ok(()));
        for _ in 0..10 {
            assert_eq!(buffer.append(b"0123456789"), Ok(()));
        }
        assert_eq!(buffer.append(b"x"), Err(Unread::Large));
        assert_eq!(buffer.bytes.len(), 100);
    }

    #[test]
    fn a_buffer_stops_where_the_budget_is_spent() {
        let budget = Budget::new(10);
        let mut buffer = Buffer::new(&budget, 100);
        assert_eq!(buffer.append(b"0123456789"), Ok(()));
        assert_eq!(buffer.append(b"x"), Err(Unread::Crowded));
    }
}
