//! Looks at a chat's reply while it passes, and tells at its end what it shows of the window.

use std::sync::Arc;

use http::Response;
use tokio::sync::OwnedSemaphorePermit;

use super::Proxy;
use super::bills::{Open, Spent};
use super::coding::Decoder;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::overflow::{Tail, Verdict};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::Pair;
use crate::rewrite::window::note::Sent;
use crate::store::Counted;
use crate::traces::Attempt;

/// Compressed replies that are looked at at once. A decoder keeps tens of kilobytes for as long as
/// its reply streams; those beyond these pass unread.
pub(super) const INFLATING: usize = 64;

/// A request that was sent, as its observer needs to know it.
pub(super) struct Asked {
    pub(super) sent: Sent,
    /// The prefix of it, as it came, that later requests will have too.
    pub(super) prefix: Option<RecordKey>,
    pub(super) bill: Open,
}

/// Looks at one reply. It keeps the end of it, and neither delays nor changes a byte.
pub(crate) struct Observer {
    proxy: Proxy,
    model: String,
    asked: Asked,
    decoder: Decoder,
    tail: Tail,
    /// The place among [`INFLATING`].
    _inflating: Option<OwnedSemaphorePermit>,
}

impl Observer {
    /// Whoever looks at this reply; `None` where it is no answer or cannot be read.
    pub(super) fn of<B>(
        proxy: &Proxy,
        reply: &Response<B>,
        model: &str,
        asked: impl FnOnce() -> Asked,
    ) -> Option<Box<Self>> {
        if reply.status() != http::StatusCode::OK {
            return None;
        }
        // Nothing of it is kept but its end, however long it is.
        let decoder = Decoder::of(reply.headers())?.within(u64::MAX);
        let inflating = if decoder.is_identity() {
            None
        } else {
            Some(Arc::clone(&proxy.0.inflating).try_acquire_owned().ok()?)
        };
        Some(Box::new(Self {
            proxy: proxy.clone(),
            model: model.to_owned(),
            asked: asked(),
            decoder,
            tail: Tail::default(),
            _inflating: inflating,
        }))
    }

    /// A chunk passes. Says whether the next one is to be looked at: not where this one could not
    /// be read.
    #[must_use]
    pub(super) fn pass(&mut self, mut chunk: &[u8]) -> bool {
        if self.decoder.is_identity() {
            self.tail.push(chunk);
            return true;
        }
        loop {
            match self.decoder.step(&mut chunk) {
                Ok(Some(piece)) => self.tail.push(piece),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Whether what has passed is all that the reply has to say.
    pub(super) fn has_heard_all(&self) -> bool {
        self.tail.is_whole()
    }

    /// The reply has passed whole. Says what it cost, if it was an answer, and tells the record of
    /// the call what was counted.
    pub(super) fn end(self, attempt: Option<&mut Attempt>) -> Option<Spent> {
        let shared = &*self.proxy.0;
        let parting = self.tail.end(&shared.config.rules);
        let Asked { sent, prefix, bill } = &self.asked;
        let spent = (parting.verdict == Verdict::Fine).then(|| {
            let usage = parting.usage.as_ref();
            let spent = shared.bills.close(bill, &self.model, usage);
            shared.metrics.money.chat(spent.cost, &spent.bill);
            spent
        });
        if let Some(usage) = &parting.usage {
            shared.metrics.counted.add(usage);
            if let Some(attempt) = attempt {
                attempt.counted(usage);
            }
        }
        let pair = parting
            .usage
            .and_then(|usage| Pair::of(sent.estimate, usage.input));
        let windows = &shared.lessons.windows;
        tell(windows.ended(&self.model, *sent, &parting));
        if let (Some(key), Some(pair)) = (*prefix, pair) {
            let density = windows.of(&self.model).density;
            let counted = Counted { pair, density };
            shared.store.count(key, &self.model, counted);
        }
        shared.lessons.tell(&self.model);
        spent
    }

    /// The rest of the reply is not seen. It is charged all the same, and nobody knows how much.
    pub(super) fn lose_sight(&self) -> Spent {
        let shared = &*self.proxy.0;
        let spent = shared.bills.close(&self.asked.bill, &self.model, None);
        shared.metrics.money.chat(spent.cost, &spent.bill);
        spent
    }

    /// The reply broke off. What was counted until then, and how it ended, is not known; an error
    /// in it is, and may be why.
    pub(super) fn break_off(self) -> Spent {
        let spent = self.lose_sight();
        let shared = &*self.proxy.0;
        let error = self.tail.end(&shared.config.rules).error_alone();
        let windows = &shared.lessons.windows;
        tell(windows.ended(&self.model, self.asked.sent, &error));
        shared.lessons.tell(&self.model);
        spent
    }
}

/// Tells the operator of a window that a reply was relayed with.
fn tell(learned: Option<Tokens>) {
    if let Some(window) = learned {
        tracing::info!(
            window = window.get(),
            "the end of a reply shows what the model holds; its next request is held to that"
        );
    }
}
