//! Costs and savings, and counts of calls and tokens whose price is unknown.

use super::{Counters, PriceSource, Total, UnpricedReason};
use longhaul_core::cost::comparison::CostComparison;
use longhaul_core::cost::pricing::Cost;
use longhaul_core::units::usd::Usd;

/// Amounts in billionths of a dollar; each only grows.
#[derive(Debug, Default)]
pub(crate) struct CostMetrics {
    pub(crate) chats: Counters<PriceSource>,
    /// Chats whose cost is unknown.
    pub(crate) chats_unknown: Counters<UnpricedReason>,
    /// Estimated cost of the tokens removed from chats.
    pub(crate) saved: Total,
    /// Removed tokens whose price is unknown, by the plain estimate.
    pub(crate) saved_unknown: Total,
    /// Extra cost of input that rewrites evicted from the provider's cache.
    pub(crate) rewrites: Total,
    /// Cost of summary calls.
    pub(crate) summaries: Counters<PriceSource>,
    /// Summary calls whose cost is unknown.
    pub(crate) summaries_unknown: Counters<UnpricedReason>,
}

impl CostMetrics {
    /// Adds an answered chat.
    pub(crate) fn record_chat(&self, cost: Cost, bill: &CostComparison) {
        match split(cost) {
            Ok((by, usd)) => self.chats.add_many(by, nanos(usd)),
            Err(why) => self.chats_unknown.add(why),
        }
        match bill.saved {
            Some(saved) => self.saved.add(nanos(saved)),
            None => self.saved_unknown.add(bill.removed.get()),
        }
        self.rewrites.add(bill.rewrite_cost.map_or(0, nanos));
    }

    /// Adds a summary call.
    pub(crate) fn record_summary_call(&self, cost: Cost) {
        match split(cost) {
            Ok((by, usd)) => self.summaries.add_many(by, nanos(usd)),
            Err(why) => self.summaries_unknown.add(why),
        }
    }
}

fn split(cost: Cost) -> Result<(PriceSource, Usd), UnpricedReason> {
    match cost {
        Cost::Configured(usd) => Ok((PriceSource::Setting, usd)),
        Cost::Listed(usd) => Ok((PriceSource::Table, usd)),
        Cost::NotCounted => Err(UnpricedReason::NotCounted),
        Cost::NotListed => Err(UnpricedReason::NotListed),
        Cost::Reported(usd) => Ok((PriceSource::Provider, usd)),
    }
}

/// Returns the billionths of a dollar; amounts here are never negative.
fn nanos(usd: Usd) -> u64 {
    u64::try_from(usd.as_nanos()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::units::tokens::Tokens;

    #[test]
    fn unknown_costs_are_counted_without_an_amount() {
        let money = CostMetrics::default();
        let bill = |saved| CostComparison {
            removed: Tokens::new(7),
            saved,
            rewrite_cost: saved,
        };
        money.record_chat(
            Cost::Reported(Usd::from_nanos(5)),
            &bill(Some(Usd::from_nanos(3))),
        );
        money.record_chat(Cost::Listed(Usd::from_nanos(4)), &bill(None));
        money.record_chat(Cost::NotListed, &bill(None));
        let of = |by| money.chats.get(by);
        assert_eq!((of(PriceSource::Provider), of(PriceSource::Table)), (5, 4));
        assert_eq!(money.chats_unknown.get(UnpricedReason::NotListed), 1);
        assert_eq!((money.saved.get(), money.saved_unknown.get()), (3, 14));
        assert_eq!(money.rewrites.get(), 3);
        money.record_summary_call(Cost::Reported(Usd::from_nanos(9)));
        money.record_summary_call(Cost::NotCounted);
        assert_eq!(money.summaries.get(PriceSource::Provider), 9);
        assert_eq!(money.summaries_unknown.get(UnpricedReason::NotCounted), 1);
    }
}
