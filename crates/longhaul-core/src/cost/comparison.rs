//! Comparison of a request's cost with its cost without longhaul.

use crate::cost::pricing::TokenPrices;
use crate::dialect::usage::Usage;
use crate::units::tokens::Tokens;
use crate::units::usd::Usd;
use crate::window::token_ratio::TokenRatio;

/// Sizes of an answered request, in the plain estimate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BilledRequest {
    /// Size as sent by the client.
    pub before: Tokens,
    /// Size as forwarded.
    pub after: Tokens,
    /// The model's assumed context window.
    pub window: Tokens,
}

/// The previous request of the same conversation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PriorRequest {
    /// Sizes of the previous request, in the plain estimate.
    pub sizes: BilledRequest,
    /// Whether the provider reported cache reads or writes for the previous request.
    pub uses_cache: bool,
}

impl PriorRequest {
    /// Creates the record of a request from its sizes and its reported usage.
    pub fn new(billed: BilledRequest, usage: &Usage) -> Self {
        let caches = usage.cached.unwrap_or(0) > 0 || usage.written > 0;
        Self { sizes: billed, uses_cache: caches }
    }
}

/// Effect of longhaul on one request's cost. An unknown amount is `None`, never zero.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CostComparison {
    /// Removed tokens that would have been billed, in the plain estimate.
    pub removed: Tokens,
    /// Cost that the removed tokens would have had.
    pub saved: Option<Usd>,
    /// Extra cost of the remaining tokens. A rewrite that starts at a different position than the
    /// previous one misses the provider's cache.
    pub rewrite_cost: Option<Usd>,
}

impl BilledRequest {
    /// Returns the removed tokens that would have been billed. A request beyond the window is
    /// refused and costs nothing, so tokens beyond the window do not count.
    fn billable_removed(&self) -> Tokens {
        self.before.min(self.window) - self.after
    }

    /// Returns the removed tokens, whether or not they would have been billed.
    fn removed(&self) -> Tokens {
        self.before - self.after
    }

    /// Compares the cost of this request with its cost without longhaul. `usage` and `prices` are
    /// `None` if unknown.
    ///
    /// Removed tokens are converted with this request's own token ratio and charged at the price of
    /// **cached** input. History is sent again with every request, so without longhaul the provider
    /// would most likely have had it in its cache. The cached price is the lower one, so savings
    /// are understated rather than overstated. The price that this request paid is used instead in
    /// two cases:
    ///
    /// - The provider has no price for cached input and never reported any.
    /// - The cache has gone cold: it was warm at the previous request, longhaul changed nothing in
    ///   between, and the provider reports no cached tokens.
    ///
    /// A rewrite that removes more or less than the previous one breaks the cached prefix. Tokens
    /// that were already present, but are not read from the cache now, were charged at the full
    /// price. The difference to the cached price is the cost of the rewrite.
    pub fn compare_costs(
        &self,
        usage: Option<&Usage>,
        prior: Option<&PriorRequest>,
        prices: Option<&TokenPrices>,
    ) -> CostComparison {
        let removed = self.billable_removed();
        let both = |amount| CostComparison { removed, saved: amount, rewrite_cost: amount };
        if removed == Tokens::ZERO {
            return both(Some(Usd::ZERO));
        }
        let Some(usage) = usage else {
            return both(None);
        };
        CostComparison {
            removed,
            saved: prices.and_then(|prices| self.savings(usage, prior, prices)),
            rewrite_cost: match prior {
                Some(prior) if prior.uses_cache && self.removes_other_amount(prior) => {
                    prices.and_then(|prices| self.rewrite_cost(usage, prior, prices))
                }
                // There was no cache to miss.
                Some(_) | None => Some(Usd::ZERO),
            },
        }
    }

    /// Whether this request removes more or less than the previous one.
    fn removes_other_amount(&self, prior: &PriorRequest) -> bool {
        self.removed() != prior.sizes.removed()
    }

    fn savings(
        &self,
        usage: &Usage,
        prior: Option<&PriorRequest>,
        prices: &TokenPrices,
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
        Some(price.cost_of(self.provider_tokens(usage, self.billable_removed())))
    }

    fn rewrite_cost(
        &self,
        usage: &Usage,
        prior: &PriorRequest,
        prices: &TokenPrices,
    ) -> Option<Usd> {
        let new = self.before - prior.sizes.before;
        let stayed = usage.input.saturating_sub(self.provider_tokens(usage, new));
        let missed = stayed.saturating_sub(usage.cached.unwrap_or(0));
        if missed == 0 {
            return Some(Usd::ZERO);
        }
        Some(prices.cache_miss_price(usage).excess_over(prices.cached?).cost_of(missed))
    }

    /// Converts a part of the request to the provider's tokens.
    fn provider_tokens(&self, usage: &Usage, part: Tokens) -> u32 {
        let ratio = TokenRatio::from_counts(Tokens::new(usage.input), self.after);
        ratio.to_counted(part).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::pricing::{Price, PriceOrigin};

    const FULL: i64 = 2_000;
    const CACHED: i64 = 200;

    fn prices() -> TokenPrices {
        TokenPrices {
            input: Price::from_dollars_per_million("2").unwrap(),
            cached: Price::from_dollars_per_million("0.2"),
            written: None,
            output: None,
            origin: PriceOrigin::Listed,
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
        Usage { input, cached: Some(cached), ..Usage::default() }
    }

    fn prior(before: u32, after: u32) -> PriorRequest {
        PriorRequest { sizes: billed(before, after), uses_cache: true }
    }

    /// Checks the savings and the cost of the rewrite, in billionths of a dollar.
    fn check(
        of: BilledRequest,
        usage: Usage,
        prior: Option<PriorRequest>,
        prices: Option<TokenPrices>,
        expect: (Option<i64>, Option<i64>),
    ) {
        let bill = of.compare_costs(Some(&usage), prior.as_ref(), prices.as_ref());
        let nanos = |usd: Option<Usd>| usd.map(Usd::as_nanos);
        let found = (nanos(bill.saved), nanos(bill.rewrite_cost));
        assert_eq!(found, expect, "{of:?} {usage:?} {prior:?}");
    }

    #[test]
    fn removed_tokens_are_charged_at_the_cached_price() {
        let saved = Some(20_000 * CACHED);
        let steady = Some(prior(59_000, 39_000));
        check(
            billed(60_000, 40_000),
            usage(40_000, 39_000),
            steady,
            Some(prices()),
            (saved, Some(0)),
        );
        check(billed(60_000, 40_000), usage(40_000, 0), None, Some(prices()), (saved, Some(0)));
        // The provider counts twice as many tokens.
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
    fn removed_tokens_are_charged_in_full_if_the_cache_went_cold() {
        let saved = Some(20_000 * FULL);
        let steady = Some(prior(59_000, 39_000));
        check(billed(60_000, 40_000), usage(40_000, 0), steady, Some(prices()), (saved, Some(0)));
        // If the provider does not report cache reads, the cache is not known to be cold.
        let silent = Usage { cached: None, ..usage(40_000, 0) };
        let saved = Some(20_000 * CACHED);
        check(billed(60_000, 40_000), silent, steady, Some(prices()), (saved, Some(0)));
    }

    #[test]
    fn rewrite_cost_covers_retained_tokens_that_missed_the_cache() {
        // 1,000 tokens are new; of the other 39,000, 10,000 precede the first cut.
        let saved = Some(20_000 * CACHED);
        let lost = Some(29_000 * (FULL - CACHED));
        let before = Some(prior(59_000, 59_000));
        check(billed(60_000, 40_000), usage(40_000, 10_000), before, Some(prices()), (saved, lost));
        // Without a cache, nothing can be missed.
        let none = before.map(|prior| PriorRequest { uses_cache: false, ..prior });
        check(billed(60_000, 40_000), usage(40_000, 0), none, Some(prices()), (saved, Some(0)));
    }

    #[test]
    fn rewrite_cost_uses_the_cache_write_price_if_the_usage_reports_writes() {
        let sold = TokenPrices { written: Price::from_dollars_per_million("2.5"), ..prices() };
        let wrote = Usage { written: 1, ..usage(40_000, 10_000) };
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
    fn cache_counts_as_used_after_any_cache_read_or_write() {
        let caches = |cached, written| {
            let usage = Usage { input: 10, cached, written, ..Usage::default() };
            PriorRequest::new(billed(10, 10), &usage).uses_cache
        };
        assert!(caches(Some(1), 0) && caches(None, 1) && caches(Some(0), 1));
        assert!(!caches(Some(0), 0) && !caches(None, 0));
    }

    #[test]
    fn removed_tokens_are_charged_in_full_if_the_provider_has_no_cache() {
        let uncached = TokenPrices { cached: None, ..prices() };
        let steady = prior(59_000, 39_000);
        let cold = Some(PriorRequest { uses_cache: false, ..steady });
        let saved = Some(20_000 * FULL);
        check(billed(60_000, 40_000), usage(40_000, 0), cold, Some(uncached), (saved, Some(0)));
        // If the provider has a cache but no price for it, the amount is unknown.
        check(
            billed(60_000, 40_000),
            usage(40_000, 9),
            Some(steady),
            Some(uncached),
            (None, Some(0)),
        );
        let before = Some(prior(59_000, 59_000));
        check(billed(60_000, 40_000), usage(40_000, 9), before, Some(uncached), (None, None));
    }

    #[test]
    fn tokens_beyond_the_window_are_not_charged() {
        let saved = Some(60_000 * CACHED);
        check(billed(900_000, 40_000), usage(40_000, 0), None, Some(prices()), (saved, Some(0)));
    }

    #[test]
    fn amounts_are_unknown_without_prices_and_zero_without_removal() {
        let before = Some(prior(59_000, 59_000));
        check(billed(60_000, 40_000), usage(40_000, 0), before, None, (None, None));
        let uncounted = billed(60_000, 40_000).compare_costs(None, None, Some(&prices()));
        assert_eq!((uncounted.saved, uncounted.rewrite_cost), (None, None));
        check(billed(60_000, 60_000), usage(60_000, 0), before, None, (Some(0), Some(0)));
    }
}
