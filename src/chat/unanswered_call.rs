//! Cost accounting for a forwarded chat without a judged reply. If the client disconnects now, the
//! provider still charges an unknown amount.

use std::cell::Cell;

use crate::chat::Chat;
use crate::chat::attempt::Attempt;
use longhaul_core::cost::comparison::BilledRequest;

/// Guard for the time while a chat is being sent or its reply judged. If the guard is dropped
/// before it is disarmed and any bytes were sent, the chat counts as one of unknown cost.
pub(crate) struct UnansweredCallGuard<'c> {
    chat: &'c Chat<'c>,
    billed: BilledRequest,
    is_over: Cell<bool>,
}

impl Chat<'_> {
    /// Records a charge of unknown amount.
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

    /// Creates the guard before an attempt is sent. A wrapper future around the send would be
    /// moved, so this is a guard.
    pub(crate) fn unanswered_call_guard(&self, attempt: &Attempt) -> UnansweredCallGuard<'_> {
        UnansweredCallGuard {
            chat: self,
            billed: self.billed(attempt),
            is_over: Cell::new(false),
        }
    }
}

impl UnansweredCallGuard<'_> {
    /// Disarms the guard: the outcome is known.
    pub(crate) fn disarm(&self) {
        self.is_over.set(true);
    }
}

impl Drop for UnansweredCallGuard<'_> {
    fn drop(&mut self) {
        // A request that sent no bytes is not charged.
        if !self.is_over.get() && self.chat.request.meter.bytes() > 0 {
            self.chat.charge_unknown_cost(self.billed);
        }
    }
}
