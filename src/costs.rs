//! Costs of chats, and their estimated costs without longhaul.

pub(crate) mod cost_meter;
pub(crate) mod spending;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::callers::fair_cache::FairCache;
use crate::callers::{AcceptedCallers, FORGET_AFTER};
use crate::costs::spending::Payer;
use longhaul_core::cost::comparison::{BilledRequest, CostComparison, PriorRequest};
use longhaul_core::cost::inferred_prices::InferredPrices;
use longhaul_core::cost::pricing::{Cost, TokenPrices};
use longhaul_core::dialect::usage::Usage;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::{RecordKey, Scope};

/// Maximum requests remembered to price the next one. At about 150 bytes each, 3 MB.
const MAX_REQUESTS: u64 = 16_384;
/// Maximum models, of all callers, whose reported costs are remembered. At 300 bytes each, 2 MB.
const MAX_MODELS: u64 = 8_192;
/// Lifetime of a remembered request: providers keep cached prompts for 5 minutes to an hour.
const CACHE_LIFETIME: Duration = Duration::from_hours(1);
/// Maximum boundaries searched backwards for the previous request. That request is usually a step
/// or two back, and a few more after a fork or an undo.
const MAX_LOOKBACK: usize = 64;

/// Remembers recent requests and prices chats.
pub(crate) struct CostTracker {
    prior: FairCache<CacheKey, (Instant, PriorRequest)>,
    /// Costs that the provider has reported to a caller, by a hash of the model's name.
    inferred: FairCache<(Scope, u64), InferredPrices>,
}

/// Prefix of a request, and a hash of the model's name: each model has its own cache.
type CacheKey = (RecordKey, u64);

/// Cost of one chat, and the effect of longhaul on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestCost {
    pub(crate) cost: Cost,
    pub(crate) comparison: CostComparison,
    /// Token counts that the provider reported.
    pub(crate) usage: Option<Usage>,
}

/// A sent request whose reply has not ended yet.
pub(crate) struct PendingCost {
    billed: BilledRequest,
    /// The caller, to whom the provider reports costs.
    scope: Scope,
    /// The request before this one, if longhaul changed this one.
    prior: Option<PriorRequest>,
    key: Option<CacheKey>,
    /// `None` if no cap is set.
    pub(crate) payer: Option<Payer>,
}

impl CostTracker {
    /// Creates an empty tracker.
    pub(crate) fn new(accepted: &Arc<AcceptedCallers>) -> Self {
        Self {
            inferred: FairCache::of_entries(MAX_MODELS, FORGET_AFTER, accepted),
            prior: FairCache::of_entries(MAX_REQUESTS, CACHE_LIFETIME, accepted),
        }
    }

    /// Begins tracking a request that is sent.
    pub(crate) fn begin(
        &self,
        (scope, prefix_keys): (Scope, &PrefixKeys),
        model: &str,
        billed: BilledRequest,
    ) -> PendingCost {
        let model = hash_model(model);
        let before = || {
            let mut keys = prefix_keys.newest_first().take(MAX_LOOKBACK);
            keys.find_map(|(_, key)| self.prior(&(key, model)))
        };
        PendingCost {
            billed,
            scope,
            prior: (billed.after < billed.before).then(before).flatten(),
            key: prefix_keys.newest().map(|(_, key)| (key, model)),
            payer: None,
        }
    }

    /// Whether this exact request of a conversation was answered before.
    pub(crate) fn has_answered(&self, prefix_keys: &PrefixKeys, model: &str) -> bool {
        let newest = prefix_keys.newest();
        newest.is_some_and(|(_, key)| self.prior(&(key, hash_model(model))).is_some())
    }

    /// Whether `model` has answered a request that was exactly this prefix.
    pub(crate) fn has_answered_at(&self, prefix: RecordKey, model: &str) -> bool {
        self.prior(&(prefix, hash_model(model))).is_some()
    }

    /// Returns the remembered request for `key`, if the provider may still have it cached.
    fn prior(&self, key: &CacheKey) -> Option<PriorRequest> {
        let (billed, prior) = self.prior.get(key)?;
        (billed.elapsed() < CACHE_LIFETIME).then_some(prior)
    }

    /// Adds a reply's usage to the costs that the provider has reported to the caller for the model.
    /// Returns the prices that follow from them.
    fn infer(&self, caller: Scope, model: &str, usage: Option<&Usage>) -> Option<TokenPrices> {
        let key = (caller, hash_model(model));
        let Some(usage) = usage.filter(|usage| usage.cost.is_some()) else {
            return self.inferred.get(&key)?.prices();
        };
        let mut prices = None;
        self.inferred.update(key, |inferred| {
            let mut inferred = inferred.unwrap_or_default();
            inferred.add(usage);
            prices = inferred.prices();
            Some(inferred)
        });
        prices
    }

    /// Prices a request whose reply has ended, from the provider's `usage` and the model's `prices`, and
    /// remembers the request.
    pub(crate) fn settle(
        &self,
        open: &PendingCost,
        model: &str,
        usage: Option<&Usage>,
        prices: Option<TokenPrices>,
    ) -> RequestCost {
        let prices = prices.or_else(|| self.infer(open.scope, model, usage));
        if let (Some(usage), Some(key)) = (usage, open.key) {
            let prior = PriorRequest::new(open.billed, usage);
            self.prior.insert(key, (Instant::now(), prior));
        }
        RequestCost {
            usage: usage.copied(),
            cost: Cost::from_usage(usage, prices.as_ref()),
            comparison: open.billed.compare_costs(usage, open.prior.as_ref(), prices.as_ref()),
        }
    }
}

impl PendingCost {
    /// Names the payer, whose spending has a cap.
    pub(crate) fn paid_by(self, payer: Option<Payer>) -> Self {
        Self { payer, ..self }
    }

    /// Returns the usage of a request whose reply states none: the estimate of the input.
    pub(crate) fn estimated_usage(&self) -> Usage {
        Usage { input: self.billed.after.get(), ..Usage::default() }
    }
}

fn hash_model(model: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    model.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::dialect::chat_completions::read;
    use longhaul_core::units::tokens::Tokens;
    use longhaul_core::units::usd::Usd;

    const MODEL: &str = "openai/gpt-5";

    fn listed() -> Option<TokenPrices> {
        crate::models::prices("openrouter.ai", MODEL)
    }

    fn scope(caller: u8) -> Scope {
        Scope::new(&[caller; 32], &[])
    }

    /// Builds the prefix keys of a conversation after `turns` turns.
    fn prefix_keys(turns: usize) -> PrefixKeys {
        let turn = r#"{"role":"user","content":"go"},{"role":"assistant","content":"done"}"#;
        let messages = vec![turn; turns].join(",");
        let body = format!("{{\"messages\":[{messages}]}}");
        PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope(0))
    }

    fn billed(before: u32, after: u32) -> BilledRequest {
        BilledRequest {
            before: Tokens::new(before),
            after: Tokens::new(after),
            window: Tokens::new(400_000),
        }
    }

    fn usage(input: u32, cached: u32) -> Usage {
        Usage { input, cached: Some(cached), ..Usage::default() }
    }

    /// Session at prices of $1.25 and $0.125 per million tokens: unchanged, cut, and cut at the
    /// same point again.
    #[test]
    fn first_cut_costs_a_cache_rewrite_and_the_next_request_saves() {
        let tracker = CostTracker::new(&Arc::default());
        let spend = |turns, billed, usage: Usage| {
            let prefix_keys = prefix_keys(turns);
            let open = tracker.begin((scope(0), &prefix_keys), MODEL, billed);
            assert!(!tracker.has_answered(&prefix_keys, MODEL));
            let spent = tracker.settle(&open, MODEL, Some(&usage), listed());
            assert!(
                tracker.has_answered(&prefix_keys, MODEL)
                    && !tracker.has_answered(&prefix_keys, "another")
            );
            let known = spent.cost.amount().unwrap();
            [known, spent.comparison.saved.unwrap(), spent.comparison.rewrite_cost.unwrap()]
                .map(Usd::as_nanos)
        };
        let whole = spend(1, billed(60_000, 60_000), usage(60_000, 50_000));
        assert_eq!(whole, [10_000 * 1_250 + 50_000 * 125, 0, 0]);
        let cut = spend(2, billed(61_000, 41_000), usage(41_000, 10_000));
        let lost = 30_000 * (1_250 - 125);
        assert_eq!(cut, [31_000 * 1_250 + 10_000 * 125, 20_000 * 125, lost]);
        let next = spend(3, billed(62_000, 42_000), usage(42_000, 41_000));
        assert_eq!(next, [1_000 * 1_250 + 41_000 * 125, 20_000 * 125, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn cached_prefix_expires_after_an_hour() {
        let tracker = CostTracker::new(&Arc::default());
        let prefix_keys = prefix_keys(1);
        let open = tracker.begin((scope(0), &prefix_keys), MODEL, billed(60_000, 60_000));
        tracker.settle(&open, MODEL, Some(&usage(60_000, 0)), listed());
        tokio::time::advance(CACHE_LIFETIME.saturating_sub(Duration::from_secs(1))).await;
        assert!(tracker.has_answered(&prefix_keys, MODEL));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!tracker.has_answered(&prefix_keys, MODEL));
    }

    #[test]
    fn removed_tokens_stay_unpriced_without_a_listed_price() {
        let tracker = CostTracker::new(&Arc::default());
        let open = tracker.begin((scope(0), &prefix_keys(1)), MODEL, billed(60_000, 40_000));
        let spent = tracker.settle(&open, MODEL, Some(&usage(40_000, 0)), None);
        assert_eq!(spent.cost, Cost::NotListed);
        let CostComparison { saved, removed, .. } = spent.comparison;
        assert_eq!((saved, removed), (None, Tokens::new(20_000)));
        assert_eq!(tracker.settle(&open, MODEL, None, None).cost, Cost::NotCounted);
    }

    #[test]
    fn prices_that_replies_to_one_caller_show_do_not_apply_to_another() {
        let tracker = CostTracker::new(&Arc::default());
        let saved = |caller: u8, usage: Usage| {
            let keys = prefix_keys(1);
            let open = tracker.begin((scope(caller), &keys), MODEL, billed(60_000, 40_000));
            tracker.settle(&open, MODEL, Some(&usage), None).comparison.saved
        };
        for (input, cached, output) in [
            (1_000, 0, 100),
            (2_000, 900, 300),
            (5_000, 4_000, 20),
            (9_000, 5_000, 800),
            (12_000, 11_000, 90),
            (700, 0, 700),
        ] {
            let nanos = 2_000 * (input - cached) + 500 * cached + 8_000 * output;
            let reported = Usage {
                output: Some(output),
                cost: Some(Usd::from_nanos(nanos.into())),
                ..usage(input, cached)
            };
            _ = saved(1, reported);
        }
        let asked = Usage { output: Some(10), ..usage(1_000, 0) };
        assert!(saved(1, asked).is_some());
        assert_eq!(saved(2, asked), None);
    }
}
