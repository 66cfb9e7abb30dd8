//! Leases for making a summary: one process at a time, among all that share a durable store.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::Store;
use super::secret::random_bytes;
use super::tiered::{TieredInner, TieredStore};
use crate::store::durable::{LeaseAction, LeaseToken};
use crate::store::write_queue::StoreJob;
use longhaul_core::units::scope::RecordKey;

/// Time to live of a lease. If its holder dies, the next process that needs the summary waits for
/// this long.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(10);
/// Interval between renewals. Two in a row may be lost.
const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// First and longest pause between two checks for another process's summary.
const POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// Total time to wait for another process's summary, in the background: two minutes for one call,
/// and two for the next.
const MAX_WAIT: Duration = Duration::from_mins(4);

/// Outcome of waiting for the right to make a summary.
pub(crate) enum LeaseOutcome<'s> {
    /// The summary exists already, or another process takes longer than any process waits.
    NotNeeded,
    /// This process makes the summary.
    Acquired(LeaseGuard<'s>),
}

/// Guard of a lease, which is released on drop.
pub(crate) struct LeaseGuard<'s> {
    /// `None` if no other process could take the lease.
    lease: Option<(&'s TieredStore, RecordKey, LeaseToken)>,
}

impl Store {
    /// Waits until no other process makes the summary of `key`, or until one has made the summary. If
    /// the durable store does not answer, each process continues alone.
    pub(crate) async fn acquire_summary_lease(&self, key: RecordKey) -> LeaseOutcome<'_> {
        // The summary may have been made since the store was last read.
        if self.memory.records.get(&key).is_some() {
            return LeaseOutcome::NotNeeded;
        }
        let alone = LeaseOutcome::Acquired(LeaseGuard { lease: None });
        let tier = self.tiered.as_ref();
        let Some(tier) = tier.filter(|tier| tier.inner.durable.is_shared()) else {
            return alone;
        };
        let Ok(token) = random_bytes().map(|bytes| LeaseToken(u128::from_le_bytes(bytes))) else {
            return alone;
        };
        let until = Instant::now() + MAX_WAIT;
        let [mut pause, longest] = POLL_INTERVALS;
        loop {
            let durable = &tier.inner.durable;
            let asked = durable.lease(LeaseAction::Acquire, key, token, LEASE_TTL);
            match tier.inner.guarded_write(tier.inner.wait, asked).await {
                None => return alone,
                Some(true) => {
                    let held = LeaseGuard { lease: Some((tier, key, token)) };
                    // Another process may have made it between that read and the lease.
                    return if tier.refresh_prefix(key).await {
                        LeaseOutcome::NotNeeded
                    } else {
                        LeaseOutcome::Acquired(held)
                    };
                }
                Some(false) if tier.refresh_prefix(key).await || Instant::now() >= until => {
                    return LeaseOutcome::NotNeeded;
                }
                Some(false) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

impl LeaseGuard<'_> {
    /// Runs `work` and renews the lease meanwhile, as long as the durable store answers.
    pub(crate) async fn renew_during<T>(&self, work: impl Future<Output = T>) -> T {
        let Some((tier, key, token)) = self.lease else {
            return work.await;
        };
        tokio::select! {
            done = work => done,
            never = keep_renewing(&tier.inner, key, token) => match never {},
        }
    }
}

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        if let Some((tier, key, token)) = self.lease {
            // If the queue is full, the lease expires by itself.
            _ = tier.queue.try_push(StoreJob::Release(key, token));
        }
    }
}

/// Renews a lease repeatedly. A lost lease is not taken back: its new holder makes the same
/// summary, and the first of the two to write wins.
async fn keep_renewing(
    inner: &TieredInner,
    key: RecordKey,
    token: LeaseToken,
) -> std::convert::Infallible {
    let mut ticks = interval_at(Instant::now() + RENEW_INTERVAL, RENEW_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = inner.durable.lease(LeaseAction::Renew, key, token, LEASE_TTL);
        if inner.guarded_write(inner.wait, asked).await == Some(false) {
            tracing::debug!("lost the lease of a summary; finishing the summary anyway");
            return std::future::pending().await;
        }
    }
}
