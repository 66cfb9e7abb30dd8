//! Observes a relayed reply and, at its end, records its cost and any evidence about the window.

use std::sync::Arc;

use http::Response;

use crate::body::coding::Decoder;
use crate::costs::{PendingCost, RequestCost};
use crate::learned::learned_models::LearnedModels;
use crate::proxy_state::ProxyState;
use crate::store::CountedRequest;
use crate::traces::CallSpan;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::dropped_reasoning::DropReports;
use longhaul_core::overflow::{ReplyEnd, ReplyTail, RequestFacts, Verdict};
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::reply_signals::SentSize;
use longhaul_core::window::token_ratio::CountSample;

/// The facts about a sent request that its observer needs.
pub(crate) struct ObservedRequest {
    pub(crate) dialect: Dialect,
    pub(crate) sent: SentSize,
    /// Whether the upstream adds to the prompt what `sent` does not count.
    pub(crate) is_partial: bool,
    /// Key of the stable prefix of the original request, which later requests share.
    pub(crate) prefix: Option<RecordKey>,
    pub(crate) bill: PendingCost,
    /// Whether the provider may drop reasoning of the request.
    pub(crate) may_drop_reasoning: bool,
    /// The window in force when the request was planned.
    pub(crate) window: Tokens,
    /// The upstream path. A part of the request's head would keep the whole head, while the reply streams.
    pub(crate) path: Box<str>,
}

impl ObservedRequest {
    /// Returns the facts by which an error in the reply is judged. The body is gone by then.
    fn facts<'a>(&self, model: &'a str) -> RequestFacts<'a> {
        let tokens = self.sent.estimate.get();
        RequestFacts { tokens, body_tokens: tokens, model, ..RequestFacts::default() }
    }
}

/// Observer of one reply. Buffers only the end of the reply, and neither delays nor changes a byte.
pub(crate) struct ReplyObserver {
    state: Arc<ProxyState>,
    learned: Arc<LearnedModels>,
    model: Arc<str>,
    observed: ObservedRequest,
    decoder: Decoder,
    tail: ReplyTail,
    /// `None` if no reasoning can be dropped.
    drops: Option<DropReports>,
}

impl ReplyObserver {
    /// Creates an observer. Returns `None` in these cases:
    ///
    /// - The reply is not successful or its coding is unsupported.
    /// - The decoder would not fit into half of the budget. The decoder is held while the reply
    ///   streams, and the other half is left for buffering chats.
    pub(crate) fn for_reply<B>(
        state: &Arc<ProxyState>,
        learned: &Arc<LearnedModels>,
        reply: &Response<B>,
        model: &Arc<str>,
        observed: impl FnOnce() -> ObservedRequest,
    ) -> Option<Box<Self>> {
        if reply.status() != http::StatusCode::OK {
            return None;
        }
        // Only the end of the reply is kept, so its decoded length is unlimited.
        let decoder = Decoder::from_headers(reply.headers())?.with_max_bytes(u64::MAX);
        let room = state.budget.low_priority_reservation();
        let decoder = decoder.charged_to(room).ok()?;
        let observed = observed();
        Some(Box::new(Self {
            state: Arc::clone(state),
            learned: Arc::clone(learned),
            model: Arc::clone(model),
            tail: ReplyTail::new(observed.dialect),
            drops: observed.may_drop_reasoning.then(DropReports::default),
            observed,
            decoder,
        }))
    }

    /// Observes a chunk. Returns whether to observe the next one: `false` if this chunk could not
    /// be decoded.
    #[must_use]
    pub(crate) fn observe(&mut self, mut chunk: &[u8]) -> bool {
        if self.decoder.is_identity() {
            push(&mut self.tail, &mut self.drops, chunk);
            return true;
        }
        loop {
            match self.decoder.decode_step(&mut chunk) {
                Ok(Some(piece)) => push(&mut self.tail, &mut self.drops, piece),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Returns the number of items of reasoning that the reply reports as dropped.
    pub(crate) fn dropped_reasoning(&self) -> usize {
        self.drops.as_ref().map_or(0, DropReports::dropped)
    }

    /// Whether the observed part is a complete reply.
    pub(crate) fn is_complete(&self) -> bool {
        self.tail.is_complete()
    }

    /// Records the end of a complete reply, and adds the usage to the call's trace span. Returns
    /// the cost if the reply was successful.
    pub(crate) fn finish(self, attempt: Option<&mut CallSpan>) -> Option<RequestCost> {
        let state = &*self.state;
        let facts = self.observed.facts(&self.model);
        let reply_end = self.tail.finish(&state.config.overflow_rules, Some(facts));
        let ObservedRequest { sent, is_partial, prefix, bill, .. } = &self.observed;
        // A failed reply is charged if it contains text or counted input.
        let has_part =
            reply_end.has_content || reply_end.usage.is_some_and(|usage| usage.input > 0);
        let was_answered = reply_end.verdict == Verdict::Fine
            || (reply_end.verdict == Verdict::Failed && has_part);
        let spent = was_answered.then(|| {
            let prices = state.config.prices(&self.model);
            state.settle_cost(bill, &self.model, reply_end.usage.as_ref(), prices)
        });
        if let Some(usage) = &reply_end.usage {
            state.metrics.provider_tokens.add(usage);
            if let Some(attempt) = attempt {
                attempt.record_usage(usage);
            }
        }
        if *is_partial {
            return spent;
        }
        let sample = reply_end.usage.and_then(|usage| CountSample::new(sent.estimate, usage.input));
        learn(state, &self.learned, &self.model, &self.observed, &reply_end);
        if let (Some(key), Some(sample)) = (*prefix, sample) {
            let average_ratio = self.learned.windows.sizes(&self.model).average_ratio;
            let counted = CountedRequest { sample, average_ratio };
            state.store.record_count(key, &self.model, counted);
        }
        spent
    }

    /// Stops observing. The request is charged with an unknown amount.
    pub(crate) fn charge_unknown_cost(&self) -> RequestCost {
        let bill = &self.observed.bill;
        self.state.settle_cost(bill, &self.model, None, None)
    }

    /// Records a reply that ended early. Its usage and finish reason are unknown, but an error in
    /// the received part counts: it may be the cause.
    pub(crate) fn finish_broken(self) -> RequestCost {
        let spent = self.charge_unknown_cost();
        let state = &*self.state;
        let facts = self.observed.facts(&self.model);
        let rules = &state.config.overflow_rules;
        let end = self.tail.finish(rules, Some(facts));
        let error = ReplyEnd { usage: None, finish: None, has_content: true, ..end };
        if !self.observed.is_partial {
            learn(state, &self.learned, &self.model, &self.observed, &error);
        }
        spent
    }
}

fn push(tail: &mut ReplyTail, drops: &mut Option<DropReports>, decoded: &[u8]) {
    tail.push(decoded);
    if let Some(drops) = drops {
        drops.push(decoded);
    }
}

/// Learns from the end of a reply, and reports a learned window if it is below the one in force.
fn learn(
    state: &ProxyState,
    models: &LearnedModels,
    model: &str,
    observed: &ObservedRequest,
    reply_end: &ReplyEnd,
) {
    let learned = models.windows.learn_from_reply_end(model, observed.sent, reply_end);
    state.store.publish(models, model);
    let before = observed.window;
    if let Some(after) = learned.filter(|after| *after < before) {
        state.metrics.windows_lowered.add(1_u64);
        tracing::warn!(
            model,
            from = before.get(),
            to = after.get(),
            status = http::StatusCode::OK.as_u16(),
            path = &*observed.path,
            "the end of a reply shows a smaller window than the one in force; this caller's chats \
             with the model use the smaller window"
        );
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::CONTENT_ENCODING;

    use super::*;
    use crate::config::Config;
    use crate::learned::learned_models::QueryKey;
    use longhaul_core::cost::comparison::BilledRequest;
    use longhaul_core::dialect::chat_completions::read;
    use longhaul_core::prefix::keys::PrefixKeys;
    use longhaul_core::units::scope::Scope;

    /// Creates the observer of a reply with this content coding.
    fn observer(state: &Arc<ProxyState>, coding: &'static str) -> Option<Box<ReplyObserver>> {
        let mut reply = Response::new(());
        let coding = HeaderValue::from_static(coding);
        reply.headers_mut().insert(CONTENT_ENCODING, coding);
        let body = read(br#"{"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
        let prefix_keys = PrefixKeys::new(&body, Scope::new(&[0; 32], &[]));
        let tokens = Tokens::new(10);
        let billed = BilledRequest { before: tokens, after: tokens, window: tokens };
        let scope = Scope::new(&[0; 32], &[]);
        let learned = state.learned.of_caller(scope, QueryKey::Caller);
        ReplyObserver::for_reply(state, &learned, &reply, &"m".into(), || ObservedRequest {
            dialect: Dialect::ChatCompletions,
            is_partial: false,
            sent: SentSize { estimate: tokens, output_limit: None, is_text_only: true },
            may_drop_reasoning: false,
            prefix: None,
            window: tokens,
            path: "/v1/chat/completions".into(),
            bill: state.costs.begin((scope, &prefix_keys), "m", billed),
        })
    }

    #[tokio::test]
    async fn reply_decoders_leave_half_of_the_budget_to_chats() {
        let config = [("upstream.base", "http://127.0.0.1:9/v1"), ("limits.buffered", "72MiB")];
        let state = Arc::new(ProxyState::new(Config::default_with(config).unwrap()).unwrap());
        let looked_at: Vec<_> = (0..9).map_while(|_| observer(&state, "br")).collect();
        assert_eq!(looked_at.len(), 2);
        assert!(observer(&state, "identity").is_some());
        let mut bodies = state.budget.reservation();
        assert_eq!(bodies.grow_to(36 << 20), Ok(()));
        drop((looked_at, bodies));
        assert!(observer(&state, "br").is_some());
    }
}
