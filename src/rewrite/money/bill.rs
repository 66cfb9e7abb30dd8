//! One answered request beside what it would have been without longhaul.

use super::super::tokens::Tokens;
use super::super::usage::Usage;
use super::super::window::count::Density;
use super::{Prices, Usd};

/// A request that was answered, in the plain estimate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Billed {
    /// As the client sent it.
    pub before: Tokens,
    /// As it went on.
    pub after: Tokens,
    /// What the model is taken to hold.
    pub window: Tokens,
}

/// What the request before it in the same conversation was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prior {
    /// In the plain estimate.
    pub billed: Billed,
    /// Whether its provider said that any of it came from a cache, or went into one.
    pub caches: bool,
}

impl Prior {
    /// What is to be remembered of a request that was counted so.
    pub fn of(billed: Billed, usage: &Usage) -> Self {
        let caches = usage.cached.unwrap_or(0) > 0 || usage.written > 0;
        Self { billed, caches }
    }
}

/// What longhaul made of one request's price. An amount that is not known is none, and never zero.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bill {
    /// The tokens that were taken out, in the plain estimate.
    pub taken: Tokens,
    /// What they would have cost.
    pub saved: Option<Usd>,
    /// What more was paid for the rest, because the rewrite began elsewhere than the one before it
    /// and the provider's cache was missed for that.
    pub rewrite: Option<Usd>,
}

impl Billed {
    /// The tokens that longhaul took out and that would have been billed: what does not fit into the
    /// window is refused, and costs nobody anything.
    fn taken(&self) -> Tokens {
        self.before.min(self.window) - self.after
    }

    /// What longhaul took out, billed or not.
    fn cut(&self) -> Tokens {
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
    pub fn bill(
        &self,
        usage: Option<&Usage>,
        prior: Option<&Prior>,
        prices: Option<&Prices>,
    ) -> Bill {
        let taken = self.taken();
        if taken == Tokens::ZERO {
            return Bill {
                taken,
                saved: Some(Usd::ZERO),
                rewrite: Some(Usd::ZERO),
            };
        }
        let Some(usage) = usage else {
            return Bill {
                taken,
                saved: None,
                rewrite: None,
            };
        };
        Bill {
            taken,
            saved: prices.and_then(|prices| self.saved(usage, prior, prices)),
            rewrite: match prior {
                Some(prior) if prior.caches && self.differs(prior) => {
                    prices.and_then(|prices| self.broken(usage, prior, prices))
                }
                // Nothing that could have been missed.
                Some(_) | None => Some(Usd::ZERO),
            },
        }
    }

    /// Whether it takes out more or less than the one before.
    fn differs(&self, prior: &Prior) -> bool {
        self.cut() != prior.billed.cut()
    }

    fn saved(&self, usage: &Usage, prior: Option<&Prior>, prices: &Prices) -> Option<Usd> {
        let warm = prior.filter(|prior| prior.caches);
        let went_cold = warm.is_some_and(|prior| !self.differs(prior)) && usage.cached == Some(0);
        let never_cached =
            warm.is_none() && usage.cached.unwrap_or(0) == 0 && prices.cached.is_none();
        let price = if went_cold || never_cached {
            prices.missed(usage)
        } else {
            prices.cached?
        };
        Some(price.of(self.counted(usage, self.taken())))
    }

    fn broken(&self, usage: &Usage, prior: &Prior, prices: &Prices) -> Option<Usd> {
        let new = self.before - prior.billed.before;
        let stayed = usage.input.saturating_sub(self.counted(usage, new));
        let missed = stayed.saturating_sub(usage.cached.unwrap_or(0));
        if missed == 0 {
            return Some(Usd::ZERO);
        }
        Some(prices.missed(usage).above(prices.cached?).of(missed))
    }

    /// A part of the request as the provider would count it.
    fn counted(&self, usage: &Usage, part: Tokens) -> u32 {
        let density = Density::of(Tokens::new(usage.input), self.after);
        density.counted(part).get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Price;
    use super::*;

    const FULL: i64 = 2_000;
    const CACHED: i64 = 200;

    fn prices() -> Prices {
        Prices {
            input: Price::of_a_million("2").unwrap(),
            cached: Price::of_a_million("0.2"),
            written: None,
        }
    }

    fn billed(before: u32, after: u32) -> Billed {
        Billed {
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

    fn prior(before: u32, after: u32) -> Prior {
        Prior {
            billed: billed(before, after),
            caches: true,
        }
    }

    /// What was saved and what the rewrite cost, in billionths of a dollar.
    fn check(
        of: Billed,
        usage: Usage,
        prior: Option<Prior>,
        prices: Option<Prices>,
        expect: (Option<i64>, Option<i64>),
    ) {
        let bill = of.bill(Some(&usage), prior.as_ref(), prices.as_ref());
        let nanos = |usd: Option<Usd>| usd.map(Usd::nanos);
        let found = (nanos(bill.saved), nanos(bill.rewrite));
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
        let none = before.map(|prior| Prior {
            caches: false,
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
        let sold = Prices {
            written: Price::of_a_million("2.5"),
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
            Prior::of(billed(10, 10), &usage).caches
        };
        assert!(caches(Some(1), 0) && caches(None, 1) && caches(Some(0), 1));
        assert!(!caches(Some(0), 0) && !caches(None, 0));
    }

    #[test]
    fn a_provider_without_a_cache_would_have_billed_it_all() {
        let uncached = Prices {
            cached: None,
            ..prices()
        };
        let steady = prior(59_000, 39_000);
        let cold = Some(Prior {
            caches: false,
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
        let uncounted = billed(60_000, 40_000).bill(None, None, Some(&prices()));
        assert_eq!((uncounted.saved, uncounted.rewrite), (None, None));
        check(
            billed(60_000, 60_000),
            usage(60_000, 0),
            before,
            None,
            (Some(0), Some(0)),
        );
    }
}
