//! Cost accounting for a forwarded chat without a judged reply. If the client disconnects now, the
//! provider still charges an unknown amount.

use std::cell::Cell;

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use longhaul_core::cost::comparison::BilledRequest;

/// Records a charge of unknown amount.
pub(super) fn charge_unknown_cost(chat: &Chat<'_>, billed: BilledRequest) {
    let state = chat.state();
    let pending = state
        .costs
        .begin((chat.request.scope, &chat.prefix_keys), &chat.model, billed)
        .paid_by(chat.payer());
    let cost = state.settle_cost(&pending, &chat.model, None, None);
    if let Some(dashboard) = &chat.dashboard {
        dashboard.record_abandoned(&cost);
    }
}

/// Guard for the time while a chat is being sent or its reply judged. If the guard is dropped
/// before it is disarmed and any bytes were sent, the chat counts as one of unknown cost.
pub(crate) struct UnansweredCallGuard<'c> {
    chat: &'c Chat<'c>,
    billed: BilledRequest,
    is_over: Cell<bool>,
}

impl<'c> UnansweredCallGuard<'c> {
    /// Creates the guard before `attempt` is sent. A wrapper future around the send would be moved,
    /// so this is a guard.
    pub(crate) fn new(chat: &'c Chat<'c>, attempt: &Attempt) -> Self {
        Self { chat, billed: attempt.billed(chat), is_over: Cell::new(false) }
    }

    /// Disarms the guard: the outcome is known.
    pub(crate) fn disarm(&self) {
        self.is_over.set(true);
    }
}

impl Drop for UnansweredCallGuard<'_> {
    fn drop(&mut self) {
        // A request that sent no bytes is not charged.
        if !self.is_over.get() && self.chat.request.meter.bytes() > 0 {
            charge_unknown_cost(self.chat, self.billed);
        }
    }
}
