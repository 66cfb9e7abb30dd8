//! What chats cost, and what they would have cost without longhaul.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use tokio::time::Instant;

use crate::models;
use crate::rewrite::chain::{PrefixKeys, RecordKey};
use crate::rewrite::generations::{ShardKey, ShardedCache};
use crate::rewrite::money::{BilledRequest, Cost, CostComparison, PriorRequest};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::usage::Usage;

/// Requests that are remembered for the price of the next one, and as many again that were asked for
/// less lately: at about 100 bytes each, 3 MB.
const MAX_REQUESTS: usize = 16_384;
/// For so long: providers keep what they have cached from 5 minutes to an hour.
const CACHE_LIFETIME: Duration = Duration::from_hours(1);
/// How many boundaries back the request before is looked for: it lies a step or two back, behind a
/// fork or an undo a few more.
const MAX_LOOKBACK: usize = 64;

/// What the requests of late were billed as.
pub(super) struct CostTracker {
    /// The upstream's, by which prices are found.
    host: String,
    prior: ShardedCache<CacheKey, (Instant, PriorRequest)>,
}

/// The prefix that a request was, and a hash of its model's name: caches are each model's own.
type CacheKey = (RecordKey, u64);

impl ShardKey for CacheKey {
    fn shard_bits(&self) -> usize {
        self.0.shard_bits()
    }
}

/// What one chat cost, and what longhaul made of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestCost {
    pub(super) cost: Cost,
    pub(super) comparison: CostComparison,
}

/// A request that was sent, until its reply has ended.
pub(super) struct PendingCost {
    billed: BilledRequest,
    /// The request before it, where longhaul changed this one.
    prior: Option<PriorRequest>,
    key: Option<CacheKey>,
}

impl CostTracker {
    /// None yet, of requests to `host`.
    pub(super) fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            prior: ShardedCache::new(MAX_REQUESTS),
        }
    }

    /// A request of a conversation is sent.
    pub(super) fn begin(
        &self,
        chains: &PrefixKeys,
        model: &str,
        billed: BilledRequest,
    ) -> PendingCost {
        let model = hash_model(model);
        let before = || {
            let mut keys = chains.newest_first().take(MAX_LOOKBACK);
            keys.find_map(|(_, key)| self.prior(&(key, model)))
        };
        PendingCost {
            billed,
            prior: (billed.after < billed.before).then(before).flatten(),
            key: chains.newest().map(|(_, key)| (key, model)),
        }
    }

    /// Whether this very request of a conversation was answered before.
    pub(super) fn has_answered(&self, chains: &PrefixKeys, model: &str) -> bool {
        let newest = chains.newest();
        newest.is_some_and(|(_, key)| self.prior(&(key, hash_model(model))).is_some())
    }

    /// What a request was that its provider may have cached still.
    fn prior(&self, key: &CacheKey) -> Option<PriorRequest> {
        let (billed, prior) = self.prior.get(key)?;
        (billed.elapsed() < CACHE_LIFETIME).then_some(prior)
    }

    /// Its reply has ended, and its provider counted so.
    pub(super) fn settle(
        &self,
        open: &PendingCost,
        model: &str,
        usage: Option<&Usage>,
    ) -> RequestCost {
        let is_said = usage.is_some_and(|usage| usage.cost.is_some());
        let changed = open.billed.after < open.billed.before;
        let prices = (changed || !is_said)
            .then(|| models::prices(&self.host, model))
            .flatten();
        if let (Some(usage), Some(key)) = (usage, open.key) {
            let prior = PriorRequest::new(open.billed, usage);
            self.prior.insert(key, (Instant::now(), prior));
        }
        RequestCost {
            cost: Cost::from_usage(usage, prices.as_ref()),
            comparison: open
                .billed
                .compare_costs(usage, open.prior.as_ref(), prices.as_ref()),
        }
    }
}

impl RequestCost {
    /// The tokens taken out whose price is not known.
    pub(super) fn unpriced_tokens(&self) -> Tokens {
        match self.comparison.saved {
            Some(_) => Tokens::ZERO,
            None => self.comparison.removed,
        }
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
    use crate::rewrite::chain::Scope;
    use crate::rewrite::chat_completions::read;
    use crate::rewrite::money::Usd;

    const MODEL: &str = "openai/gpt-5";

    /// The chains of a conversation after so many turns.
    fn chains(turns: usize) -> PrefixKeys {
        let turn = r#"{"role":"user","content":"go"},{"role":"assistant","content":"done"}"#;
        let messages = vec![turn; turns].join(",");
        let body = format!("{{\"messages\":[{messages}]}}");
        PrefixKeys::new(&read(body.as_bytes()).unwrap(), Scope::new(&[0; 32], &[]))
    }

    fn billed(before: u32, after: u32) -> BilledRequest {
        BilledRequest {
            before: Tokens::new(before),
            after: Tokens::new(after),
            window: Tokens::new(400_000),
        }
    }

    fn usage(input: u32, cached: u32) -> Usage {
        Usage {
            input,
            cached: Some(cached),
            ..Usage::default()
        }
    }

    /// A session at prices of 1.25 and 0.125 dollars for a million: whole, cut, and as cut as before.
    #[test]
    fn the_first_cut_is_paid_for_and_the_next_request_saves() {
        let bills = CostTracker::new("openrouter.ai");
        let spend = |turns, billed, usage: Usage| {
            let chains = chains(turns);
            let open = bills.begin(&chains, MODEL, billed);
            assert!(!bills.has_answered(&chains, MODEL));
            let spent = bills.settle(&open, MODEL, Some(&usage));
            assert!(bills.has_answered(&chains, MODEL) && !bills.has_answered(&chains, "another"));
            let known = spent.cost.amount().unwrap();
            [
                known,
                spent.comparison.saved.unwrap(),
                spent.comparison.rewrite_cost.unwrap(),
            ]
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
    async fn what_a_provider_cached_an_hour_ago_is_cached_no_more() {
        let bills = CostTracker::new("openrouter.ai");
        let chains = chains(1);
        let open = bills.begin(&chains, MODEL, billed(60_000, 60_000));
        bills.settle(&open, MODEL, Some(&usage(60_000, 0)));
        tokio::time::advance(CACHE_LIFETIME.saturating_sub(Duration::from_secs(1))).await;
        assert!(bills.has_answered(&chains, MODEL));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!bills.has_answered(&chains, MODEL));
    }

    #[test]
    fn where_nobody_knows_the_price_what_was_taken_out_is_counted_and_not_priced() {
        let bills = CostTracker::new("127.0.0.1");
        let open = bills.begin(&chains(1), MODEL, billed(60_000, 40_000));
        let spent = bills.settle(&open, MODEL, Some(&usage(40_000, 0)));
        assert_eq!(spent.cost, Cost::NotListed);
        assert_eq!(spent.unpriced_tokens(), Tokens::new(20_000));
        assert_eq!(bills.settle(&open, MODEL, None).cost, Cost::NotCounted);
    }
}
