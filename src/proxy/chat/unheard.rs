//! A chat that went on and whose reply nobody has heard yet: a client that leaves now is charged for it
//! all the same, and nobody knows how much.

use super::Chat;
use super::attempt::Attempt;
use crate::rewrite::money::Billed;

/// While this lives, a chat is on its way or its reply is being judged. Dropped before that is over, it
/// counts as a chat of unknown cost, once any of it has gone on.
struct Unheard<'c> {
    chat: &'c Chat<'c>,
    billed: Billed,
    is_over: bool,
}

impl Chat<'_> {
    /// Waits for what comes of an attempt that is sent.
    pub(in crate::proxy) async fn heard<T>(
        &self,
        attempt: &Attempt,
        comes: impl Future<Output = T>,
    ) -> T {
        let mut unheard = Unheard {
            chat: self,
            billed: self.billed(attempt),
            is_over: false,
        };
        let came = comes.await;
        unheard.is_over = true;
        came
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        let chat = self.chat;
        // Nobody charges for what never went on, and where no reply is looked at nothing is counted.
        if self.is_over || !chat.recovers() || chat.came.meter.bytes() == 0 {
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
