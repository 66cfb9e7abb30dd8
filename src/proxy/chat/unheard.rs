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
    /// It is charged for, and nobody knows how much.
    pub(super) fn is_charged(&self, billed: Billed) {
        let shared = self.shared();
        let bill = shared.bills.open(&self.chains, &self.model, billed);
        let spent = shared.bills.close(&bill, &self.model, None);
        shared.metrics.money.chat(spent.cost, &spent.bill);
        if let Some(sighting) = &self.sighting {
            sighting.left(&spent);
        }
    }

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
        // Nobody charges for what never went on.
        if !self.is_over.get() && self.chat.came.meter.bytes() > 0 {
            self.chat.is_charged(self.billed);
        }
    }
}
