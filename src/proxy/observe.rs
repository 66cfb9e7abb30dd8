//! Looks at a chat's reply while it passes, and tells at its end what it shows of the window.

use http::Response;

use super::Proxy;
use super::bills::{Open, Spent};
use super::coding::Decoder;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::overflow::{Tail, Verdict};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::Pair;
use crate::rewrite::window::note::Sent;
use crate::store::Counted;
use crate::traces::CallSpan;

/// A request that was sent, as its observer needs to know it.
pub(super) struct Observed {
    pub(super) sent: Sent,
    /// The prefix of it, as it came, that later requests will have too.
    pub(super) prefix: Option<RecordKey>,
    pub(super) bill: Open,
}

/// Looks at one reply. It keeps the end of it, and neither delays nor changes a byte.
pub(crate) struct Observer {
    proxy: Proxy,
    model: String,
    observed: Observed,
    decoder: Decoder,
    tail: Tail,
}

impl Observer {
    /// Whoever looks at this reply; `None` where it is no answer or cannot be read, or where there is
    /// no room for its decoder beside half of the budget: it is held for as long as the reply streams,
    /// and chats that come meanwhile are read with the rest.
    pub(super) fn of<B>(
        proxy: &Proxy,
        reply: &Response<B>,
        model: &str,
        observed: impl FnOnce() -> Observed,
    ) -> Option<Box<Self>> {
        if reply.status() != http::StatusCode::OK {
            return None;
        }
        // Nothing of it is kept but its end, however long it is.
        let decoder = Decoder::of(reply.headers())?.within(u64::MAX);
        let room = proxy.0.budget.lesser_reservation();
        let decoder = decoder.charged_to(room).ok()?;
        Some(Box::new(Self {
            proxy: proxy.clone(),
            model: model.to_owned(),
            observed: observed(),
            decoder,
            tail: Tail::default(),
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
    pub(super) fn end(self, attempt: Option<&mut CallSpan>) -> Option<Spent> {
        let shared = &*self.proxy.0;
        let parting = self.tail.end(&shared.config.rules);
        let Observed { sent, prefix, bill } = &self.observed;
        let was_answered = match parting.verdict {
            Verdict::Fine => true,
            // What was said until then is charged for, and what was counted.
            Verdict::Failed => parting.said || parting.usage.is_some_and(|usage| usage.input > 0),
            Verdict::FewerBytes
            | Verdict::Malformed
            | Verdict::Overflow(_)
            | Verdict::SmallerOutput { .. }
            | Verdict::Unexplained => false,
        };
        let spent = was_answered.then(|| {
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
        let spent = shared.bills.close(&self.observed.bill, &self.model, None);
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
        tell(windows.ended(&self.model, self.observed.sent, &error));
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::CONTENT_ENCODING;

    use super::*;
    use crate::config::Config;
    use crate::rewrite::chain::{Chains, Scope};
    use crate::rewrite::chat_completions::read;
    use crate::rewrite::money::Billed;

    /// The observer of an answer of this coding.
    fn observer(proxy: &Proxy, coding: &'static str) -> Option<Box<Observer>> {
        let mut reply = Response::new(());
        let coding = HeaderValue::from_static(coding);
        reply.headers_mut().insert(CONTENT_ENCODING, coding);
        let body = read(br#"{"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
        let chains = Chains::of(&body, Scope::new(&[0; 32], &[]));
        let tokens = Tokens::new(10);
        let billed = Billed {
            before: tokens,
            after: tokens,
            window: tokens,
        };
        Observer::of(proxy, &reply, "m", || Observed {
            sent: Sent {
                estimate: tokens,
                output: None,
                text_alone: true,
            },
            prefix: None,
            bill: proxy.0.bills.open(&chains, "m", billed),
        })
    }

    #[tokio::test]
    async fn decoders_of_replies_that_pass_leave_half_of_the_budget_to_chats() {
        let config = [
            ("upstream.base", "http://127.0.0.1:9/v1"),
            ("limits.buffered", "72MiB"),
        ];
        let proxy = Proxy::new(Config::default_with(config).unwrap()).unwrap();
        let looked_at: Vec<_> = (0..9).map_while(|_| observer(&proxy, "br")).collect();
        assert_eq!(looked_at.len(), 2);
        assert!(observer(&proxy, "identity").is_some());
        let mut bodies = proxy.0.budget.reservation();
        assert_eq!(bodies.grow_to(36 << 20), Ok(()));
        drop((looked_at, bodies));
        assert!(observer(&proxy, "br").is_some());
    }
}
