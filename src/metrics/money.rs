//! What was spent and what was saved, and of how much nobody knows the price.

use super::{Counters, Grid, PricedBy, Purpose, Sum, Unpriced};
use crate::rewrite::money::{Bill, Cost, Usd};

/// Amounts in billionths of a dollar, each only ever growing.
#[derive(Debug, Default)]
pub(crate) struct Money {
    /// What chats cost.
    pub(crate) chats: Counters<PricedBy>,
    /// Chats of which that is not known.
    pub(crate) chats_unknown: Counters<Unpriced>,
    /// What was taken out of chats would have cost.
    pub(crate) saved: Sum,
    /// Tokens that were taken out, in the plain estimate, whose price is not known.
    pub(crate) saved_unknown: Sum,
    /// What was paid again because rewrites broke what the provider's cache knew.
    pub(crate) rewrites: Sum,
    /// What calls of our own cost.
    pub(crate) asides: Grid<Purpose, PricedBy>,
    /// Calls of our own of which that is not known.
    pub(crate) asides_unknown: Grid<Purpose, Unpriced>,
}

impl Money {
    /// One more chat was answered.
    pub(crate) fn chat(&self, cost: Cost, bill: &Bill) {
        match split(cost) {
            Ok((by, usd)) => self.chats.add_many(by, nanos(usd)),
            Err(why) => self.chats_unknown.add(why),
        }
        match bill.saved {
            Some(saved) => self.saved.add(nanos(saved)),
            None => self.saved_unknown.add(bill.taken.get()),
        }
        self.rewrites.add(bill.rewrite.map_or(0, nanos));
    }

    /// One more call of our own was made.
    pub(crate) fn aside(&self, purpose: Purpose, cost: Cost) {
        match split(cost) {
            Ok((by, usd)) => self.asides.add_many(purpose, by, nanos(usd)),
            Err(why) => self.asides_unknown.add(purpose, why),
        }
    }
}

fn split(cost: Cost) -> Result<(PricedBy, Usd), Unpriced> {
    match cost {
        Cost::Listed(usd) => Ok((PricedBy::Table, usd)),
        Cost::NotCounted => Err(Unpriced::NotCounted),
        Cost::NotListed => Err(Unpriced::NotListed),
        Cost::Said(usd) => Ok((PricedBy::Provider, usd)),
    }
}

/// Each of these is nothing at the least.
fn nanos(usd: Usd) -> u64 {
    u64::try_from(usd.nanos()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::tokens::Tokens;

    #[test]
    fn what_is_not_known_is_counted_and_adds_nothing() {
        let money = Money::default();
        let bill = |saved| Bill {
            taken: Tokens::new(7),
            saved,
            rewrite: saved,
        };
        money.chat(Cost::Said(Usd::of_nanos(5)), &bill(Some(Usd::of_nanos(3))));
        money.chat(Cost::Listed(Usd::of_nanos(4)), &bill(None));
        money.chat(Cost::NotListed, &bill(None));
        let of = |by| money.chats.of(by);
        assert_eq!((of(PricedBy::Provider), of(PricedBy::Table)), (5, 4));
        assert_eq!(money.chats_unknown.of(Unpriced::NotListed), 1);
        assert_eq!((money.saved.get(), money.saved_unknown.get()), (3, 14));
        assert_eq!(money.rewrites.get(), 3);
        money.aside(Purpose::Summary, Cost::Said(Usd::of_nanos(9)));
        money.aside(Purpose::Summary, Cost::NotCounted);
        let made: Vec<u64> = money.asides.iter().map(|(.., nanos)| nanos).collect();
        assert_eq!(made.iter().sum::<u64>(), 9);
    }
}
