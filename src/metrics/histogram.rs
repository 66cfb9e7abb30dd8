//! Histograms of durations with fixed buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for the overhead of longhaul in microseconds: from imperceptible to far above the acceptable.
pub(crate) const OVERHEAD_BUCKETS: &[u64] =
    &[100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// Buckets for the duration of a model's answer in microseconds: from a cached word to an hour of reasoning.
pub(crate) const ANSWER_BUCKETS: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    20_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
    600_000_000,
    3_600_000_000,
];

/// Histogram of durations; each is counted in the first bucket whose bound it does not exceed.
///
/// Invariant: the bounds ascend, and `counts` has one more element than `bounds`, for durations
/// that exceed all bounds.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// Bounds in microseconds.
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    nanoseconds: AtomicU64,
}

/// A histogram of durations from a cached word to an hour of reasoning.
impl Default for Histogram {
    fn default() -> Self {
        Self::new(ANSWER_BUCKETS)
    }
}

/// A histogram of the overhead of longhaul.
#[derive(Debug)]
pub(crate) struct OverheadHistogram(pub(crate) Histogram);

impl Default for OverheadHistogram {
    fn default() -> Self {
        Self(Histogram::new(OVERHEAD_BUCKETS))
    }
}

/// Contents of a histogram at one moment.
#[derive(Debug)]
pub(crate) struct HistogramSnapshot {
    /// Each bound with the number of durations that do not exceed it.
    pub(crate) buckets: Vec<(Duration, u64)>,
    pub(crate) count: u64,
    pub(crate) sum: Duration,
}

impl Histogram {
    /// Creates an empty histogram; `bounds` must ascend.
    pub(crate) fn new(bounds: &'static [u64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            nanoseconds: AtomicU64::new(0),
        }
    }

    pub(crate) fn observe(&self, took: Duration) {
        let at = self.bounds.partition_point(|bound| Duration::from_micros(*bound) < took);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Returns the current contents. Buckets and count are consistent, even under concurrent
    /// additions.
    pub(crate) fn snapshot(&self) -> HistogramSnapshot {
        let below = self.counts.iter().scan(0, |count, one| {
            *count += one.load(Ordering::Relaxed);
            Some(*count)
        });
        let below: Vec<u64> = below.collect();
        let bounds = self.bounds.iter().map(|bound| Duration::from_micros(*bound));
        HistogramSnapshot {
            count: below.last().copied().unwrap_or_default(),
            buckets: bounds.zip(below).collect(),
            sum: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: &[u64] = &[1_000_000, 2_000_000];

    #[test]
    fn each_bucket_counts_values_up_to_its_bound() {
        let histogram = Histogram::new(BOUNDS);
        for millis in [0, 1_000, 1_001, 2_000, 2_001, 9_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let reading = histogram.snapshot();
        let counts: Vec<u64> = reading.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 4]);
        assert_eq!(reading.count, 6);
        assert_eq!(reading.sum, Duration::from_millis(15_002));
    }

    #[test]
    fn bounds_ascend() {
        assert!(OVERHEAD_BUCKETS.is_sorted_by(|one, next| one < next));
        assert!(ANSWER_BUCKETS.is_sorted_by(|one, next| one < next));
    }
}
