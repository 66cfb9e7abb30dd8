//! A chat that went on and whose reply nobody has heard yet: a client that leaves now is charged for it
//! all the same, and nobody knows how much.

use std::cell::Cell;

use super::Chat;
use super::attempt::Attempt;
use crate::rewrite::money::Billed;

/// While this lives, a chat is on its way or its reply is being judged. Dropped before that is over, it
/// counts as a chat of unknown cost, once any of it has gone on.
pub(in crate::proxy) struct Unheard<'c> {
    chat: &'c Chat<'c>,
    billed: Billed,
    is_over: Cell<bool>,
}

impl Chat<'_> {
    /// Begins before an attempt is sent. A guard, for a future that wrapped the sending would be moved.
    pub(in crate::proxy) fn unheard(&self, attempt: &Attempt) -> Unheard<'_> {
        Unheard {
            chat: self,
            billed: self.billed(attempt),
            is_over: Cell::new(false),
        }
    }
}

impl Unheard<'_> {
    /// It is known what came of it.
    pub(in crate::proxy) fn over(&self) {
        self.is_over.set(true);
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        let chat = self.chat;
        // Nobody charges for what never went on, and where no reply is looked at nothing is counted.
        if self.is_over.get() || !chat.recovers() || chat.came.meter.bytes() == 0 {
            return;
        }
        let shared = chat.shared();
        let bill = shared.bills.open(&chat.chains, &chat.model, self.billed);
        let spent = shared.bills.close(&bill, &chat.model, None);
        shared.metrics.money.chat(spent.cost, &spent.bill);
        if let Some(sighting) = &chat.sighting {
            sighting.left(&spent);
        }
    }
}
