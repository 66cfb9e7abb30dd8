//! The room of a long body that has gone, kept a while for the next one.
//!
//! An allocator hands out long rooms page by page from the kernel, which clears each of them: for a
//! conversation of many megabytes that came to as much again as all other work on it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::limits::BODY_RESERVE_BYTES;
use crate::lock::Mutex;

/// How long the room of a body that was longer than [`BODY_AHEAD_BYTES`] is kept for the next one: a
/// model takes as long over such a history. There is one such room at most, of the longest.
const SPARE_LIFETIME: Duration = Duration::from_mins(1);

/// At most one room, and for [`SPARE_FOR`] at most.
///
/// Nobody reads what was left there: it is a vector without elements.
#[derive(Clone, Debug, Default)]
pub(in crate::proxy) struct SpareBuffer(Arc<Mutex<SpareSlot>>);

#[derive(Debug, Default)]
struct SpareSlot {
    buffer: Vec<u8>,
    /// When the room was put here, if anyone waits to let it go.
    put_at: Option<Instant>,
}

impl SpareBuffer {
    /// The room that is kept, for a body that will come to so many bytes: a long one, one that fills
    /// half of it, and one half of which it has room for.
    pub(in crate::proxy) fn take(&self, bytes: u64) -> Option<Vec<u8>> {
        if bytes <= BODY_RESERVE_BYTES {
            return None;
        }
        let mut kept = self.0.lock();
        let room = kept.buffer.capacity() as u64;
        let fits = room > 0 && room / 2 <= bytes && bytes / 2 <= room;
        fits.then(|| std::mem::take(&mut kept.buffer))
    }

    /// `bytes`, whose room is kept when the last who holds it lets it go, if it is a long one.
    pub(in crate::proxy) fn recycle_on_drop(&self, bytes: Vec<u8>) -> Bytes {
        if bytes.capacity() as u64 <= BODY_RESERVE_BYTES {
            return Bytes::from(bytes);
        }
        let spare = self.clone();
        Bytes::from_owner(RecycledBody { bytes, spare })
    }

    /// Keeps `room` if it is the longest, and has it let go in time.
    fn put_back(&self, mut room: Vec<u8>) {
        // Without a runtime nothing would let it go.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        room.clear();
        let mut kept = self.0.lock();
        if room.capacity() <= kept.buffer.capacity() {
            return;
        }
        let shorter = std::mem::replace(&mut kept.buffer, room);
        let is_watched = kept.put_at.replace(Instant::now()).is_some();
        drop(kept);
        drop(shorter);
        if !is_watched {
            runtime.spawn(self.clone().release_when_expired());
        }
    }

    /// Lets the room go once it has lain here for [`SPARE_FOR`]; ends when there is none.
    async fn release_when_expired(self) {
        while let Some(until) = self.expiry() {
            sleep_until(until).await;
        }
    }

    /// Until when there is a room, if there is one.
    fn expiry(&self) -> Option<Instant> {
        let mut kept = self.0.lock();
        let until = kept.put_at? + SPARE_LIFETIME;
        if kept.buffer.capacity() > 0 && Instant::now() < until {
            return Some(until);
        }
        *kept = SpareSlot::default();
        None
    }
}

/// The bytes of a body, in a room that is put back.
struct RecycledBody {
    bytes: Vec<u8>,
    spare: SpareBuffer,
}

impl AsRef<[u8]> for RecycledBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for RecycledBody {
    fn drop(&mut self) {
        self.spare.put_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 16 << 20;

    /// A spare that a body of so many bytes has just gone from, and where that one stood.
    fn after(bytes: usize) -> (SpareBuffer, *const u8) {
        let spare = SpareBuffer::default();
        let body = spare.recycle_on_drop(vec![b'x'; bytes]);
        let stood = body.as_ptr();
        drop(body);
        (spare, stood)
    }

    #[tokio::test(start_paused = true)]
    async fn the_room_of_a_long_body_is_the_next_ones() {
        let (spare, stood) = after(LONG);
        let room = spare.take(LONG as u64 + 1).unwrap();
        assert_eq!((room.as_ptr(), room.len()), (stood, 0));
        assert_eq!(spare.take(LONG as u64), None, "there is one");
        drop(spare.recycle_on_drop(room));
        assert!(spare.take(LONG as u64).is_some(), "it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_less_than_half_or_more_than_twice_as_much_takes_a_room_of_its_own() {
        let (spare, _) = after(3 * LONG);
        assert_eq!(spare.take(LONG as u64), None);
        assert_eq!(spare.take(6 * LONG as u64 + 2), None);
        assert_eq!(spare.take(10), None);
        let room = spare.take(6 * LONG as u64);
        drop(room.map(|room| spare.recycle_on_drop(room)));
        assert!(spare.take(3 * LONG as u64 / 2).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_room_of_a_short_body_is_let_go_at_once() {
        let (spare, _) = after(LONG / 2);
        assert_eq!(spare.0.lock().buffer.capacity(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_is_kept() {
        let (spare, _) = after(LONG);
        drop(spare.recycle_on_drop(vec![b'x'; 2 * LONG]));
        drop(spare.recycle_on_drop(vec![b'x'; LONG]));
        assert_eq!(spare.0.lock().buffer.capacity(), 2 * LONG);
    }

    #[tokio::test(start_paused = true)]
    async fn a_room_that_nobody_wants_is_let_go() {
        let (spare, _) = after(LONG);
        tokio::time::sleep(SPARE_LIFETIME / 2).await;
        drop(
            spare
                .take(LONG as u64)
                .map(|room| spare.recycle_on_drop(room)),
        );
        tokio::time::sleep(SPARE_LIFETIME * 3 / 4).await;
        assert_eq!(spare.0.lock().buffer.capacity(), LONG, "it was used since");
        tokio::time::sleep(SPARE_LIFETIME / 2).await;
        assert_eq!(spare.0.lock().buffer.capacity(), 0);
        assert_eq!(spare.0.lock().put_at, None, "and nobody waits any longer");
        drop(spare.recycle_on_drop(vec![b'x'; LONG]));
        assert_eq!(spare.0.lock().buffer.capacity(), LONG);
    }

    #[test]
    fn without_a_runtime_nothing_is_kept() {
        let (spare, _) = after(LONG);
        assert_eq!(spare.0.lock().buffer.capacity(), 0);
    }
}
