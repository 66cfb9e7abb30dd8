//! Observes a relayed reply and, at its end, records its cost and any evidence about the window.

use http::Response;

use crate::body::coding::Decoder;
use crate::costs::{PendingCost, RequestCost};
use crate::proxy::Proxy;
use crate::store::CountedRequest;
use crate::traces::CallSpan;
use longhaul_core::overflow::{ReplyTail, Verdict};
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::reply_signals::SentSize;
use longhaul_core::window::token_ratio::CountSample;

/// A sent request, as far as its observer needs it.
pub(crate) struct ObservedRequest {
    pub(crate) sent: SentSize,
    /// Key of the stable prefix of the original request, which later requests share.
    pub(crate) prefix: Option<RecordKey>,
    pub(crate) bill: PendingCost,
}

/// Observer of one reply. Buffers only the end of the reply, and neither delays nor changes a byte.
pub(crate) struct ReplyObserver {
    proxy: Proxy,
    model: String,
    observed: ObservedRequest,
    decoder: Decoder,
    tail: ReplyTail,
}

impl ReplyObserver {
    /// Creates an observer. Returns `None` in these cases:
    ///
    /// - The reply is not successful or its coding is unsupported.
    /// - The decoder would not fit into half of the budget. The decoder is held while the reply
    ///   streams, and the other half is left for buffering chats.
    pub(crate) fn for_reply<B>(
        proxy: &Proxy,
        reply: &Response<B>,
        model: &str,
        observed: impl FnOnce() -> ObservedRequest,
    ) -> Option<Box<Self>> {
        if reply.status() != http::StatusCode::OK {
            return None;
        }
        // Only the end of the reply is kept, so its decoded length is unlimited.
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

    /// Observes a chunk. Returns whether to observe the next one: `false` if this chunk could not
    /// be decoded.
    #[must_use]
    pub(crate) fn observe(&mut self, mut chunk: &[u8]) -> bool {
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

    /// Whether the observed part is a complete reply.
    pub(crate) fn is_complete(&self) -> bool {
        self.tail.is_complete()
    }

    /// Records the end of a complete reply, and adds the usage to the call's trace span. Returns
    /// the cost if the reply was successful.
    pub(crate) fn finish(self, attempt: Option<&mut CallSpan>) -> Option<RequestCost> {
        let shared = &*self.proxy.0;
        let parting = self.tail.finish(&shared.config.overflow_rules);
        let ObservedRequest { sent, prefix, bill } = &self.observed;
        let was_answered = match parting.verdict {
            Verdict::Fine => true,
            // A failed reply is charged if it contains text or counted input.
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
        shared.store.publish(&shared.knowledge, &self.model);
        spent
    }

    /// Stops observing. The request is charged with an unknown amount.
    pub(crate) fn charge_unknown_cost(&self) -> RequestCost {
        let shared = &*self.proxy.0;
        let spent = shared.costs.settle(&self.observed.bill, &self.model, None);
        shared
            .metrics
            .costs
            .record_chat(spent.cost, &spent.comparison);
        spent
    }

    /// Records a reply that ended early. Its usage and finish reason are unknown, but an error in
    /// the received part counts: it may be the cause.
    pub(crate) fn finish_broken(self) -> RequestCost {
        let spent = self.charge_unknown_cost();
        let shared = &*self.proxy.0;
        let error = self.tail.finish(&shared.config.overflow_rules).error_only();
        let windows = &shared.knowledge.windows;
        log_learned_window(windows.learn_from_reply_end(&self.model, self.observed.sent, &error));
        shared.store.publish(&shared.knowledge, &self.model);
        spent
    }
}

/// Logs a window learned from a relayed reply.
fn log_learned_window(learned: Option<Tokens>) {
    if let Some(window) = learned {
        tracing::info!(
            window = window.get(),
            "learned the model's window from the end of a reply; it applies to the next request"
        );
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::CONTENT_ENCODING;

    use super::*;
    use crate::config::Config;
    use longhaul_core::cost::comparison::BilledRequest;
    use longhaul_core::dialect::chat_completions::read;
    use longhaul_core::prefix::keys::PrefixKeys;
    use longhaul_core::units::scope::Scope;

    /// Creates the observer of a reply with this content coding.
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
