//! The slots of requests under way, which all callers share.

use std::sync::Arc;

use crate::body::budget::fair_share::FairShare;
use crate::body::budget::{Exhausted, Reservation};
use crate::body::slow_bodies::{BodyProgress, SlowBodies};
use crate::callers::owners::Owners;

/// Slots for concurrent requests. Clones share the slots.
#[derive(Clone, Debug)]
pub(crate) struct RequestSlots {
    share: Arc<FairShare>,
    bodies: Arc<SlowBodies>,
}

impl RequestSlots {
    /// Creates `limit` slots.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            share: Arc::new(FairShare::new(limit.into())),
            bodies: Arc::default(),
        }
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
        let ended = self
            .bodies
            .end_slowest(|other| self.share.held_by(other), own);
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

/// A slot, returned on drop.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    share: Arc<FairShare>,
    /// Progress of the request's body.
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
mod tests {
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
        let held: Vec<RequestSlot> = (0..=9)
            .flat_map(|owner| (0..8).map_while(move |_| take(owner).ok()))
            .collect();
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
