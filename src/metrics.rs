//! Metrics with closed sets of labels, so that no request can add a series.

mod histogram;
mod labels;
pub(crate) mod quota;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Fault;
pub(crate) use histogram::{Histogram, HistogramSnapshot, OverheadHistogram};
pub(crate) use labels::{
    Action, CompactionTrigger, DurableStoreOutcome, Ending, LostBy, PriceSource, RetryOutcome,
    RetryReason, StatusClass, SummaryOutcome, UnpricedReason, UnreadReason, WithheldReason,
};
use longhaul_core::cost::comparison::CostComparison;
use longhaul_core::cost::pricing::Cost;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::dialect::usage::Usage;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;

/// A closed set of label values.
pub(crate) trait Label: Copy + PartialEq + 'static {
    const ALL: &'static [Self];

    /// Returns the value's text in log lines and metrics.
    fn label(self) -> &'static str;

    /// Returns the place of the value among all.
    fn index(self) -> usize {
        Self::ALL.iter().position(|label| *label == self).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(crate) struct Counters<L> {
    counts: Box<[Total]>,
    label: std::marker::PhantomData<L>,
}

impl<L: Label> Default for Counters<L> {
    fn default() -> Self {
        let counts = L::ALL.iter().map(|_| Total::default()).collect();
        Self { counts, label: std::marker::PhantomData }
    }
}

impl<L: Label> Counters<L> {
    pub(crate) fn add(&self, label: L) {
        self.add_many(label, 1);
    }

    pub(crate) fn add_many(&self, label: L, more: u64) {
        if let Some(count) = self.counts.get(label.index()) {
            count.add(more);
        }
    }

    pub(crate) fn get(&self, label: L) -> u64 {
        let count = self.counts.get(label.index());
        count.map_or(0, Total::get)
    }

    /// Iterates over the values with their counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (L, u64)> {
        L::ALL.iter().zip(&self.counts).map(|(label, count)| (*label, count.get()))
    }
}

/// A matrix of counters, one for each pair of values of two labels.
#[derive(Debug)]
pub(crate) struct CounterMatrix<A, B> {
    rows: Box<[Counters<B>]>,
    label: std::marker::PhantomData<A>,
}

impl<A: Label, B: Label> Default for CounterMatrix<A, B> {
    fn default() -> Self {
        Self {
            rows: A::ALL.iter().map(|_| Counters::default()).collect(),
            label: std::marker::PhantomData,
        }
    }
}

impl<A: Label, B: Label> CounterMatrix<A, B> {
    pub(crate) fn add(&self, one: A, other: B) {
        if let Some(row) = self.rows.get(one.index()) {
            row.add(other);
        }
    }

    /// Iterates over the pairs with their counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (A, B, u64)> {
        let rows = A::ALL.iter().zip(&self.rows);
        rows.flat_map(|(one, row)| row.iter().map(|(other, count)| (*one, other, count)))
    }
}

impl Label for Bypass {
    const ALL: &'static [Self] = Self::ALL;

    fn label(self) -> &'static str {
        Self::label(self)
    }
}

/// A sum that only grows, or a current number of things.
#[derive(Debug, Default)]
pub(crate) struct Total(AtomicU64);

impl Total {
    pub(crate) fn add(&self, more: impl Into<u64>) {
        self.0.fetch_add(more.into(), Ordering::Relaxed);
    }

    pub(crate) fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Token totals of the chats that were read, by the plain estimate.
#[derive(Debug, Default)]
pub(crate) struct ChatTokens {
    pub(crate) count: Total,
    /// Their tokens as received.
    pub(crate) before: Total,
    /// Their tokens as sent.
    pub(crate) after: Total,
    /// Difference of the two sums, kept as a separate counter. Computed from two separately read
    /// sums, it would occasionally decrease, and a counter must never decrease.
    pub(crate) saved: Total,
    /// Tokens that shadow mode would have saved.
    pub(crate) shadow_saved: Total,
}

impl ChatTokens {
    /// Adds a chat that came with `before` tokens and was last sent with `after`.
    pub(crate) fn add(&self, before: Tokens, after: Tokens) {
        if before == Tokens::ZERO {
            return;
        }
        self.count.add(1_u64);
        self.before.add(before.get());
        self.after.add(after.get());
        self.saved.add((before - after).get());
    }

    /// Adds a chat that was forwarded unchanged, and would have been sent with `after` tokens.
    pub(crate) fn add_shadow(&self, before: Tokens, after: Tokens) {
        self.add(before, before);
        self.shadow_saved.add((before - after).get());
    }
}

#[derive(Debug, Default)]
pub(crate) struct ProviderTokens {
    /// Prompt tokens, including cached ones.
    pub(crate) prompt: Total,
    /// Prompt tokens read from a cache.
    pub(crate) cached: Total,
    pub(crate) output: Total,
}

impl ProviderTokens {
    pub(crate) fn add(&self, usage: &Usage) {
        self.prompt.add(usage.input);
        self.cached.add(usage.cached.unwrap_or(0));
        self.output.add(usage.output.unwrap_or(0));
    }
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) requests: Counters<Ending>,
    /// Requests by principal action and status class.
    pub(crate) responses: CounterMatrix<Option<Action>, StatusClass>,
    /// Requests other than chats that were answered with 404. The dashboard's headline leaves them out.
    pub(crate) missing_paths: Total,
    pub(crate) in_flight: Total,
    /// Time from a request's head to the end of its response.
    pub(crate) duration: Histogram,
    /// Time added by longhaul itself before the head of the response.
    pub(crate) overhead: OverheadHistogram,
    /// Time for which the beginnings of replies were held.
    pub(crate) held: Histogram,
    /// Responses generated by longhaul because of a fault.
    pub(crate) faults: Counters<Fault>,
    /// Chats forwarded unchanged, by reason.
    pub(crate) bypasses: Counters<Bypass>,
    /// Chats streamed through unread, by reason.
    pub(crate) unread: Counters<UnreadReason>,
    pub(crate) actions: Counters<Action>,
    pub(crate) chats: ChatTokens,
    pub(crate) provider_tokens: ProviderTokens,
    /// Calls that reread a cleared result.
    pub(crate) rereads: Total,
    /// New calls whose arguments repeat the note of a clipped call.
    pub(crate) imitated_clips: Total,
    /// Items and blocks of reasoning behind new edits.
    pub(crate) lost_reasoning: Counters<LostBy>,
    /// Items and blocks of reasoning that replies report as dropped, in each reply.
    pub(crate) dropped_reasoning: Total,
    /// Windows learned below the window in force.
    pub(crate) windows_lowered: Total,
    pub(crate) quotas: quota::Quotas,
    /// Costs of chats and of longhaul's own calls.
    pub(crate) costs: CostMetrics,
    /// Records that came into use, by trigger.
    pub(crate) compactions: Counters<CompactionTrigger>,
    pub(crate) summaries: Counters<SummaryOutcome>,
    /// Summaries that were wanted but not requested, by reason.
    pub(crate) withheld: Counters<WithheldReason>,
    /// Duration of the requested summaries.
    pub(crate) summary_duration: Histogram,
    /// Time that requests waited for summaries.
    pub(crate) summary_wait: Histogram,
    pub(crate) retries: CounterMatrix<RetryReason, RetryOutcome>,
    /// Bytes outside the replacements that a rewrite changed by mistake; must stay 0.
    pub(crate) corrupted_bytes: Total,
    /// Times that an idle process returned memory to the system.
    pub(crate) idle_releases: Total,
    pub(crate) durable_store: Counters<DurableStoreOutcome>,
}

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

    #[test]
    fn counts_each_label_apart() {
        let counters = Counters::default();
        counters.add(Ending::Complete);
        counters.add(Ending::Complete);
        counters.add(Ending::ClientLeft);
        let seen: Vec<u64> = counters.iter().map(|(_, count)| count).collect();
        assert_eq!(seen, [1, 2, 0]);
    }

    #[test]
    fn counts_each_pair_of_labels_apart() {
        let grid = CounterMatrix::default();
        grid.add(Some(Action::Prune), StatusClass::Success);
        grid.add(Some(Action::Prune), StatusClass::Success);
        grid.add(None::<Action>, StatusClass::ServerError);
        let seen: Vec<_> = grid.iter().filter(|(.., count)| *count > 0).collect();
        let prune = (Some(Action::Prune), StatusClass::Success, 2);
        assert_eq!(seen, [(None, StatusClass::ServerError, 1), prune]);
    }

    #[test]
    fn shadow_savings_are_counted_separately() {
        let chats = ChatTokens::default();
        chats.add_shadow(Tokens::new(100), Tokens::new(40));
        assert_eq!((chats.before.get(), chats.after.get()), (100, 100));
        assert_eq!(chats.shadow_saved.get(), 60);
        assert_eq!(chats.saved.get(), 0);
        chats.add(Tokens::new(100), Tokens::new(40));
        assert_eq!((chats.before.get(), chats.after.get()), (200, 140));
        assert_eq!((chats.count.get(), chats.saved.get()), (2, 60));
    }

    #[test]
    fn every_index_is_the_position_of_its_label() {
        fn check<L: Label>() {
            for (at, label) in L::ALL.iter().enumerate() {
                assert_eq!(label.index(), at, "{}", label.label());
            }
        }
        check::<Action>();
        check::<RetryReason>();
        check::<RetryOutcome>();
        check::<Bypass>();
        check::<Ending>();
        check::<DurableStoreOutcome>();
        check::<Option<Action>>();
        check::<PriceSource>();
        check::<StatusClass>();
        check::<SummaryOutcome>();
        check::<CompactionTrigger>();
        check::<UnpricedReason>();
        check::<UnreadReason>();
        check::<WithheldReason>();
    }
}

#[cfg(test)]
mod costs_tests {
    use super::*;
    use longhaul_core::units::tokens::Tokens;

    #[test]
    fn unknown_costs_are_counted_without_an_amount() {
        let money = CostMetrics::default();
        let bill = |saved| CostComparison { removed: Tokens::new(7), saved, rewrite_cost: saved };
        money.record_chat(Cost::Reported(Usd::from_nanos(5)), &bill(Some(Usd::from_nanos(3))));
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
