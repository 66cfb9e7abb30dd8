//! A chat that went on and whose reply nobody has heard yet: a client that leaves now is charged for it
//! all the same, and nobody knows how much.

use std::cell::Cell;

use super::Chat;
use super::attempt::Attempt;
use crate::rewrite::money::BilledRequest;

/// While this lives, a chat is on its way or its reply is being judged. Dropped before that is over, it
/// counts as a chat of unknown cost, once any of it has gone on.
pub(in crate::proxy) struct UnansweredCallGuard<'c> {
    chat: &'c Chat<'c>,
    billed: BilledRequest,
    is_over: Cell<bool>,
}

impl Chat<'_> {
    /// It is charged for, and nobody knows how much.
    pub(super) fn charge_unknown_cost(&self, billed: BilledRequest) {
        let shared = self.shared();
        let bill = shared.costs.begin(&self.prefix_keys, &self.model, billed);
        let spent = shared.costs.settle(&bill, &self.model, None);
        shared
            .metrics
            .costs
            .record_chat(spent.cost, &spent.comparison);
        if let Some(sighting) = &self.dashboard {
            sighting.record_abandoned(&spent);
        }
    }

    /// Begins before an attempt is sent. A guard, for a future that wrapped the sending would be moved.
    pub(in crate::proxy) fn unanswered_call_guard(
        &self,
        attempt: &Attempt,
    ) -> UnansweredCallGuard<'_> {
        UnansweredCallGuard {
            chat: self,
            billed: self.billed(attempt),
            is_over: Cell::new(false),
        }
    }
}

impl UnansweredCallGuard<'_> {
    /// It is known what came of it.
    pub(in crate::proxy) fn disarm(&self) {
        self.is_over.set(true);
    }
}

impl Drop for UnansweredCallGuard<'_> {
    fn drop(&mut self) {
        // Nobody charges for what never went on.
        if !self.is_over.get() && self.chat.request.meter.bytes() > 0 {
            self.chat.charge_unknown_cost(self.billed);
        }
    }
}
