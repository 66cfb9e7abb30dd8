//! A spare buffer: the memory of a long body, kept a while for reuse by the next one.
//!
//! An allocator obtains long buffers page by page from the kernel, which clears each page. For a
//! conversation of many megabytes, clearing cost as much as all other work on the body.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::limits::BODY_RESERVE_BYTES;
use parking_lot::Mutex;

/// Time for which the buffer of a body longer than [`BODY_RESERVE_BYTES`] is kept for the next one.
/// A model takes about as long over such a history. At most one buffer is kept, the longest.
const SPARE_LIFETIME: Duration = Duration::from_mins(1);

/// Holds at most one buffer, for at most [`SPARE_LIFETIME`].
///
/// Old contents cannot be read: the buffer is a vector without elements.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpareBuffer(Arc<Mutex<SpareSlot>>);

#[derive(Debug, Default)]
struct SpareSlot {
    buffer: Vec<u8>,
    /// Time at which the buffer was put here, if an expiry task is running.
    put_at: Option<Instant>,
}

impl SpareBuffer {
    /// Takes the spare buffer for a body of `bytes` bytes. Returns `None` unless the body is long,
    /// fills at least half of the buffer, and at least half of the body fits.
    pub(crate) fn take(&self, bytes: u64) -> Option<Vec<u8>> {
        if bytes <= BODY_RESERVE_BYTES {
            return None;
        }
        let mut kept = self.0.lock();
        let room = kept.buffer.capacity() as u64;
        let fits = room > 0 && room / 2 <= bytes && bytes / 2 <= room;
        fits.then(|| std::mem::take(&mut kept.buffer))
    }

    /// Wraps `bytes` so that a long buffer returns here when the last reference is dropped.
    pub(crate) fn recycle_on_drop(&self, bytes: Vec<u8>) -> Bytes {
        if bytes.capacity() as u64 <= BODY_RESERVE_BYTES {
            return Bytes::from(bytes);
        }
        let spare = self.clone();
        Bytes::from_owner(RecycledBody { bytes, spare })
    }

    /// Keeps `room` if it is longer than the current spare, and schedules its release.
    fn put_back(&self, mut room: Vec<u8>) {
        // Without a runtime the buffer would never be released.
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

    /// Releases the buffer once it was kept for [`SPARE_LIFETIME`]; ends when no buffer is left.
    async fn release_when_expired(self) {
        while let Some(until) = self.expiry() {
            sleep_until(until).await;
        }
    }

    /// Returns the expiry time of the buffer; `None` if there is none or it has expired.
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

/// Bytes of a body whose buffer is put back on drop.
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

    /// Returns a spare just left by a body of `bytes` bytes, and that body's address.
    fn after(bytes: usize) -> (SpareBuffer, *const u8) {
        let spare = SpareBuffer::default();
        let body = spare.recycle_on_drop(vec![b'x'; bytes]);
        let stood = body.as_ptr();
        drop(body);
        (spare, stood)
    }

    #[tokio::test(start_paused = true)]
    async fn long_body_buffer_is_reused_for_the_next_body() {
        let (spare, stood) = after(LONG);
        let room = spare.take(LONG as u64 + 1).unwrap();
        assert_eq!((room.as_ptr(), room.len()), (stood, 0));
        assert_eq!(spare.take(LONG as u64), None, "only one buffer is kept");
        drop(spare.recycle_on_drop(room));
        assert!(spare.take(LONG as u64).is_some(), "the buffer was put back");
    }

    #[tokio::test(start_paused = true)]
    async fn denies_the_spare_to_bodies_under_half_or_over_twice_its_size() {
        let (spare, _) = after(3 * LONG);
        assert_eq!(spare.take(LONG as u64), None);
        assert_eq!(spare.take(6 * LONG as u64 + 2), None);
        assert_eq!(spare.take(10), None);
        let room = spare.take(6 * LONG as u64);
        drop(room.map(|room| spare.recycle_on_drop(room)));
        assert!(spare.take(3 * LONG as u64 / 2).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn short_buffer_is_freed_at_once() {
        let (spare, _) = after(LONG / 2);
        assert_eq!(spare.0.lock().buffer.capacity(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_the_longest_buffer() {
        let (spare, _) = after(LONG);
        drop(spare.recycle_on_drop(vec![b'x'; 2 * LONG]));
        drop(spare.recycle_on_drop(vec![b'x'; LONG]));
        assert_eq!(spare.0.lock().buffer.capacity(), 2 * LONG);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_buffer_is_freed_after_its_lifetime() {
        let (spare, _) = after(LONG);
        tokio::time::sleep(SPARE_LIFETIME / 2).await;
        drop(spare.take(LONG as u64).map(|room| spare.recycle_on_drop(room)));
        tokio::time::sleep(SPARE_LIFETIME * 3 / 4).await;
        assert_eq!(spare.0.lock().buffer.capacity(), LONG, "the buffer was used since");
        tokio::time::sleep(SPARE_LIFETIME / 2).await;
        assert_eq!(spare.0.lock().buffer.capacity(), 0);
        assert_eq!(spare.0.lock().put_at, None, "the expiry task has ended");
        drop(spare.recycle_on_drop(vec![b'x'; LONG]));
        assert_eq!(spare.0.lock().buffer.capacity(), LONG);
    }

    #[test]
    fn keeps_no_buffer_without_a_runtime() {
        let (spare, _) = after(LONG);
        assert_eq!(spare.0.lock().buffer.capacity(), 0);
    }
}
