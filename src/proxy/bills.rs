//! What chats cost, and what they would have cost without longhaul.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use tokio::time::Instant;

use crate::models;
use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::generations::{Shards, Spread};
use crate::rewrite::money::{Bill, Billed, Cost, Prior};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::usage::Usage;

/// Requests that are remembered for the price of the next one, and as many again that were asked for
/// less lately: at about 100 bytes each, 3 MB.
const REQUESTS: usize = 16_384;
/// For so long: providers keep what they have cached from 5 minutes to an hour.
const KEPT: Duration = Duration::from_hours(1);
/// How many boundaries back the request before is looked for: it lies a step or two back, behind a
/// fork or an undo a few more.
const BACK: usize = 64;

/// What the requests of late were billed as.
pub(super) struct Bills {
    /// The upstream's, by which prices are found.
    host: String,
    prior: Shards<Key, (Instant, Prior)>,
}

/// The prefix that a request was, and a hash of its model's name: caches are each model's own.
type Key = (RecordKey, u64);

impl Spread for Key {
    fn bits(&self) -> usize {
        self.0.bits()
    }
}

/// What one chat cost, and what longhaul made of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) cost: Cost,
    pub(super) bill: Bill,
}

/// A request that was sent, until its reply has ended.
pub(super) struct Open {
    billed: Billed,
    /// The request before it, where longhaul changed this one.
    prior: Option<Prior>,
    key: Option<Key>,
}

impl Bills {
    /// None yet, of requests to `host`.
    pub(super) fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            prior: Shards::new(REQUESTS),
        }
    }

    /// A request of a conversation is sent.
    pub(super) fn open(&self, chains: &Chains, model: &str, billed: Billed) -> Open {
        let model = hash(model);
        let before = || {
            let mut keys = chains.newest_first().take(BACK);
            keys.find_map(|(_, key)| self.prior(&(key, model)))
        };
        Open {
            billed,
            prior: (billed.after < billed.before).then(before).flatten(),
            key: chains.newest().map(|(_, key)| (key, model)),
        }
    }

    /// Whether this very request of a conversation was answered before.
    pub(super) fn has(&self, chains: &Chains, model: &str) -> bool {
        let newest = chains.newest();
        newest.is_some_and(|(_, key)| self.prior(&(key, hash(model))).is_some())
    }

    /// What a request was that its provider may have cached still.
    fn prior(&self, key: &Key) -> Option<Prior> {
        let (billed, prior) = self.prior.get(key)?;
        (billed.elapsed() < KEPT).then_some(prior)
    }

    /// Its reply has ended, and its provider counted so.
    pub(super) fn close(&self, open: &Open, model: &str, usage: Option<&Usage>) -> Spent {
        let is_said = usage.is_some_and(|usage| usage.cost.is_some());
        let changed = open.billed.after < open.billed.before;
        let prices = (changed || !is_said)
            .then(|| models::prices(&self.host, model))
            .flatten();
        if let (Some(usage), Some(key)) = (usage, open.key) {
            let prior = Prior::of(open.billed, usage);
            self.prior.insert(key, (Instant::now(), prior));
        }
        Spent {
            cost: Cost::of(usage, prices.as_ref()),
            bill: open
                .billed
                .bill(usage, open.prior.as_ref(), prices.as_ref()),
        }
    }
}

impl Spent {
    /// The tokens taken out whose price is not known.
    pub(super) fn unknown(&self) -> Tokens {
        match self.bill.saved {
            Some(_) => Tokens::ZERO,
            None => self.bill.taken,
        }
    }
}

fn hash(model: &str) -> u64 {
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
    fn chains(turns: usize) -> Chains {
        let turn = r#"{"role":"user","content":"go"},{"role":"assistant","content":"done"}"#;
        let messages = vec![turn; turns].join(",");
        let body = format!("{{\"messages\":[{messages}]}}");
        Chains::of(&read(body.as_bytes()).unwrap(), Scope::new(&[0; 32], &[]))
    }

    fn billed(before: u32, after: u32) -> Billed {
        Billed {
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
        let bills = Bills::new("openrouter.ai");
        let spend = |turns, billed, usage: Usage| {
            let chains = chains(turns);
            let open = bills.open(&chains, MODEL, billed);
            assert!(!bills.has(&chains, MODEL));
            let spent = bills.close(&open, MODEL, Some(&usage));
            assert!(bills.has(&chains, MODEL) && !bills.has(&chains, "another"));
            let known = spent.cost.known().unwrap();
            [
                known,
                spent.bill.saved.unwrap(),
                spent.bill.rewrite.unwrap(),
            ]
            .map(Usd::nanos)
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
        let bills = Bills::new("openrouter.ai");
        let chains = chains(1);
        let open = bills.open(&chains, MODEL, billed(60_000, 60_000));
        bills.close(&open, MODEL, Some(&usage(60_000, 0)));
        tokio::time::advance(KEPT.saturating_sub(Duration::from_secs(1))).await;
        assert!(bills.has(&chains, MODEL));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!bills.has(&chains, MODEL));
    }

    #[test]
    fn where_nobody_knows_the_price_what_was_taken_out_is_counted_and_not_priced() {
        let bills = Bills::new("127.0.0.1");
        let open = bills.open(&chains(1), MODEL, billed(60_000, 40_000));
        let spent = bills.close(&open, MODEL, Some(&usage(40_000, 0)));
        assert_eq!(spent.cost, Cost::NotListed);
        assert_eq!(spent.unknown(), Tokens::new(20_000));
        assert_eq!(bills.close(&open, MODEL, None).cost, Cost::NotCounted);
    }
}
