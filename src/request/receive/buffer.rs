//! Buffers of request bodies: their slots, their growth within the limits, and their decoding.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::coop::consume_budget;

use crate::body::budget::fair_share::FairShare;
use crate::body::budget::{BufferBudget, Exhausted, Reservation, SpareBuffer};
use crate::body::coding::{DecodeError, Decoder};
use crate::body::slow_bodies::{BodyProgress, SlowBodies};
use crate::callers::owners::Owners;
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
        let most = if needed <= self.expected { self.expected.min(self.limit) } else { self.limit };
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

    pub(super) fn into_parts(self) -> (Bytes, Reservation) {
        (self.spare.recycle_on_drop(self.bytes), self.reservation)
    }
}

/// Slots for concurrent requests. Clones share the slots.
#[derive(Clone, Debug)]
pub(crate) struct RequestSlots {
    share: Arc<FairShare>,
    bodies: Arc<SlowBodies>,
}

impl RequestSlots {
    pub(crate) fn new(limit: u32) -> Self {
        Self { share: Arc::new(FairShare::new(limit.into())), bodies: Arc::default() }
    }

    /// Takes a slot for a request of `owners`, which holds `memory` until its end. If the slots have run
    /// out, ends a slow body of an owner that holds more. Fails if all slots, or an owner's share of
    /// them, are taken.
    pub(crate) fn take(
        &self,
        owners: Owners,
        memory: Reservation,
    ) -> Result<RequestSlot, Exhausted> {
        let taken = self.share.take(Some(&owners), 1, 0);
        taken.or_else(|exhausted| {
            if !self.end_slow_body(&owners) {
                return Err(exhausted);
            }
            self.share.take(Some(&owners), 1, 0)
        })?;
        Ok(RequestSlot {
            share: Arc::clone(&self.share),
            progress: self.bodies.start(owners),
            _memory: memory,
        })
    }

    /// Ends a slow body of an owner that holds more than `owners`, if the slots have run out. Returns
    /// whether a slot became free. Callers whom nobody has accepted end no body of others.
    fn end_slow_body(&self, owners: &Owners) -> bool {
        if !owners.is_accepted || !self.share.has_run_out() {
            return false;
        }
        let own = self.share.held_by(owners) + 1;
        let ended = self.bodies.end_slowest(|other| self.share.held_by(other), own);
        let Some(ended) = ended else {
            return false;
        };
        tracing::warn!("ended a slow request body: no slot was left for another request");
        if ended.may_return_slot() {
            self.share.give_back(Some(&ended.owners), 1);
        }
        true
    }
}

#[derive(Debug)]
pub(crate) struct RequestSlot {
    share: Arc<FairShare>,
    pub(crate) progress: Arc<BodyProgress>,
    /// Memory that the request takes until its end.
    _memory: Reservation,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        // The slot of a body that was ended has a new holder.
        if self.progress.may_return_slot() {
            self.share.give_back(Some(&self.progress.owners), 1);
        }
    }
}

#[cfg(test)]
mod slots_tests {
    use std::task::Waker;
    use std::time::Duration;

    use longhaul_core::units::scope::ScopeTag;

    use super::*;
    use crate::body::budget::BufferBudget;

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_gives_way_once_slots_run_out_and_not_before() {
        let slots = RequestSlots::new(16);
        let take = |owner: u8| {
            let owners = Owners::of_tags(&[ScopeTag([owner; 8])]);
            slots.take(owners, BufferBudget::new(1).reservation())
        };
        let held: Vec<RequestSlot> =
            (0..=9).flat_map(|owner| (0..8).map_while(move |_| take(owner).ok())).collect();
        for slot in &held {
            slot.progress.record_wait(Waker::noop());
        }
        assert!(take(10).is_err(), "none is slow yet");
        tokio::time::advance(Duration::from_secs(10)).await;
        let first = take(10).unwrap();
        let ended = held.iter().filter(|slot| slot.progress.is_ended());
        assert_eq!(ended.count(), 1);
        assert!(held[..8].iter().any(|slot| slot.progress.is_ended()));
        drop((first, held));
        let _large = (0..8).map(|_| take(1).unwrap()).collect::<Vec<_>>();
        assert!(take(1).is_err(), "the share of one owner");
        assert!(take(2).is_ok());
    }
}

pub(super) struct BodyDecoding {
    decoder: Decoder,
    plain: BodyBuffer,
}

impl BodyDecoding {
    /// Creates a decoder for a body of at most `limit` decoded bytes. Fails if the budget has no
    /// space for the decoder.
    pub(super) fn new(
        decoder: Decoder,
        budget: &BufferBudget,
        limit: u64,
    ) -> Result<Self, UnreadReason> {
        let decoder = decoder.with_max_bytes(limit).charged_to(budget.reservation());
        Ok(Self {
            decoder: decoder.map_err(UnreadReason::from)?,
            plain: BodyBuffer::new(budget, limit, None),
        })
    }

    /// Decodes the next chunk. Yields to other tasks in between, because a chunk may inflate to
    /// many bytes. Fails if the chunk is corrupt or exceeds a limit.
    pub(super) async fn push(&mut self, mut chunk: &[u8]) -> Result<(), UnreadReason> {
        while let Some(piece) = self.decoder.decode_step(&mut chunk).map_err(unread)? {
            self.plain.append(piece)?;
            consume_budget().await;
        }
        Ok(())
    }

    /// Returns the decoded body and its budget reservation. Fails if the encoded body ended early.
    pub(super) fn end(mut self) -> Result<(Bytes, Reservation), UnreadReason> {
        if self.decoder.is_ended() {
            Ok(self.plain.into_parts())
        } else {
            Err(UnreadReason::Corrupt)
        }
    }
}

fn unread(why: DecodeError) -> UnreadReason {
    match why {
        DecodeError::Bomb => UnreadReason::Bomb,
        DecodeError::Corrupt => UnreadReason::Corrupt,
        DecodeError::TooLarge => UnreadReason::Large,
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
        check(Some(20 << 20), &[1, 8 * MIB, 8 * MIB], &[8 * MIB, 16 * MIB, 20 * MIB]);
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

#[cfg(test)]
mod decoding_tests {
    use http::header::CONTENT_ENCODING;
    use http::{HeaderMap, HeaderValue};

    use super::*;

    /// Decodes zstd within these limits.
    async fn check(
        encoded: &[u8],
        limit: u64,
        budget: &BufferBudget,
    ) -> Result<Bytes, UnreadReason> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
        let mut decoding =
            BodyDecoding::new(Decoder::from_headers(&headers).unwrap(), budget, limit)?;
        for chunk in encoded.chunks(1_000) {
            decoding.push(chunk).await?;
        }
        decoding.end().map(|(text, _)| text)
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 3).unwrap()
    }

    #[tokio::test]
    async fn reads_an_encoded_body_decoded() {
        let budget = BufferBudget::new(64 << 20);
        let got = check(&zstd(b"{}"), 10, &budget).await;
        assert_eq!(got.as_deref(), Ok(&b"{}"[..]));
    }

    #[tokio::test]
    async fn reports_each_reason_for_not_reading_a_body() {
        let budget = BufferBudget::new(64 << 20);
        let limit = 32 << 20;
        let spaces = zstd(&vec![b' '; 1 << 20]);
        assert_eq!(check(&spaces, limit, &budget).await, Err(UnreadReason::Bomb));
        assert_eq!(check(b"{}{}{}", limit, &budget).await, Err(UnreadReason::Corrupt));
        let half = &zstd(b"{\"a\":1}")[..8];
        assert_eq!(check(half, limit, &budget).await, Err(UnreadReason::Corrupt));
        assert_eq!(check(&zstd(b"0123456789"), 9, &budget).await, Err(UnreadReason::Large));
    }

    #[tokio::test]
    async fn decoder_reserves_budget_and_releases_it() {
        assert_eq!(
            check(&zstd(b"{}"), 10, &BufferBudget::new(1 << 20)).await,
            Err(UnreadReason::Crowded),
            "no space for a window"
        );
        let budget = BufferBudget::new(9 << 20);
        let sixty = vec![b' '; 60_000];
        for _ in 0..100 {
            assert!(check(&zstd(&sixty), 1 << 20, &budget).await.is_ok());
        }
        assert_eq!(budget.reservation().grow_to(9 << 20), Ok(()));
    }
}
