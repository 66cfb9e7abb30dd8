//! Where records live between requests: in memory, and behind it where they outlive the process.

mod breaker;
mod counts;
pub(crate) mod far;
mod file;
mod format;
mod lease;
mod lore;
mod near;
mod queue;
mod redis;
#[cfg(test)]
mod scripted;
mod secret;
mod shelf;
mod taught;
mod tiered;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::timeout;

pub(crate) use counts::Counted;
pub(crate) use lease::Turn;
pub(crate) use lore::Lore;
pub(crate) use near::Takes;
pub(crate) use secret::Secret;
pub(crate) use shelf::{Line, Shelf, Stats};

use crate::config::{StoreAt, StoreConfig};
use crate::error::Problem;
use crate::metrics::Metrics;
use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::record::{Known, Record};
use far::{Change, Far, Unavailable};
use file::Intent;
use format::Seal;
use near::Near;
use tiered::{Tier, WRITE, Wanted};

/// How many conversations are remembered as told of.
const TOLD: u64 = 4_096;

/// What is kept of conversations, for as long as the settings say.
pub(crate) struct Store {
    near: Arc<Near>,
    /// What outlives the process; none where nothing does.
    tier: Option<Tier>,
    seal: Arc<Seal>,
    secret: Secret,
    /// Conversations whose operator was told that they are not pruned, by their first prefix.
    told: Cache<RecordKey, ()>,
}

impl Store {
    /// The store of the settings.
    ///
    /// # Errors
    /// What `store.at` names cannot be used.
    pub(crate) fn open(config: &StoreConfig, metrics: &Arc<Metrics>) -> Result<Self, Problem> {
        let Opened { far, secret } = open(config, Intent::Use)?;
        let far = far.map(|far| (far, config.wait));
        Ok(Self::with(config.memory, config.ttl, far, secret, metrics))
    }

    /// Whether the store of the settings can be used, as far as that shows without connecting to a
    /// server, and without taking a file that a proxy may have.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn check(config: &StoreConfig) -> Result<(), Problem> {
        match &config.at {
            StoreAt::Memory => Ok(()),
            StoreAt::File(path) => file::File::check(path),
            StoreAt::Redis(url) => redis::Redis::check(url, config),
        }
    }

    fn with(
        memory: u64,
        idle: Duration,
        far: Option<(Far, Duration)>,
        secret: Secret,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let near = Arc::new(Near::new(memory, idle));
        let seal = Arc::new(Seal::new(&secret));
        Self {
            tier: far.map(|far| Tier::new(far, Arc::clone(&near), Arc::clone(&seal), metrics)),
            near,
            seal,
            secret,
            told: Cache::new(TOLD),
        }
    }

    /// Waits until what is kept can be asked for, or is known to be away: the first request has no
    /// time to connect in.
    pub(crate) async fn begun(&self) {
        if let Some(tier) = &self.tier
            && let Err(Unavailable { why }) = tier.inner.far.begun().await
        {
            tracing::warn!(
                why,
                "the store does not answer; it is used as soon as it does"
            );
        }
    }

    /// Whether what is kept elsewhere answered last; none where nothing is.
    pub(crate) fn answers(&self) -> Option<bool> {
        let tier = self.tier.as_ref()?;
        Some(!tier.inner.is_away())
    }

    /// What scopes are made with.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Brings memory up to date with what other processes and earlier ones have kept of a
    /// conversation, as far as that is to be had within `store.wait`. Says what is known by then of the model
    /// whose own key `model` gives, where anything is kept elsewhere.
    pub(crate) async fn refresh(
        &self,
        chains: &Chains,
        model: impl FnOnce() -> RecordKey,
    ) -> Option<Lore> {
        match &self.tier {
            // Asking a server takes a large future, which every chat would be moved about with.
            Some(tier) => Some(Box::pin(tier.refresh(chains, model())).await),
            None => None,
        }
    }

    /// What is known of a conversation.
    pub(crate) fn known(&self, chains: &Chains) -> Known {
        self.near.known(chains)
    }

    /// Keeps a record that is not in use yet, here and for others. One that is there already stays.
    pub(crate) async fn keep(&self, key: RecordKey, record: Record) {
        let kept = self.near.keep(key, record);
        if let Some(tier) = &self.tier {
            let wanted = vec![Wanted::Record(Arc::clone(&kept.record))];
            tier.write_through(key, wanted).await;
        }
    }

    /// Keeps a record with which a request has been accepted. One that is there already stays, and
    /// is taken to have been accepted, if it is the same model's: whether that is so now.
    pub(crate) fn adopt(&self, key: RecordKey, record: Record) -> bool {
        let (kept, is_accepted) = self.near.adopt(key, record);
        if let Some(tier) = &self.tier {
            tier.write_record(key, &kept);
        }
        is_accepted
    }

    /// A request that ends at this prefix has been through here.
    pub(crate) fn met(&self, key: RecordKey) {
        self.near.met(key);
        if let Some(tier) = &self.tier {
            tier.write(key, vec![Wanted::Change(Change::Met)]);
        }
    }

    /// `model` does not take what we made of the conversation with this prefix.
    pub(crate) fn refuse_rewrite(&self, key: RecordKey, model: &str) {
        self.near.refuse_rewrite(key, self.seal.note_of(model));
        if let Some(tier) = &self.tier {
            tier.write(key, vec![Wanted::Change(Change::Refused)]);
        }
    }

    /// Its model took that much of what we made of a conversation.
    pub(crate) fn take_rewrite(&self, chains: &Chains, takes: Takes) {
        let before = self.takes(chains);
        if let Some((_, key)) = chains.lasting()
            && before != Takes::All
            && before != takes
        {
            let model = self.seal.note_of(chains.model());
            self.near.take_rewrite(key, model, takes);
        }
    }

    /// What its model takes of what we make of a conversation.
    pub(crate) fn takes(&self, chains: &Chains) -> Takes {
        let model = || self.seal.note_of(chains.model());
        self.near.takes(chains, model)
    }

    /// Whether this is the first time that something is told of the conversation with this prefix.
    pub(crate) fn tells_first(&self, key: RecordKey) -> bool {
        self.told.entry(key).or_insert(()).is_fresh()
    }

    /// `model` counted a request that ends at this prefix.
    pub(crate) fn count(&self, key: RecordKey, model: &str, counted: Counted) {
        let name = self.seal.note_of(model);
        self.near.counts.keep(key, name, counted);
        if let Some(tier) = &self.tier
            && let Some(sealed) = self.seal.close(key, &counted)
        {
            tier.write(key, vec![Wanted::Change(Change::Note(name, sealed))]);
        }
    }

    /// What `model` counted last for a conversation.
    pub(crate) fn last_count(&self, chains: &Chains, model: &str) -> Option<Counted> {
        self.near.counts.last(chains, self.seal.note_of(model))
    }

    /// Remembers for others what this process has learned of the model with the key that `model`
    /// gives.
    pub(crate) fn learned(&self, model: impl FnOnce() -> RecordKey, lore: impl FnOnce() -> Lore) {
        if let Some(tier) = &self.tier {
            tier.learned(model(), lore());
        }
    }

    /// Waits until what was kept before outlives this process and is seen by others, as long as a
    /// request may wait: the client's next request may go to another. While what is behind memory is
    /// away, nothing gets there, and nothing is waited for.
    pub(crate) async fn spread(&self) {
        if let Some(tier) = &self.tier
            && !tier.inner.is_away()
        {
            _ = timeout(tier.inner.wait, tier.queue.flush()).await;
        }
    }

    /// Whether what is kept is there for the next process.
    pub(crate) fn outlives_the_process(&self) -> bool {
        self.tier.is_some()
    }

    /// Writes what is left to be written, and lets go of the file: for another process to open.
    pub(crate) async fn close(&self) {
        if let Some(tier) = &self.tier {
            if timeout(WRITE, tier.queue.flush()).await.is_err() {
                tracing::warn!("the store did not take all that was to be kept");
            }
            tier.inner.far.close().await;
        }
    }
}

/// A far tier, if there is one, and the secret that its keys are made with.
struct Opened {
    far: Option<Far>,
    secret: Secret,
}

fn open(config: &StoreConfig, intent: Intent) -> Result<Opened, Problem> {
    let (far, own) = match &config.at {
        StoreAt::Memory => (None, None),
        StoreAt::File(path) => {
            let (file, secret) = file::File::open(path, config, intent)?;
            (Some(Far::File(file)), Some(secret))
        }
        StoreAt::Redis(url) => (
            Some(Far::Redis(Box::new(redis::Redis::new(url, config)?))),
            None,
        ),
    };
    let secret = match secret::of_setting(config).or(own) {
        Some(secret) => secret,
        None => Secret::draw()?,
    };
    Ok(Opened { far, secret })
}

#[cfg(test)]
mod tests;
