//! Counters, each by a closed set of labels, so that no request can make one grow.

mod histogram;
mod labels;
mod money;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use histogram::{Histogram, HistogramSnapshot};
pub(crate) use labels::{
    Action, AuxiliaryPurpose, CompactionTrigger, DurableStoreOutcome, Ending, PriceSource,
    RetryKind, RetryOutcome, StatusClass, SummaryOutcome, UnpricedReason, UnreadReason,
    WithheldReason,
};
pub(crate) use money::CostMetrics;

use crate::error::Fault;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::usage::Usage;

/// A closed set of label values.
pub(crate) trait Label: Copy + 'static {
    /// Every value, in the order of [`Label::index`].
    const ALL: &'static [Self];

    /// The value as it is written in a log line or a metric.
    fn label(self) -> &'static str;

    /// Its position in [`Label::ALL`].
    fn index(self) -> usize;
}

/// One counter for each value of a label.
#[derive(Debug)]
pub(crate) struct Counters<L> {
    counts: Box<[AtomicU64]>,
    label: std::marker::PhantomData<L>,
}

impl<L: Label> Default for Counters<L> {
    fn default() -> Self {
        let counts = L::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            counts,
            label: std::marker::PhantomData,
        }
    }
}

impl<L: Label> Counters<L> {
    /// Counts one more.
    pub(crate) fn add(&self, label: L) {
        self.add_many(label, 1);
    }

    /// Counts so many more.
    pub(crate) fn add_many(&self, label: L, more: u64) {
        if let Some(count) = self.counts.get(label.index()) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// The count of one value.
    pub(crate) fn get(&self, label: L) -> u64 {
        let count = self.counts.get(label.index());
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Each value with its count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (L, u64)> {
        L::ALL
            .iter()
            .zip(&self.counts)
            .map(|(label, count)| (*label, count.load(Ordering::Relaxed)))
    }
}

/// One counter for each pair of values of two labels.
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
    /// Counts one more.
    pub(crate) fn add(&self, one: A, other: B) {
        self.add_many(one, other, 1);
    }

    /// Counts so many more.
    pub(crate) fn add_many(&self, one: A, other: B, more: u64) {
        if let Some(row) = self.rows.get(one.index()) {
            row.add_many(other, more);
        }
    }

    /// Each pair with its count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (A, B, u64)> {
        let rows = A::ALL.iter().zip(&self.rows);
        rows.flat_map(|(one, row)| row.iter().map(|(other, count)| (*one, other, count)))
    }
}

impl Label for Bypass {
    const ALL: &'static [Self] = &Self::ALL;

    fn label(self) -> &'static str {
        Self::label(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// A sum that only grows, or a number of things that are there now.
#[derive(Debug, Default)]
pub(crate) struct Sum(AtomicU64);

impl Sum {
    /// So much more.
    pub(crate) fn add(&self, more: impl Into<u64>) {
        self.0.fetch_add(more.into(), Ordering::Relaxed);
    }

    /// One less.
    pub(crate) fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// What it comes to.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the chats that were read came to, in the plain estimate.
#[derive(Debug, Default)]
pub(crate) struct ChatTokens {
    count: Sum,
    before: Sum,
    after: Sum,
    /// The difference of the two, counted for itself: of two sums that are read one after the other
    /// it would now and then be smaller than before, which a counter must never be.
    saved: Sum,
    /// What shadow mode would have saved.
    shadow: Sum,
}

impl ChatTokens {
    /// One more, of `before` tokens as it came and of `after` as it went on last.
    pub(crate) fn add(&self, before: Tokens, after: Tokens) {
        if before == Tokens::ZERO {
            return;
        }
        self.count.add(1_u64);
        self.before.add(before.get());
        self.after.add(after.get());
        self.saved.add((before - after).get());
    }

    /// One more that went on as it came, and would have gone on with `after` tokens.
    pub(crate) fn add_shadow(&self, before: Tokens, after: Tokens) {
        self.add(before, before);
        self.shadow.add((before - after).get());
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Their tokens as they came.
    pub(crate) fn before(&self) -> u64 {
        self.before.get()
    }

    /// Their tokens as they went on.
    pub(crate) fn after(&self) -> u64 {
        self.after.get()
    }

    /// What was not sent on.
    pub(crate) fn saved(&self) -> u64 {
        self.saved.get()
    }

    /// What shadow mode would have saved.
    pub(crate) fn shadow_saved(&self) -> u64 {
        self.shadow.get()
    }
}

/// What providers have counted, as far as they said so.
#[derive(Debug, Default)]
pub(crate) struct ProviderTokens {
    /// Tokens of prompts, those from a cache among them.
    pub(crate) prompt: Sum,
    /// Tokens of prompts that came from a cache.
    pub(crate) cached: Sum,
    /// Tokens of answers.
    pub(crate) output: Sum,
}

impl ProviderTokens {
    /// One answer more.
    pub(crate) fn add(&self, usage: &Usage) {
        self.prompt.add(usage.input);
        self.cached.add(usage.cached.unwrap_or(0));
        self.output.add(usage.output.unwrap_or(0));
    }
}

/// All counters of one proxy.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Requests by how they ended.
    pub(crate) requests: Counters<Ending>,
    /// Requests by what was done and how they were answered.
    pub(crate) responses: CounterMatrix<Option<Action>, StatusClass>,
    /// Requests under way.
    pub(crate) in_flight: Sum,
    /// From a request's first byte to the end of its answer.
    pub(crate) duration: Histogram,
    /// What of that before the head of its answer was ours.
    pub(crate) overhead: Histogram,
    /// Answers of our own making.
    pub(crate) faults: Counters<Fault>,
    /// Chats that went on as they came, by the reason.
    pub(crate) bypasses: Counters<Bypass>,
    /// Chats streamed through unread.
    pub(crate) unread: Counters<UnreadReason>,
    /// What was done to chats.
    pub(crate) actions: Counters<Action>,
    /// The chats that were read.
    pub(crate) chats: ChatTokens,
    /// What their providers counted.
    pub(crate) provider_tokens: ProviderTokens,
    /// Calls for what was cleared before.
    pub(crate) refetches: Sum,
    /// What chats cost, and what our own calls did.
    pub(crate) costs: CostMetrics,
    /// Records that came into use.
    pub(crate) compactions: Counters<CompactionTrigger>,
    /// Summaries that were to be written.
    pub(crate) summaries: Counters<SummaryOutcome>,
    /// Those that were wanted and not asked for.
    pub(crate) withheld: Counters<WithheldReason>,
    /// How long those took that were asked for.
    pub(crate) summary_duration: Histogram,
    /// How long requests waited for them.
    pub(crate) summary_wait: Histogram,
    /// Second sends.
    pub(crate) retries: CounterMatrix<RetryKind, RetryOutcome>,
    /// Bytes outside the cuts that a rewrite came out with changed. None must ever be.
    pub(crate) corrupted_bytes: Sum,
    /// Calls of the store behind memory.
    pub(crate) durable_store: Counters<DurableStoreOutcome>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Counters::default(),
            responses: CounterMatrix::default(),
            in_flight: Sum::default(),
            duration: Histogram::new(histogram::ANSWER_BUCKETS),
            overhead: Histogram::new(histogram::OVERHEAD_BUCKETS),
            faults: Counters::default(),
            bypasses: Counters::default(),
            unread: Counters::default(),
            actions: Counters::default(),
            chats: ChatTokens::default(),
            provider_tokens: ProviderTokens::default(),
            refetches: Sum::default(),
            costs: CostMetrics::default(),
            compactions: Counters::default(),
            summaries: Counters::default(),
            withheld: Counters::default(),
            summary_duration: Histogram::new(histogram::ANSWER_BUCKETS),
            summary_wait: Histogram::new(histogram::ANSWER_BUCKETS),
            retries: CounterMatrix::default(),
            corrupted_bytes: Sum::default(),
            durable_store: Counters::default(),
        }
    }
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
    fn what_a_shadow_would_have_saved_was_not_saved() {
        let chats = ChatTokens::default();
        chats.add_shadow(Tokens::new(100), Tokens::new(40));
        assert_eq!((chats.before(), chats.after()), (100, 100));
        assert_eq!(chats.shadow_saved(), 60);
        assert_eq!(chats.saved(), 0);
        chats.add(Tokens::new(100), Tokens::new(40));
        assert_eq!((chats.before(), chats.after()), (200, 140));
        assert_eq!((chats.count(), chats.saved()), (2, 60));
    }

    #[test]
    fn every_index_is_the_position_of_its_label() {
        fn check<L: Label>() {
            for (at, label) in L::ALL.iter().enumerate() {
                assert_eq!(label.index(), at, "{}", label.label());
            }
        }
        check::<Action>();
        check::<RetryKind>();
        check::<RetryOutcome>();
        check::<Bypass>();
        check::<Ending>();
        check::<DurableStoreOutcome>();
        check::<Option<Action>>();
        check::<PriceSource>();
        check::<AuxiliaryPurpose>();
        check::<StatusClass>();
        check::<SummaryOutcome>();
        check::<CompactionTrigger>();
        check::<UnpricedReason>();
        check::<UnreadReason>();
        check::<WithheldReason>();
    }
}
