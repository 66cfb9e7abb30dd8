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

pub(crate) use counts::CountedRequest;
pub(crate) use lease::LeaseOutcome;
pub(crate) use lore::ModelFacts;
pub(crate) use near::RewriteTolerance;
pub(crate) use secret::Secret;
pub(crate) use shelf::{RecordListing, ScopeStats, StoreInspector};

use crate::config::{StoreConfig, StoreLocation};
use crate::error::Problem;
use crate::metrics::Metrics;
use crate::rewrite::chain::{PrefixKeys, RecordKey};
use crate::rewrite::record::{CompactionRecord, PriorRecords};
use far::{Change, DurableStore, Unavailable};
use file::Intent;
use format::RecordSealer;
use near::MemoryStore;
use tiered::{PendingChange, TieredStore, WRITE_TIMEOUT};

/// How many conversations are remembered as told of.
const MAX_NOTIFIED: u64 = 4_096;

/// What is kept of conversations, for as long as the settings say.
pub(crate) struct Store {
    memory: Arc<MemoryStore>,
    /// What outlives the process; none where nothing does.
    tiered: Option<TieredStore>,
    sealer: Arc<RecordSealer>,
    secret: Secret,
    /// Conversations whose operator was told that they are not pruned, by their first prefix.
    notified: Cache<RecordKey, ()>,
}

impl Store {
    /// The store of the settings.
    ///
    /// # Errors
    /// What `store.at` names cannot be used.
    pub(crate) fn open(config: &StoreConfig, metrics: &Arc<Metrics>) -> Result<Self, Problem> {
        let OpenedStore {
            durable: far,
            secret,
        } = open_durable(config, Intent::Use)?;
        let far = far.map(|far| (far, config.wait_limit));
        Ok(Self::from_parts(
            config.memory_bytes,
            config.ttl,
            far,
            secret,
            metrics,
        ))
    }

    /// Whether the store of the settings can be used, as far as that shows without connecting to a
    /// server, and without taking a file that a proxy may have.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn check(config: &StoreConfig) -> Result<(), Problem> {
        match &config.location {
            StoreLocation::Memory => Ok(()),
            StoreLocation::File(path) => file::FileStore::check(path),
            StoreLocation::Redis(url) => redis::RedisStore::check(url, config),
        }
    }

    fn from_parts(
        memory: u64,
        idle: Duration,
        far: Option<(DurableStore, Duration)>,
        secret: Secret,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let near = Arc::new(MemoryStore::new(memory, idle));
        let seal = Arc::new(RecordSealer::new(&secret));
        Self {
            tiered: far
                .map(|far| TieredStore::new(far, Arc::clone(&near), Arc::clone(&seal), metrics)),
            memory: near,
            sealer: seal,
            secret,
            notified: Cache::new(MAX_NOTIFIED),
        }
    }

    /// Waits until what is kept can be asked for, or is known to be away: the first request has no
    /// time to connect in.
    pub(crate) async fn wait_until_ready(&self) {
        if let Some(tier) = &self.tiered
            && let Err(Unavailable { why }) = tier.inner.durable.wait_until_ready().await
        {
            tracing::warn!(
                why,
                "the store does not answer; it is used as soon as it does"
            );
        }
    }

    /// Whether what is kept elsewhere answered last; none where nothing is.
    pub(crate) fn is_available(&self) -> Option<bool> {
        let tier = self.tiered.as_ref()?;
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
        chains: &PrefixKeys,
        model: impl FnOnce() -> RecordKey,
    ) -> Option<ModelFacts> {
        match &self.tiered {
            // Asking a server takes a large future, which every chat would be moved about with.
            Some(tier) => Some(Box::pin(tier.refresh(chains, model())).await),
            None => None,
        }
    }

    /// What is known of a conversation.
    pub(crate) fn prior_records(&self, chains: &PrefixKeys) -> PriorRecords {
        self.memory.prior_records(chains)
    }

    /// Keeps a record that is not in use yet, here and for others. One that is there already stays.
    pub(crate) async fn store_record(&self, key: RecordKey, record: CompactionRecord) {
        let kept = self.memory.insert_if_absent(key, record);
        if let Some(tier) = &self.tiered {
            let wanted = vec![PendingChange::Record(Arc::clone(&kept.record))];
            tier.write_through(key, wanted).await;
        }
    }

    /// Keeps a record with which a request has been accepted. One that is there already stays, and
    /// is taken to have been accepted, if it is the same model's: whether that is so now.
    pub(crate) fn adopt(&self, key: RecordKey, record: CompactionRecord) -> bool {
        let (kept, is_accepted) = self.memory.adopt(key, record);
        if let Some(tier) = &self.tiered {
            tier.queue_record(key, &kept);
        }
        is_accepted
    }

    /// A request that ends at this prefix has been through here.
    pub(crate) fn mark_seen(&self, key: RecordKey) {
        self.memory.mark_seen(key);
        if let Some(tier) = &self.tiered {
            tier.queue_write(key, vec![PendingChange::Change(Change::Seen)]);
        }
    }

    /// `model` does not take what we made of the conversation with this prefix.
    pub(crate) fn record_rewrite_refusal(&self, key: RecordKey, model: &str) {
        self.memory
            .record_rewrite_refusal(key, self.sealer.note_name(model));
        if let Some(tier) = &self.tiered {
            tier.queue_write(key, vec![PendingChange::Change(Change::Refused)]);
        }
    }

    /// Its model took that much of what we made of a conversation.
    pub(crate) fn record_rewrite_acceptance(&self, chains: &PrefixKeys, takes: RewriteTolerance) {
        let before = self.rewrite_tolerance(chains);
        if let Some((_, key)) = chains.stable_prefix()
            && before != RewriteTolerance::All
            && before != takes
        {
            let model = self.sealer.note_name(chains.model());
            self.memory.record_rewrite_acceptance(key, model, takes);
        }
    }

    /// What its model takes of what we make of a conversation.
    pub(crate) fn rewrite_tolerance(&self, chains: &PrefixKeys) -> RewriteTolerance {
        let model = || self.sealer.note_name(chains.model());
        self.memory.rewrite_tolerance(chains, model)
    }

    /// Whether this is the first time that something is told of the conversation with this prefix.
    pub(crate) fn mark_notified(&self, key: RecordKey) -> bool {
        self.notified.entry(key).or_insert(()).is_fresh()
    }

    /// `model` counted a request that ends at this prefix.
    pub(crate) fn record_count(&self, key: RecordKey, model: &str, counted: CountedRequest) {
        let name = self.sealer.note_name(model);
        self.memory.counts.insert(key, name, counted);
        if let Some(tier) = &self.tiered
            && let Some(sealed) = self.sealer.seal(key, &counted)
        {
            tier.queue_write(key, vec![PendingChange::Change(Change::Note(name, sealed))]);
        }
    }

    /// What `model` counted last for a conversation.
    pub(crate) fn last_count(&self, chains: &PrefixKeys, model: &str) -> Option<CountedRequest> {
        self.memory
            .counts
            .newest(chains, self.sealer.note_name(model))
    }

    /// Remembers for others what this process has learned of the model with the key that `model`
    /// gives.
    pub(crate) fn publish_model_facts(
        &self,
        model: impl FnOnce() -> RecordKey,
        lore: impl FnOnce() -> ModelFacts,
    ) {
        if let Some(tier) = &self.tiered {
            tier.publish_model_facts(model(), lore());
        }
    }

    /// Waits until what was kept before outlives this process and is seen by others, as long as a
    /// request may wait: the client's next request may go to another. While what is behind memory is
    /// away, nothing gets there, and nothing is waited for.
    pub(crate) async fn flush(&self) {
        if let Some(tier) = &self.tiered
            && !tier.inner.is_away()
        {
            _ = timeout(tier.inner.wait, tier.queue.flush()).await;
        }
    }

    /// Whether what is kept is there for the next process.
    pub(crate) fn is_durable(&self) -> bool {
        self.tiered.is_some()
    }

    /// Writes what is left to be written, and lets go of the file: for another process to open.
    pub(crate) async fn close(&self) {
        if let Some(tier) = &self.tiered {
            if timeout(WRITE_TIMEOUT, tier.queue.flush()).await.is_err() {
                tracing::warn!("the store did not take all that was to be kept");
            }
            tier.inner.durable.close().await;
        }
    }
}

/// A far tier, if there is one, and the secret that its keys are made with.
struct OpenedStore {
    durable: Option<DurableStore>,
    secret: Secret,
}

fn open_durable(config: &StoreConfig, intent: Intent) -> Result<OpenedStore, Problem> {
    let (far, own) = match &config.location {
        StoreLocation::Memory => (None, None),
        StoreLocation::File(path) => {
            let (file, secret) = file::FileStore::open(path, config, intent)?;
            (Some(DurableStore::File(file)), Some(secret))
        }
        StoreLocation::Redis(url) => (
            Some(DurableStore::Redis(Box::new(redis::RedisStore::new(
                url, config,
            )?))),
            None,
        ),
    };
    let secret = match secret::from_settings(config).or(own) {
        Some(secret) => secret,
        None => Secret::generate()?,
    };
    Ok(OpenedStore {
        durable: far,
        secret,
    })
}

#[cfg(test)]
mod tests;
