//! The slots of requests under way, which all callers share.

use std::sync::Arc;

use crate::body::budget::fair_share::FairShare;
use crate::body::budget::{Exhausted, Owner, Reservation};

/// Slots for concurrent requests. Clones share the slots.
#[derive(Clone, Debug)]
pub(crate) struct RequestSlots(Arc<FairShare>);

impl RequestSlots {
    /// Creates `limit` slots.
    pub(crate) fn new(limit: u32) -> Self {
        Self(Arc::new(FairShare::new(limit.into())))
    }

    /// Takes a slot for a request of `owner`, which holds `memory` until its end. Fails if all slots, or
    /// the owner's share of them, are taken.
    pub(crate) fn take(
        &self,
        owner: Option<Owner>,
        memory: Reservation,
    ) -> Result<RequestSlot, Exhausted> {
        self.0.take(owner, 1, 0)?;
        Ok(RequestSlot {
            slots: Arc::clone(&self.0),
            owner,
            _memory: memory,
        })
    }
}

/// A slot, returned on drop.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    slots: Arc<FairShare>,
    owner: Option<Owner>,
    /// Memory that the request takes until its end.
    _memory: Reservation,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.slots.give_back(self.owner, 1);
    }
}
