//! One answered request beside what it would have been without longhaul.

use super::super::tokens::Tokens;
use super::super::usage::Usage;
use super::super::window::count::TokenRatio;
use super::{InputPrices, Usd};

/// A request that was answered, in the plain estimate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BilledRequest {
    /// As the client sent it.
    pub before: Tokens,
    /// As it went on.
    pub after: Tokens,
    /// What the model is taken to hold.
    pub window: Tokens,
}

/// What the request before it in the same conversation was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PriorRequest {
    /// In the plain estimate.
    pub sizes: BilledRequest,
    /// Whether its provider said that any of it came from a cache, or went into one.
    pub uses_cache: bool,
}

impl PriorRequest {
    /// What is to be remembered of a request that was counted so.
    pub fn new(billed: BilledRequest, usage: &Usage) -> Self {
        let caches = usage.cached.unwrap_or(0) > 0 || usage.written > 0;
        Self {
            sizes: billed,
            uses_cache: caches,
        }
    }
}

/// What longhaul made of one request's price. An amount that is not known is none, and never zero.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CostComparison {
    /// The tokens that were taken out, in the plain estimate.
    pub removed: Tokens,
    /// What they would have cost.
    pub saved: Option<Usd>,
    /// What more was paid for the rest, because the rewrite began elsewhere than the one before it
    /// and the provider's cache was missed for that.
    pub rewrite_cost: Option<Usd>,
}

impl BilledRequest {
    /// The tokens that longhaul took out and that would have been billed: what does not fit into the
    /// window is refused, and costs nobody anything.
    fn billable_removed(&self) -> Tokens {
        self.before.min(self.window) - self.after
    }

    /// What longhaul took out, billed or not.
    fn removed(&self) -> Tokens {
        self.before - self.after
    }

    /// The bill of this request, of which its provider counted `usage`, at `prices`, where either is
    /// known.
    ///
    /// What was taken out is counted at this request's own density, and at the price of **cached**
    /// input: history is sent again with every request, so without longhaul the provider would
    /// most likely have had it in its cache. It is the lower price, so that we rather claim too
    /// little. Only two things are known to speak against it: a provider that has neither a price for
    /// cached input nor ever reported any; and a cache that had gone cold, where one that was warm at
    /// the request before is reported to have held nothing, though longhaul changed nothing in
    /// between. Then it is the price that this request paid.
    ///
    /// A rewrite that takes out more or less than the one before it breaks the prefix that the cache
    /// knows. What was there already and is not read from the cache now was paid for at the full price,
    /// and the difference is what the rewrite cost.
    pub fn compare_costs(
        &self,
        usage: Option<&Usage>,
        prior: Option<&PriorRequest>,
        prices: Option<&InputPrices>,
    ) -> CostComparison {
        let taken = self.billable_removed();
        if taken == Tokens::ZERO {
            return CostComparison {
                removed: taken,
                saved: Some(Usd::ZERO),
                rewrite_cost: Some(Usd::ZERO),
            };
        }
        let Some(usage) = usage else {
            return CostComparison {
                removed: taken,
                saved: None,
                rewrite_cost: None,
            };
        };
        CostComparison {
            removed: taken,
            saved: prices.and_then(|prices| self.savings(usage, prior, prices)),
            rewrite_cost: match prior {
                Some(prior) if prior.uses_cache && self.removes_other_amount(prior) => {
                    prices.and_then(|prices| self.rewrite_cost(usage, prior, prices))
                }
                // Nothing that could have been missed.
                Some(_) | None => Some(Usd::ZERO),
            },
        }
    }

    /// Whether it takes out more or less than the one before.
    fn removes_other_amount(&self, prior: &PriorRequest) -> bool {
        self.removed() != prior.sizes.removed()
    }

    fn savings(
        &self,
        usage: &Usage,
        prior: Option<&PriorRequest>,
        prices: &InputPrices,
    ) -> Option<Usd> {
        let warm = prior.filter(|prior| prior.uses_cache);
        let went_cold =
            warm.is_some_and(|prior| !self.removes_other_amount(prior)) && usage.cached == Some(0);
        let never_cached =
            warm.is_none() && usage.cached.unwrap_or(0) == 0 && prices.cached.is_none();
        let price = if went_cold || never_cached {
            prices.cache_miss_price(usage)
        } else {
            prices.cached?
        };
        Some(price.cost_of(self.to_provider_tokens(usage, self.billable_removed())))
    }

    fn rewrite_cost(
        &self,
        usage: &Usage,
        prior: &PriorRequest,
        prices: &InputPrices,
    ) -> Option<Usd> {
        let new = self.before - prior.sizes.before;
        let stayed = usage
            .input
            .saturating_sub(self.to_provider_tokens(usage, new));
        let missed = stayed.saturating_sub(usage.cached.unwrap_or(0));
        if missed == 0 {
            return Some(Usd::ZERO);
        }
        Some(
            prices
                .cache_miss_price(usage)
                .excess_over(prices.cached?)
                .cost_of(missed),
        )
    }

    /// A part of the request as the provider would count it.
    fn to_provider_tokens(&self, usage: &Usage, part: Tokens) -> u32 {
        let density = TokenRatio::from_counts(Tokens::new(usage.input), self.after);
        density.to_counted(part).get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Price;
    use super::*;

    const FULL: i64 = 2_000;
    const CACHED: i64 = 200;

    fn prices() -> InputPrices {
        InputPrices {
            input: Price::from_dollars_per_million("2").unwrap(),
            cached: Price::from_dollars_per_million("0.2"),
            written: None,
        }
    }

    fn billed(before: u32, after: u32) -> BilledRequest {
        BilledRequest {
            before: Tokens::new(before),
            after: Tokens::new(after),
            window: Tokens::new(100_000),
        }
    }

    fn usage(input: u32, cached: u32) -> Usage {
        Usage {
            input,
            cached: Some(cached),
            ..Usage::default()
        }
    }

    fn prior(before: u32, after: u32) -> PriorRequest {
        PriorRequest {
            sizes: billed(before, after),
            uses_cache: true,
        }
    }

    /// What was saved and what the rewrite cost, in billionths of a dollar.
    fn check(
        of: BilledRequest,
        usage: Usage,
        prior: Option<PriorRequest>,
        prices: Option<InputPrices>,
        expect: (Option<i64>, Option<i64>),
    ) {
        let bill = of.compare_costs(Some(&usage), prior.as_ref(), prices.as_ref());
        let nanos = |usd: Option<Usd>| usd.map(Usd::as_nanos);
        let found = (nanos(bill.saved), nanos(bill.rewrite_cost));
        assert_eq!(found, expect, "{of:?} {usage:?} {prior:?}");
    }

    #[test]
    fn what_was_taken_out_would_have_been_read_from_the_cache() {
        let saved = Some(20_000 * CACHED);
        let steady = Some(prior(59_000, 39_000));
        check(
            billed(60_000, 40_000),
            usage(40_000, 39_000),
            steady,
            Some(prices()),
            (saved, Some(0)),
        );
        check(
            billed(60_000, 40_000),
            usage(40_000, 0),
            None,
            Some(prices()),
            (saved, Some(0)),
        );
        // A provider that counts twice as many.
        let twice = Some(40_000 * CACHED);
        check(
            billed(60_000, 40_000),
            usage(80_000, 78_000),
            steady,
            Some(prices()),
            (twice, Some(0)),
        );
    }

    #[test]
    fn a_cache_that_went_cold_by_itself_would_have_been_cold_without_longhaul() {
        let saved = Some(20_000 * FULL);
        let steady = Some(prior(59_000, 39_000));
        check(
            billed(60_000, 40_000),
            usage(40_000, 0),
            steady,
            Some(prices()),
            (saved, Some(0)),
        );
        // One that does not say what came from it is not known to be cold.
        let silent = Usage {
            cached: None,
            ..usage(40_000, 0)
        };
        let saved = Some(20_000 * CACHED);
        check(
            billed(60_000, 40_000),
            silent,
            steady,
            Some(prices()),
            (saved, Some(0)),
        );
    }

    #[test]
    fn a_rewrite_pays_for_what_stayed_and_was_missed() {
        // 1,000 tokens are new; of the 39,000 others, 10,000 are before the first cut.
        let saved = Some(20_000 * CACHED);
        let lost = Some(29_000 * (FULL - CACHED));
        let before = Some(prior(59_000, 59_000));
        check(
            billed(60_000, 40_000),
            usage(40_000, 10_000),
            before,
            Some(prices()),
            (saved, lost),
        );
        // Where nothing was in a cache, nothing was missed.
        let none = before.map(|prior| PriorRequest {
            uses_cache: false,
            ..prior
        });
        check(
            billed(60_000, 40_000),
            usage(40_000, 0),
            none,
            Some(prices()),
            (saved, Some(0)),
        );
    }

    #[test]
    fn what_is_written_to_the_cache_anew_is_paid_for_as_that() {
        let sold = InputPrices {
            written: Price::from_dollars_per_million("2.5"),
            ..prices()
        };
        let wrote = Usage {
            written: 1,
            ..usage(40_000, 10_000)
        };
        let before = Some(prior(59_000, 59_000));
        for (usage, price) in [(wrote, 2_500), (usage(40_000, 10_000), FULL)] {
            check(
                billed(60_000, 40_000),
                usage,
                before,
                Some(sold),
                (Some(20_000 * CACHED), Some(29_000 * (price - CACHED))),
            );
        }
    }

    #[test]
    fn a_cache_is_in_use_where_something_came_from_it_or_went_in() {
        let caches = |cached, written| {
            let usage = Usage {
                input: 10,
                cached,
                written,
                ..Usage::default()
            };
            PriorRequest::new(billed(10, 10), &usage).uses_cache
        };
        assert!(caches(Some(1), 0) && caches(None, 1) && caches(Some(0), 1));
        assert!(!caches(Some(0), 0) && !caches(None, 0));
    }

    #[test]
    fn a_provider_without_a_cache_would_have_billed_it_all() {
        let uncached = InputPrices {
            cached: None,
            ..prices()
        };
        let steady = prior(59_000, 39_000);
        let cold = Some(PriorRequest {
            uses_cache: false,
            ..steady
        });
        let saved = Some(20_000 * FULL);
        check(
            billed(60_000, 40_000),
            usage(40_000, 0),
            cold,
            Some(uncached),
            (saved, Some(0)),
        );
        // One that has a cache and no price for it is not known.
        check(
            billed(60_000, 40_000),
            usage(40_000, 9),
            Some(steady),
            Some(uncached),
            (None, Some(0)),
        );
        let before = Some(prior(59_000, 59_000));
        check(
            billed(60_000, 40_000),
            usage(40_000, 9),
            before,
            Some(uncached),
            (None, None),
        );
    }

    #[test]
    fn what_would_not_have_fitted_would_not_have_been_billed() {
        let saved = Some(60_000 * CACHED);
        check(
            billed(900_000, 40_000),
            usage(40_000, 0),
            None,
            Some(prices()),
            (saved, Some(0)),
        );
    }

    #[test]
    fn without_a_price_nothing_is_known_and_without_a_change_nothing_is_saved() {
        let before = Some(prior(59_000, 59_000));
        check(
            billed(60_000, 40_000),
            usage(40_000, 0),
            before,
            None,
            (None, None),
        );
        let uncounted = billed(60_000, 40_000).compare_costs(None, None, Some(&prices()));
        assert_eq!((uncounted.saved, uncounted.rewrite_cost), (None, None));
        check(
            billed(60_000, 60_000),
            usage(60_000, 0),
            before,
            None,
            (Some(0), Some(0)),
        );
    }
}
