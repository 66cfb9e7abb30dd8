//! Counters, each by a closed set of labels, so that no request can make one grow.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Fault;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::tokens::Tokens;

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
        if let Some(count) = self.counts.get(label.index()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The count of one value.
    pub(crate) fn of(&self, label: L) -> u64 {
        let count = self.counts.get(label.index());
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Each value with its count.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by the admin listener's exporter")
    )]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (L, u64)> {
        L::ALL
            .iter()
            .zip(&self.counts)
            .map(|(label, count)| (*label, count.load(Ordering::Relaxed)))
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

/// How a request ended, as the log line and the counter say it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// The client left before it had its whole answer.
    ClientLeft,
    /// The whole answer was handed over.
    Complete,
    /// The upstream broke off within its answer, and so did we.
    UpstreamBroke,
}

impl Label for Ending {
    const ALL: &'static [Self] = &[Self::ClientLeft, Self::Complete, Self::UpstreamBroke];

    fn label(self) -> &'static str {
        match self {
            Self::ClientLeft => "client-left",
            Self::Complete => "complete",
            Self::UpstreamBroke => "upstream-broke",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// Why a chat's body was streamed through unread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unread {
    /// It inflates by more than text does.
    Bomb,
    /// It is not what its content coding says, or not all of it.
    Corrupt,
    /// The bodies being held take all the room there is.
    Crowded,
    /// It is encoded in a way that is not read here.
    Encoded,
    /// It is larger than one body may be, as it came or as it reads.
    Large,
    /// Its sender stalled.
    Slow,
    /// It ends in trailers, which a body of known length cannot carry.
    Trailers,
}

impl Label for Unread {
    const ALL: &'static [Self] = &[
        Self::Bomb,
        Self::Corrupt,
        Self::Crowded,
        Self::Encoded,
        Self::Large,
        Self::Slow,
        Self::Trailers,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Bomb => "bomb",
            Self::Corrupt => "corrupt",
            Self::Crowded => "crowded",
            Self::Encoded => "encoded",
            Self::Large => "large",
            Self::Slow => "slow",
            Self::Trailers => "trailers",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// How far the store behind memory was of use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FarStore {
    /// It answered.
    Answered,
    /// What was to be written was given up: too much was waiting already.
    Dropped,
    /// It answered with a failure.
    Failed,
    /// It did not answer in time.
    Late,
    /// It was not asked: it had just failed several times.
    Spared,
    /// What it had could not be read.
    Unreadable,
}

impl Label for FarStore {
    const ALL: &'static [Self] = &[
        Self::Answered,
        Self::Dropped,
        Self::Failed,
        Self::Late,
        Self::Spared,
        Self::Unreadable,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
            Self::Late => "late",
            Self::Spared => "spared",
            Self::Unreadable => "unreadable",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// One thing that was done to a chat.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Act {
    /// Results of the newest batch were clipped.
    Clip,
    /// A digest stands for history.
    Digest,
    /// Images were replaced by markers.
    FewerBytes,
    /// An overflow was met, and nothing would have fitted.
    GaveUp,
    /// Our rewrite was refused, and the original went.
    Original,
    /// Old tool results were cleared.
    Prune,
    /// A second request was sent.
    Retry,
    /// Nothing was changed: this is what would have been.
    Shadow,
    /// The output asked for was lowered.
    SmallerOutput,
    /// A model's summary stands for history.
    Summary,
}

impl Label for Act {
    const ALL: &'static [Self] = &[
        Self::Clip,
        Self::Digest,
        Self::FewerBytes,
        Self::GaveUp,
        Self::Original,
        Self::Prune,
        Self::Retry,
        Self::Shadow,
        Self::SmallerOutput,
        Self::Summary,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Clip => "clip",
            Self::Digest => "digest",
            Self::FewerBytes => "fewer-bytes",
            Self::GaveUp => "gave-up",
            Self::Original => "original",
            Self::Prune => "prune",
            Self::Retry => "retry",
            Self::Shadow => "shadow",
            Self::SmallerOutput => "smaller-output",
            Self::Summary => "summary",
        }
    }
    fn index(self) -> usize {
        self as usize
    }
}

/// What the chats that were read came to, in the plain estimate.
#[derive(Debug, Default)]
pub(crate) struct Chats {
    count: AtomicU64,
    before: AtomicU64,
    after: AtomicU64,
}

impl Chats {
    /// One more, of `before` tokens as it came and of `after` as it went on last.
    pub(crate) fn add(&self, before: Tokens, after: Tokens) {
        if before == Tokens::ZERO {
            return;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.before
            .fetch_add(before.get().into(), Ordering::Relaxed);
        self.after.fetch_add(after.get().into(), Ordering::Relaxed);
    }

    /// How many, and their tokens as they came and as they went on.
    pub(crate) fn sums(&self) -> (u64, u64, u64) {
        let [count, before, after] =
            [&self.count, &self.before, &self.after].map(|sum| sum.load(Ordering::Relaxed));
        (count, before, after)
    }
}

/// All counters of one proxy.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Requests by how they ended.
    pub(crate) requests: Counters<Ending>,
    /// Answers of our own making.
    pub(crate) faults: Counters<Fault>,
    /// Chats that went on as they came, by the reason.
    pub(crate) bypasses: Counters<Bypass>,
    /// Chats streamed through unread.
    pub(crate) unread: Counters<Unread>,
    /// What was done to chats.
    pub(crate) acts: Counters<Act>,
    /// The chats that were read.
    pub(crate) chats: Chats,
    /// Calls of the store behind memory.
    pub(crate) far_store: Counters<FarStore>,
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
    fn every_index_is_the_position_of_its_label() {
        fn check<L: Label>() {
            for (at, label) in L::ALL.iter().enumerate() {
                assert_eq!(label.index(), at, "{}", label.label());
            }
        }
        check::<Act>();
        check::<Bypass>();
        check::<Ending>();
        check::<FarStore>();
        check::<Unread>();
    }
}
