//! Request bodies that arrive slowly, and give way when no slot for another request is left.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use longhaul_core::collections::CacheHashState;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::callers::owners::Owners;

/// Minimum bytes a second of a body that keeps its slot when none is left: four times the minimum rate of
/// Apache's `mod_reqtimeout`.
const MIN_RATE: u64 = 2 * 1024;
/// Time over which the rate is measured.
const WINDOW: Duration = Duration::from_secs(10);

/// Bodies that a client has not sent whole.
#[derive(Debug, Default)]
pub(crate) struct SlowBodies {
    waiting: Mutex<HashMap<usize, Arc<BodyProgress>, CacheHashState>>,
}

/// The arrival of the body of one request.
#[derive(Debug)]
pub(crate) struct BodyProgress {
    pub(crate) owners: Owners,
    bodies: Arc<SlowBodies>,
    received: AtomicU64,
    is_ended: AtomicBool,
    is_slot_returned: AtomicBool,
    /// `None` until the body first waits for its client.
    wait: Mutex<Option<Wait>>,
}

#[derive(Debug)]
struct Wait {
    waker: Waker,
    began: Instant,
    /// Bytes received when the window began.
    received_before: u64,
    /// Bytes a second of the window before. `None` in the first window.
    last_rate: Option<u64>,
}

impl SlowBodies {
    pub(crate) fn start(self: &Arc<Self>, owners: Owners) -> Arc<BodyProgress> {
        Arc::new(BodyProgress {
            owners,
            bodies: Arc::clone(self),
            received: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
            is_slot_returned: AtomicBool::new(false),
            wait: Mutex::new(None),
        })
    }

    /// Ends the slowest body of those whose owners hold the most, by `held_by`, and more than `least`.
    /// Returns the body; `None` if none of them is slow.
    pub(crate) fn end_slowest(
        &self,
        held_by: impl Fn(&Owners) -> u64,
        least: u64,
    ) -> Option<Arc<BodyProgress>> {
        let waiting = self.waiting.lock();
        let slow = waiting.values().filter_map(|body| {
            let rate = body.rate().filter(|rate| *rate < MIN_RATE)?;
            let held = held_by(&body.owners);
            (held > least).then_some(((held, u64::MAX - rate), body))
        });
        let (_, slowest) = slow.max_by_key(|(order, _)| *order)?;
        let slowest = Arc::clone(slowest);
        drop(waiting);
        slowest.end();
        Some(slowest)
    }
}

impl BodyProgress {
    /// Records that the body waits for its client, and the task to wake if the body is ended.
    pub(crate) fn record_wait(self: &Arc<Self>, waker: &Waker) {
        {
            let wait = &mut *self.wait.lock();
            if let Some(wait) = wait {
                wait.waker.clone_from(waker);
                return;
            }
            *wait = Some(Wait {
                waker: waker.clone(),
                began: Instant::now(),
                received_before: self.received.load(Ordering::Relaxed),
                last_rate: None,
            });
        }
        // Not under the lock of the wait: the search for the slowest body takes the locks in reverse.
        self.bodies.waiting.lock().insert(self.key(), Arc::clone(self));
    }

    pub(crate) fn record_bytes(&self, bytes: u64) {
        let received = self.received.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(wait) = &mut *self.wait.lock()
            && let Some(rate) = wait.rate(received)
        {
            wait.last_rate = Some(rate);
            wait.received_before = received;
            wait.began = Instant::now();
        }
    }

    /// Records that nothing more of the body is awaited.
    pub(crate) fn finish(&self) {
        if self.wait.lock().take().is_some() {
            self.bodies.waiting.lock().remove(&self.key());
        }
    }

    /// Whether the caller returns the slot of the request: true for the first call alone. The end of the request
    /// and the search for a slow body both call.
    pub(crate) fn may_return_slot(&self) -> bool {
        !self.is_slot_returned.swap(true, Ordering::AcqRel)
    }

    /// Whether the body was ended to make room.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        let wait = self.wait.lock().take();
        self.bodies.waiting.lock().remove(&self.key());
        if let Some(wait) = wait {
            wait.waker.wake();
        }
    }

    /// Returns the bytes a second of the current window, or else of the window before. `None` in the first
    /// window.
    fn rate(&self) -> Option<u64> {
        let wait = self.wait.lock();
        let wait = wait.as_ref()?;
        let received = self.received.load(Ordering::Relaxed);
        wait.rate(received).or(wait.last_rate)
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Wait {
    /// Returns the bytes a second of the window; `None` before its end.
    fn rate(&self, received: u64) -> Option<u64> {
        let elapsed = self.began.elapsed();
        let bytes = received - self.received_before;
        (elapsed >= WINDOW).then(|| bytes / elapsed.as_secs().max(1))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::units::scope::ScopeTag;
    use tokio::time::advance;

    use super::*;

    fn body(bodies: &Arc<SlowBodies>, owner: u8) -> Arc<BodyProgress> {
        let body = bodies.start(Owners::of_tags(&[ScopeTag([owner; 8])]));
        body.record_wait(Waker::noop());
        body
    }

    /// Credential 1 holds more than credential 2.
    fn held_by(owners: &Owners) -> u64 {
        10 - u64::from(owners.credentials()[0].0[0])
    }

    #[tokio::test(start_paused = true)]
    async fn ends_the_slowest_body_of_the_largest_holder_and_no_fast_one() {
        let bodies = Arc::<SlowBodies>::default();
        let [fast, slow, still, other] = [1, 1, 1, 2].map(|owner| body(&bodies, owner));
        assert!(bodies.end_slowest(held_by, 0).is_none(), "no window has passed");
        advance(WINDOW).await;
        fast.record_bytes(WINDOW.as_secs() * MIN_RATE);
        slow.record_bytes(WINDOW.as_secs());
        for expected in [&still, &slow, &other] {
            let ended = bodies.end_slowest(held_by, 0).unwrap();
            assert!(Arc::ptr_eq(&ended, expected) && expected.is_ended());
        }
        assert!(bodies.end_slowest(held_by, 0).is_none());
        assert!(!fast.is_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_or_stops_becomes_slow_and_one_that_has_ended_does_not() {
        let bodies = Arc::<SlowBodies>::default();
        let [dripping, stopped, whole] = [1, 1, 1].map(|owner| body(&bodies, owner));
        stopped.record_bytes(1 << 20);
        whole.finish();
        advance(WINDOW).await;
        stopped.record_bytes(1);
        dripping.record_bytes(1);
        let ended = bodies.end_slowest(held_by, 0).unwrap();
        assert!(Arc::ptr_eq(&ended, &dripping));
        assert!(bodies.end_slowest(held_by, 0).is_none());
        advance(WINDOW).await;
        assert!(bodies.end_slowest(held_by, 9).is_none(), "no larger holder");
        let ended = bodies.end_slowest(held_by, 8).unwrap();
        assert!(Arc::ptr_eq(&ended, &stopped));
        assert!(bodies.waiting.lock().is_empty());
    }
}
