//! Whose turn it is to make a summary: one process's among all that share a far tier.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::Store;
use super::far::{Lease, LeaseToken, Renewed};
use super::queue::Job;
use super::secret;
use super::tiered::{Inner, Tier};
use crate::rewrite::chain::RecordKey;

/// How long a lease lasts if its holder dies: what that costs whoever needs the summary next.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// How often a holder renews it: two in a row may be lost.
const RENEW: Duration = Duration::from_secs(3);
/// How soon one who waits for another's summary looks again at first, and at the longest.
const LOOK: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// How long another's summary is waited for in all, behind the requests' backs: the two minutes of
/// a call, and those of the next.
const PATIENCE: Duration = Duration::from_mins(4);

/// Who makes the summary of a key.
pub(crate) enum Turn<'s> {
    /// Somebody else has made it, or is at it for longer than anybody waits.
    Elsewhere,
    /// We do.
    Ours(Held<'s>),
}

/// Our turn; over when dropped.
pub(crate) struct Held<'s> {
    /// None where nobody else could have it.
    lease: Option<(&'s Tier, RecordKey, LeaseToken)>,
}

impl Store {
    /// Waits until nobody else makes the summary of `key`, or has made it. Without an answer of the
    /// far tier each process goes on alone.
    pub(crate) async fn turn(&self, key: RecordKey) -> Turn<'_> {
        // It may have been made between the look at the store and this.
        if self.near.get(key).is_some() {
            return Turn::Elsewhere;
        }
        let alone = Turn::Ours(Held { lease: None });
        let Some(tier) = self.tier.as_ref().filter(|tier| tier.inner.far.is_shared()) else {
            return alone;
        };
        let Ok(token) = secret::random().map(|bytes| LeaseToken(u128::from_le_bytes(bytes))) else {
            return alone;
        };
        let until = Instant::now() + PATIENCE;
        let [mut pause, longest] = LOOK;
        loop {
            let asked = tier.inner.far.lease(key, token, LEASE);
            match tier.inner.modify(tier.inner.wait, asked).await {
                None => return alone,
                Some(Lease::Held) => {
                    let held = Held {
                        lease: Some((tier, key, token)),
                    };
                    // And by others, between the look at the store and the lease.
                    return if tier.arrived(key).await {
                        Turn::Elsewhere
                    } else {
                        Turn::Ours(held)
                    };
                }
                Some(Lease::Taken) if tier.arrived(key).await || Instant::now() >= until => {
                    return Turn::Elsewhere;
                }
                Some(Lease::Taken) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

impl Held<'_> {
    /// Does `work`, during which the turn stays ours as long as the far tier answers.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let Some((tier, key, token)) = self.lease else {
            return work.await;
        };
        tokio::select! {
            done = work => done,
            never = renew(&tier.inner, key, token) => match never {},
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some((tier, key, token)) = self.lease {
            // What finds no room ends by itself.
            _ = tier.queue.put(Job::Release(key, token));
        }
    }
}

/// Renews a lease again and again. One that was lost is not taken back: its new holder works at the
/// same, and the first of the two to write is right.
async fn renew(inner: &Inner, key: RecordKey, token: LeaseToken) -> std::convert::Infallible {
    let mut ticks = interval_at(Instant::now() + RENEW, RENEW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = inner.far.renew(key, token, LEASE);
        let renewed: Option<Renewed> = inner.modify(inner.wait, asked).await;
        if renewed == Some(Renewed::Lost) {
            tracing::debug!("the lease of a summary was lost; it is made to its end");
            return std::future::pending().await;
        }
    }
}
