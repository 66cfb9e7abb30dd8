//! A growing buffer for a request body, within the body limit and the memory budget.

use bytes::Bytes;

use crate::body::budget::{BufferBudget, Reservation, SpareBuffer};
use crate::limits::BODY_RESERVE_BYTES;
use crate::metrics::UnreadReason;

/// Initial capacity for a body of undeclared size. Growth from there is geometric.
const BODY_FIRST_BYTES: u64 = 16 * 1024;

/// A growing body buffer.
///
/// Invariant: the buffered bytes are reserved in the budget, and never exceed `limit`. Unwritten
/// capacity is not reserved: a client that declares much and sends little must not keep out other
/// bodies.
pub(super) struct BodyBuffer {
    bytes: Vec<u8>,
    /// Declared length, or the initial capacity.
    expected: u64,
    limit: u64,
    reservation: Reservation,
    spare: SpareBuffer,
}

impl BodyBuffer {
    /// Creates a buffer for at most `limit` bytes. `declared` is the declared length.
    pub(super) fn new(budget: &BufferBudget, limit: u64, declared: Option<u64>) -> Self {
        Self {
            bytes: Vec::new(),
            expected: declared.unwrap_or(BODY_FIRST_BYTES),
            limit,
            reservation: budget.reservation(),
            spare: budget.spare_buffer(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends a copy of `data`. Fails if the limit or the budget is exhausted.
    pub(super) fn append(&mut self, data: &[u8]) -> Result<(), UnreadReason> {
        let needed = self.bytes.len() as u64 + data.len() as u64;
        self.reserve(needed)?;
        if needed > self.bytes.capacity() as u64 {
            self.make_room_for(needed)?;
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Grows the reservation to `bytes` in total. Fails if `bytes` exceeds the limit, or the rest
    /// of the budget.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<(), UnreadReason> {
        if bytes > self.limit {
            return Err(UnreadReason::Large);
        }
        let reserved = self.reservation.grow_to(bytes);
        reserved.map_err(UnreadReason::from)
    }

    /// Doubles the capacity, but stops at the expected length while that is not exceeded. A long
    /// body reuses a spare allocation, if there is one.
    fn make_room_for(&mut self, needed: u64) -> Result<(), UnreadReason> {
        let doubled = (self.bytes.capacity() as u64).saturating_mul(2);
        let room = doubled.max(self.expected.min(BODY_RESERVE_BYTES));
        let most = if needed <= self.expected {
            self.expected.min(self.limit)
        } else {
            self.limit
        };
        let room = room.min(most).max(needed);
        let coming = if needed <= self.expected { most } else { room };
        if let Some(mut spare) = self.spare.take(coming) {
            spare.extend_from_slice(&self.bytes);
            self.bytes = spare;
        }
        let room = usize::try_from(room).map_err(|_| UnreadReason::Large)?;
        self.bytes.reserve_exact(room - self.bytes.len());
        Ok(())
    }

    /// Returns the bytes and their budget reservation.
    pub(super) fn into_parts(self) -> (Bytes, Reservation) {
        (self.spare.recycle_on_drop(self.bytes), self.reservation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the capacity after appending each of `pieces` to a buffer with this declared length.
    fn check(declared: Option<u64>, pieces: &[usize], expect: &[usize]) {
        let budget = BufferBudget::new(1 << 30);
        let mut buffer = BodyBuffer::new(&budget, 100 << 20, declared);
        let rooms = pieces.iter().map(|piece| {
            buffer.append(&vec![b'x'; *piece]).unwrap();
            buffer.bytes.capacity()
        });
        assert_eq!(rooms.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn allocates_the_declared_length_at_once_unless_it_is_long() {
        const MIB: usize = 1 << 20;
        check(Some(3_000_000), &[1, 2_999_999], &[3_000_000; 2]);
        check(
            Some(20 << 20),
            &[1, 8 * MIB, 8 * MIB],
            &[8 * MIB, 16 * MIB, 20 * MIB],
        );
    }

    #[test]
    fn buffer_doubles_without_or_beyond_a_declared_length() {
        check(None, &[1, 16_384, 20_000], &[16_384, 32_768, 65_536]);
        check(Some(10), &[10, 1, 30], &[10, 20, 41]);
    }

    #[test]
    fn a_buffer_stops_at_its_limit() {
        let budget = BufferBudget::new(1 << 20);
        let mut buffer = BodyBuffer::new(&budget, 100, None);
        for _ in 0..10 {
            assert_eq!(buffer.append(b"0123456789"), Ok(()));
        }
        assert_eq!(buffer.append(b"x"), Err(UnreadReason::Large));
        assert_eq!(buffer.bytes.len(), 100);
    }

    #[test]
    fn buffer_reserves_what_it_holds_and_stops_if_the_budget_is_spent() {
        let budget = BufferBudget::new(10);
        let mut buffer = BodyBuffer::new(&budget, 1 << 20, Some(1 << 20));
        assert_eq!(buffer.append(b"0"), Ok(()));
        let mut other = budget.reservation();
        assert_eq!(other.grow_to(9), Ok(()));
        assert_eq!(buffer.append(b"1"), Err(UnreadReason::Crowded));
        drop(other);
        assert_eq!(buffer.append(b"123456789"), Ok(()));
        assert_eq!(buffer.append(b"x"), Err(UnreadReason::Crowded));
    }
}
