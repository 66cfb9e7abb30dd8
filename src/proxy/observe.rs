//! Looks at a chat's reply while it passes, and tells at its end what it shows of the window.

use http::Response;

use super::Proxy;
use super::bills::{PendingCost, RequestCost};
use super::coding::Decoder;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::overflow::{ReplyTail, Verdict};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::CountSample;
use crate::rewrite::window::note::SentSize;
use crate::store::CountedRequest;
use crate::traces::CallSpan;

/// A request that was sent, as its observer needs to know it.
pub(super) struct ObservedRequest {
    pub(super) sent: SentSize,
    /// The prefix of it, as it came, that later requests will have too.
    pub(super) prefix: Option<RecordKey>,
    pub(super) bill: PendingCost,
}

/// Looks at one reply. It keeps the end of it, and neither delays nor changes a byte.
pub(crate) struct ReplyObserver {
    proxy: Proxy,
    model: String,
    observed: ObservedRequest,
    decoder: Decoder,
    tail: ReplyTail,
}

impl ReplyObserver {
    /// Whoever looks at this reply; `None` where it is no answer or cannot be read, or where there is
    /// no room for its decoder beside half of the budget: it is held for as long as the reply streams,
    /// and chats that come meanwhile are read with the rest.
    pub(super) fn for_reply<B>(
        proxy: &Proxy,
        reply: &Response<B>,
        model: &str,
        observed: impl FnOnce() -> ObservedRequest,
    ) -> Option<Box<Self>> {
        if reply.status() != http::StatusCode::OK {
            return None;
        }
        // Nothing of it is kept but its end, however long it is.
        let decoder = Decoder::from_headers(reply.headers())?.with_max_bytes(u64::MAX);
        let room = proxy.0.budget.low_priority_reservation();
        let decoder = decoder.charged_to(room).ok()?;
        Some(Box::new(Self {
            proxy: proxy.clone(),
            model: model.to_owned(),
            observed: observed(),
            decoder,
            tail: ReplyTail::default(),
        }))
    }

    /// A chunk passes. Says whether the next one is to be looked at: not where this one could not
    /// be read.
    #[must_use]
    pub(super) fn observe(&mut self, mut chunk: &[u8]) -> bool {
        if self.decoder.is_identity() {
            self.tail.push(chunk);
            return true;
        }
        loop {
            match self.decoder.decode_step(&mut chunk) {
                Ok(Some(piece)) => self.tail.push(piece),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Whether what has passed is all that the reply has to say.
    pub(super) fn is_complete(&self) -> bool {
        self.tail.is_complete()
    }

    /// The reply has passed whole. Says what it cost, if it was an answer, and tells the record of
    /// the call what was counted.
    pub(super) fn finish(self, attempt: Option<&mut CallSpan>) -> Option<RequestCost> {
        let shared = &*self.proxy.0;
        let parting = self.tail.finish(&shared.config.overflow_rules);
        let ObservedRequest { sent, prefix, bill } = &self.observed;
        let was_answered = match parting.verdict {
            Verdict::Fine => true,
            // What was said until then is charged for, and what was counted.
            Verdict::Failed => {
                parting.has_content || parting.usage.is_some_and(|usage| usage.input > 0)
            }
            Verdict::TooManyBytes
            | Verdict::Malformed
            | Verdict::Overflow(_)
            | Verdict::OutputTooLarge { .. }
            | Verdict::Unexplained => false,
        };
        let spent = was_answered.then(|| {
            let usage = parting.usage.as_ref();
            let spent = shared.costs.settle(bill, &self.model, usage);
            shared
                .metrics
                .costs
                .record_chat(spent.cost, &spent.comparison);
            spent
        });
        if let Some(usage) = &parting.usage {
            shared.metrics.provider_tokens.add(usage);
            if let Some(attempt) = attempt {
                attempt.record_usage(usage);
            }
        }
        let pair = parting
            .usage
            .and_then(|usage| CountSample::new(sent.estimate, usage.input));
        let windows = &shared.knowledge.windows;
        log_learned_window(windows.learn_from_reply_end(&self.model, *sent, &parting));
        if let (Some(key), Some(pair)) = (*prefix, pair) {
            let density = windows.observations(&self.model).average_ratio;
            let counted = CountedRequest { pair, density };
            shared.store.record_count(key, &self.model, counted);
        }
        shared.knowledge.publish(&self.model);
        spent
    }

    /// The rest of the reply is not seen. It is charged all the same, and nobody knows how much.
    pub(super) fn charge_unknown_cost(&self) -> RequestCost {
        let shared = &*self.proxy.0;
        let spent = shared.costs.settle(&self.observed.bill, &self.model, None);
        shared
            .metrics
            .costs
            .record_chat(spent.cost, &spent.comparison);
        spent
    }

    /// The reply broke off. What was counted until then, and how it ended, is not known; an error
    /// in it is, and may be why.
    pub(super) fn finish_broken(self) -> RequestCost {
        let spent = self.charge_unknown_cost();
        let shared = &*self.proxy.0;
        let error = self.tail.finish(&shared.config.overflow_rules).error_only();
        let windows = &shared.knowledge.windows;
        log_learned_window(windows.learn_from_reply_end(&self.model, self.observed.sent, &error));
        shared.knowledge.publish(&self.model);
        spent
    }
}

/// Tells the operator of a window that a reply was relayed with.
fn log_learned_window(learned: Option<Tokens>) {
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
    use crate::rewrite::chain::{PrefixKeys, Scope};
    use crate::rewrite::chat_completions::read;
    use crate::rewrite::money::BilledRequest;

    /// The observer of an answer of this coding.
    fn observer(proxy: &Proxy, coding: &'static str) -> Option<Box<ReplyObserver>> {
        let mut reply = Response::new(());
        let coding = HeaderValue::from_static(coding);
        reply.headers_mut().insert(CONTENT_ENCODING, coding);
        let body = read(br#"{"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
        let chains = PrefixKeys::new(&body, Scope::new(&[0; 32], &[]));
        let tokens = Tokens::new(10);
        let billed = BilledRequest {
            before: tokens,
            after: tokens,
            window: tokens,
        };
        ReplyObserver::for_reply(proxy, &reply, "m", || ObservedRequest {
            sent: SentSize {
                estimate: tokens,
                output_limit: None,
                is_text_only: true,
            },
            prefix: None,
            bill: proxy.0.costs.begin(&chains, "m", billed),
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
