//! The places of requests under way, which all callers share.

use std::sync::Arc;

use crate::body::budget::fair_share::FairShare;
use crate::body::budget::{Exhausted, Owner};

/// Places for concurrent requests. Clones share the places.
#[derive(Clone, Debug)]
pub(crate) struct RequestSlots(Arc<FairShare>);

impl RequestSlots {
    /// Creates `limit` places.
    pub(crate) fn new(limit: u32) -> Self {
        Self(Arc::new(FairShare::new(limit.into())))
    }

    /// Takes a place for a request of `owner`.
    ///
    /// # Errors
    /// All places, or the owner's share of them, are taken.
    pub(crate) fn take(&self, owner: Option<Owner>) -> Result<RequestSlot, Exhausted> {
        self.0.take(owner, 1, 0)?;
        Ok(RequestSlot {
            places: Arc::clone(&self.0),
            owner,
        })
    }
}

/// A place, returned on drop.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    places: Arc<FairShare>,
    owner: Option<Owner>,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.places.give_back(self.owner, 1);
    }
}
