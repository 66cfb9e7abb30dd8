//! Whose turn it is to make a summary: one process's among all that share a far tier.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::Store;
use super::far::{LeaseAttempt, LeaseRenewal, LeaseToken};
use super::queue::StoreJob;
use super::secret;
use super::tiered::{TieredInner, TieredStore};
use crate::rewrite::chain::RecordKey;

/// How long a lease lasts if its holder dies: what that costs whoever needs the summary next.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(10);
/// How often a holder renews it: two in a row may be lost.
const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// How soon one who waits for another's summary looks again at first, and at the longest.
const POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// How long another's summary is waited for in all, behind the requests' backs: the two minutes of
/// a call, and those of the next.
const MAX_WAIT: Duration = Duration::from_mins(4);

/// Who makes the summary of a key.
pub(crate) enum LeaseOutcome<'s> {
    /// Somebody else has made it, or is at it for longer than anybody waits.
    Elsewhere,
    /// We do.
    Acquired(LeaseGuard<'s>),
}

/// Our turn; over when dropped.
pub(crate) struct LeaseGuard<'s> {
    /// None where nobody else could have it.
    lease: Option<(&'s TieredStore, RecordKey, LeaseToken)>,
}

impl Store {
    /// Waits until nobody else makes the summary of `key`, or has made it. Without an answer of the
    /// far tier each process goes on alone.
    pub(crate) async fn acquire_summary_lease(&self, key: RecordKey) -> LeaseOutcome<'_> {
        // It may have been made between the look at the store and this.
        if self.memory.get(key).is_some() {
            return LeaseOutcome::Elsewhere;
        }
        let alone = LeaseOutcome::Acquired(LeaseGuard { lease: None });
        let Some(tier) = self
            .tiered
            .as_ref()
            .filter(|tier| tier.inner.durable.is_shared())
        else {
            return alone;
        };
        let Ok(token) = secret::random_bytes().map(|bytes| LeaseToken(u128::from_le_bytes(bytes)))
        else {
            return alone;
        };
        let until = Instant::now() + MAX_WAIT;
        let [mut pause, longest] = POLL_INTERVALS;
        loop {
            let asked = tier.inner.durable.lease(key, token, LEASE_TTL);
            match tier.inner.guarded_write(tier.inner.wait, asked).await {
                None => return alone,
                Some(LeaseAttempt::Acquired) => {
                    let held = LeaseGuard {
                        lease: Some((tier, key, token)),
                    };
                    // And by others, between the look at the store and the lease.
                    return if tier.refresh_prefix(key).await {
                        LeaseOutcome::Elsewhere
                    } else {
                        LeaseOutcome::Acquired(held)
                    };
                }
                Some(LeaseAttempt::Taken)
                    if tier.refresh_prefix(key).await || Instant::now() >= until =>
                {
                    return LeaseOutcome::Elsewhere;
                }
                Some(LeaseAttempt::Taken) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

impl LeaseGuard<'_> {
    /// Does `work`, during which the turn stays ours as long as the far tier answers.
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
            // What finds no room ends by itself.
            _ = tier.queue.try_push(StoreJob::Release(key, token));
        }
    }
}

/// Renews a lease again and again. One that was lost is not taken back: its new holder works at the
/// same, and the first of the two to write is right.
async fn keep_renewing(
    inner: &TieredInner,
    key: RecordKey,
    token: LeaseToken,
) -> std::convert::Infallible {
    let mut ticks = interval_at(Instant::now() + RENEW_INTERVAL, RENEW_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = inner.durable.renew(key, token, LEASE_TTL);
        let renewed: Option<LeaseRenewal> = inner.guarded_write(inner.wait, asked).await;
        if renewed == Some(LeaseRenewal::Lost) {
            tracing::debug!("the lease of a summary was lost; it is made to its end");
            return std::future::pending().await;
        }
    }
}
