//! Storage of records between requests: in memory, and optionally in a durable store.

mod circuit_breaker;
pub(crate) mod durable;
mod file;
mod format;
pub(crate) mod inspector;
mod kept_texts;
mod lease;
pub(crate) mod memory;
mod originals;
mod prefix_caches;
mod redis;
mod secret;
mod tiered;
pub(crate) mod totals_file;
pub(crate) mod write_queue;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::timeout;

pub(crate) use file::create_private_dir;
pub(crate) use inspector::{RecordListing, ScopeStats, StoreInspector};
pub(crate) use kept_texts::{KeptTexts, NotKept};
pub(crate) use lease::LeaseOutcome;
pub(crate) use memory::RewriteTolerance;
pub(crate) use originals::{Original, OriginalContent, OriginalStore};

use crate::callers::fair_cache::FairCache;
use crate::callers::{AcceptedCallers, FORGET_AFTER};
use crate::config::{StoreConfig, StoreLocation};
use crate::error::Problem;
use crate::learned::learned_models::LearnedModels;
use crate::learned::model_facts::{ModelFactsCache, SyncState};
use crate::metrics::Metrics;
use durable::{Change, DurableStore, NoteName, Unavailable};
use file::{Intent, StoreFile};
use format::RecordSealer;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::policy::thinking_removal::{PriorRemovals, ThinkingRemoval};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::RecordKey;
use memory::MemoryStore;
pub(crate) use prefix_caches::CountedRequest;
use prefix_caches::{MAX_LOOKBACK, StoredRemoval};
pub(crate) use secret::Secret;
use tiered::{KEPT_TEXTS, PendingChange, TieredStore};
use totals_file::{LESSONS, TotalsFile};

/// Maximum number of conversations remembered as notified.
const MAX_NOTIFIED: u64 = 4_096;

/// Store of conversations, which keeps its records for the configured time.
pub(crate) struct Store {
    memory: Arc<MemoryStore>,
    /// Durable store in addition to memory; `None` if the settings name none.
    tiered: Option<TieredStore>,
    /// Facts about models, while records stay in memory.
    lessons: Option<Arc<ModelFactsCache>>,
    /// File of these facts, which the user's other processes write, too.
    pub(crate) lessons_file: Option<Arc<TotalsFile>>,
    /// Notified of facts that the file lacks.
    pub(crate) news: Notify,
    /// Lock of the user's first process, which alone keeps the conversations of its page.
    first: Option<StoreFile>,
    sealer: Arc<RecordSealer>,
    secret: Secret,
    /// Originals for recall; `None` if recall is off.
    originals: Option<Arc<OriginalStore>>,
    /// Keys of one-time notices that were logged.
    notified: FairCache<RecordKey, ()>,
}

impl Store {
    /// Opens the store of the settings. Fails if the store that `store.at` names cannot be used.
    pub(crate) fn open(
        config: &StoreConfig,
        metrics: &Arc<Metrics>,
        accepted: &Arc<AcceptedCallers>,
    ) -> Result<Self, Problem> {
        let path = config.lessons.as_deref();
        let path = path.filter(|_| config.location == StoreLocation::Memory);
        let opened = path.map(file::lock_or_share).transpose().inspect_err(|problem| {
            tracing::info!("learned windows are not kept after this process: {problem}");
        });
        let (first, shared) = opened.unwrap_or_default().unzip();
        let lessons = shared.is_some().then(|| Arc::new(ModelFactsCache::new(accepted)));
        let (far, own) = open_durable(config, Kept::Records, Intent::Use)?;
        let secret = secret::choose(config, own.or(shared))?;
        let far = far.inspect(|far| far.set_accepted(accepted));
        let far = far.map(|far| (far, config.wait_limit));
        let bounds = (config.memory_bytes, config.ttl);
        let store = Self::from_parts(bounds, far, secret, metrics, accepted);
        let originals = if config.keeps_originals {
            // The secret of the records seals the entries.
            let (durable, _) = open_durable(config, Kept::Originals, Intent::Use)?;
            let durable = durable.inspect(|durable| durable.set_accepted(accepted));
            let sealer = Arc::clone(&store.sealer);
            let originals = OriginalStore::new(config, durable, sealer, accepted);
            Some(Arc::new(originals))
        } else {
            None
        };
        let lessons_file = lessons.as_ref().and_then(|lessons| {
            TotalsFile::share((&store, config), LESSONS, lessons, ModelFactsCache::exchange)
        });
        Ok(Self { lessons, lessons_file, first: first.flatten(), originals, ..store })
    }

    /// Checks whether the store of the settings can be used. Connects to no server, and locks no
    /// file that a proxy may hold.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(crate) fn check(config: &StoreConfig) -> Result<(), Problem> {
        match &config.location {
            StoreLocation::Memory => Ok(()),
            StoreLocation::File(path) => file::check(path),
            StoreLocation::Redis(url) => redis::RedisStore::check(url, config),
        }
    }

    fn from_parts(
        (bytes, idle): (u64, Duration),
        far: Option<(DurableStore, Duration)>,
        secret: Secret,
        metrics: &Arc<Metrics>,
        accepted: &Arc<AcceptedCallers>,
    ) -> Self {
        let near = Arc::new(MemoryStore::new(bytes, idle, accepted));
        let seal = Arc::new(RecordSealer::new(&secret));
        Self {
            tiered: far.map(|far| {
                let (near, seal) = (Arc::clone(&near), Arc::clone(&seal));
                TieredStore::new(far, near, seal, metrics, accepted)
            }),
            memory: near,
            lessons: None,
            lessons_file: None,
            news: Notify::new(),
            first: None,
            sealer: seal,
            secret,
            originals: None,
            notified: FairCache::of_entries(MAX_NOTIFIED, FORGET_AFTER, accepted),
        }
    }

    /// Waits until the durable store can be read, or is known to be unavailable: the first request
    /// has no time to wait for a connection. Returns whether the store answers; a store in memory does.
    pub(crate) async fn wait_until_ready(&self) -> bool {
        if let Some(tier) = &self.tiered
            && let Err(Unavailable(why)) = tier.inner.durable.wait_until_ready().await
        {
            tracing::warn!(why, "the store does not answer; it is used as soon as it does");
            return false;
        }
        true
    }

    /// Returns whether the durable store is available, judged by the last calls; `None` without
    /// one.
    pub(crate) fn is_available(&self) -> Option<bool> {
        let tier = self.tiered.as_ref()?;
        Some(!tier.inner.is_away())
    }

    /// Whether this process has its own store file, or is the first that keeps lessons.
    pub(crate) fn owns_file(&self) -> bool {
        let tiered = self.tiered.as_ref();
        self.first.is_some() || tiered.is_some_and(|tier| !tier.inner.durable.is_shared())
    }

    /// Returns the originals for recall; `None` if recall is off.
    pub(crate) fn originals(&self) -> Option<&Arc<OriginalStore>> {
        self.originals.as_ref()
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Updates memory with the entries of a conversation that other processes and earlier ones have
    /// stored, and `learned` with what they learned about the model. Waits at most `store.wait`.
    pub(crate) async fn refresh_all(
        &self,
        prefix_keys: &PrefixKeys,
        learned: &LearnedModels,
        model: &str,
    ) {
        if let Some(lessons) = &self.lessons
            && let Some(facts) = lessons.take_news(learned.key(model))
        {
            learned.merge_remote(model, facts);
        }
        if let Some(tier) = &self.tiered {
            // A refresh is a large future. Boxing it keeps it out of the future of every chat.
            let facts = Box::pin(tier.refresh(prefix_keys, learned.key(model))).await;
            learned.merge_remote(model, facts);
        }
    }

    /// Publishes to other processes what this one has learned about a model, if it is new.
    pub(crate) fn publish(&self, learned: &LearnedModels, model: &str) {
        if let (Some(lessons), Some(facts)) = (&self.lessons, learned.facts(model))
            && lessons.merge_learned(learned.key(model), facts) == SyncState::Incomplete
        {
            self.news.notify_one();
        }
        if let (Some(tier), Some(facts)) = (&self.tiered, learned.facts(model)) {
            tier.publish_model_facts(learned.key(model), facts);
        }
    }

    pub(crate) fn prior_records(&self, prefix_keys: &PrefixKeys) -> PriorRecords {
        self.memory.prior_records(prefix_keys)
    }

    /// Stores a record that is not in use yet, in memory and durably. An existing record stays.
    pub(crate) async fn store_record(&self, key: RecordKey, record: CompactionRecord) {
        let kept = self.memory.insert_if_absent(key, record);
        if let Some(tier) = &self.tiered {
            let wanted = vec![PendingChange::Record(Arc::clone(&kept.record))];
            tier.inner.write(&[(key, wanted)]).await;
        }
    }

    /// Stores a record with which a request has been accepted. An existing record stays; if it is
    /// the same model's, it is marked as adopted. Returns whether the stored record is that
    /// model's.
    pub(crate) fn adopt(&self, key: RecordKey, record: CompactionRecord) -> bool {
        let (kept, is_accepted) = self.memory.adopt(key, record);
        if let Some(tier) = &self.tiered {
            tier.queue_record(key, &kept);
        }
        is_accepted
    }

    /// Records that a request ending at this prefix has passed through.
    pub(crate) fn mark_seen(&self, key: RecordKey) {
        self.memory.seen.insert(key, ());
        self.queue_change(key, Change::Seen);
    }

    pub(crate) fn record_rewrite_refusal(&self, key: RecordKey, model: &str) {
        let name = self.sealer.note_name(model);
        self.memory.record_rewrite_refusal(key, name);
        self.queue_change(key, Change::Refused);
    }

    /// Records how much of a rewrite the conversation's model has accepted.
    pub(crate) fn record_rewrite_acceptance(
        &self,
        prefix_keys: &PrefixKeys,
        takes: RewriteTolerance,
    ) {
        let before = self.rewrite_tolerance(prefix_keys);
        if let Some((_, key)) = prefix_keys.stable_prefix()
            && before != RewriteTolerance::All
            && before != takes
        {
            let model = self.sealer.note_name(prefix_keys.model());
            self.memory.tolerances.insert((key, model), takes);
        }
    }

    /// Returns how much of a rewrite the conversation's model accepts.
    pub(crate) fn rewrite_tolerance(&self, prefix_keys: &PrefixKeys) -> RewriteTolerance {
        let model = || self.sealer.note_name(prefix_keys.model());
        self.memory.rewrite_tolerance(prefix_keys, model)
    }

    /// Marks the conversation with this prefix as notified. Returns whether it was not marked
    /// before.
    pub(crate) fn mark_notified(&self, key: RecordKey) -> bool {
        let mut is_new = false;
        self.notified.get_or_insert_with(key, || is_new = true);
        is_new
    }

    /// Records the token count of `model` for a request that ends at this prefix.
    pub(crate) fn record_count(&self, key: RecordKey, model: &str, counted: CountedRequest) {
        let name = self.sealer.note_name(model);
        self.memory.counts.insert((key, name), counted);
        self.queue_note(key, name, &counted);
    }

    pub(crate) fn last_count(
        &self,
        prefix_keys: &PrefixKeys,
        model: &str,
    ) -> Option<CountedRequest> {
        let model = self.sealer.note_name(model);
        let mut keys = prefix_keys.newest_first().take(MAX_LOOKBACK);
        keys.find_map(|(_, key)| self.memory.counts.get(&(key, model)))
    }

    pub(crate) fn prior_removals(&self, prefix_keys: &PrefixKeys, counts: bool) -> PriorRemovals {
        let model = self.sealer.note_name(prefix_keys.model());
        self.memory.removals.look_up(prefix_keys, model, counts)
    }

    /// Stores a removal of bound thinking that `model` accepted. Several at one prefix unite.
    pub(crate) fn record_removal(&self, key: RecordKey, model: &str, removal: ThinkingRemoval) {
        let (model, removal) = (self.sealer.note_name(model), Arc::new(removal));
        let removals = &self.memory.removals;
        if !removals.insert(key, model, Arc::clone(&removal)) {
            return;
        }
        let stored = StoredRemoval { model: u64::from_le_bytes(model.0), removal };
        // Each removal has its own note: no process overwrites that of another.
        if let Ok(text) = serde_json::to_string(&stored) {
            self.queue_note(key, self.sealer.note_name(&text), &stored);
        }
    }

    /// Returns the texts that stay in a conversation, by the [keys](PrefixKeys::kept_keys) of their list.
    pub(crate) fn kept_texts(&self, keys: &[RecordKey]) -> KeptTexts {
        let kept = self.memory.kept.get(keys);
        kept.map_or_else(KeptTexts::default, Arc::unwrap_or_clone)
    }

    /// Whether texts stay in any conversation. The keys of a list take four hashes.
    pub(crate) fn has_kept_texts(&self) -> bool {
        !self.memory.kept.is_empty()
    }

    /// Changes the texts that stay in a conversation, by the [keys](PrefixKeys::kept_keys) of its list. Returns
    /// whether they changed.
    pub(crate) fn change_kept_texts(
        &self,
        keys: &[RecordKey],
        change: impl FnOnce(&mut KeptTexts),
    ) -> bool {
        let Some((key, kept)) = self.memory.kept.change(keys, change) else {
            return false;
        };
        self.queue_note(key, KEPT_TEXTS, &*kept);
        true
    }

    /// Changes the texts that stay in a conversation beside its requests. Waits for the list of other
    /// processes, and until they can see the change.
    ///
    /// # Errors
    /// As `wish`, which changes the list.
    pub(crate) async fn wish<E>(
        &self,
        keys: &[RecordKey],
        wish: impl FnOnce(&mut KeptTexts) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(tier) = &self.tiered {
            for key in keys {
                tier.refresh_prefix(*key).await;
            }
        }
        let mut outcome = Ok(());
        self.change_kept_texts(keys, |kept| outcome = wish(kept));
        outcome?;
        self.flush().await;
        Ok(())
    }

    /// Queues a change of the durable entry under `key`, if the durable store keeps entries.
    fn queue_change(&self, key: RecordKey, change: Change) {
        if let Some(tier) = &self.tiered {
            tier.queue_write(key, vec![PendingChange::Change(change)]);
        }
    }

    /// Seals `value` and queues its note under `name`. A value that cannot be sealed is not stored.
    fn queue_note(&self, key: RecordKey, name: NoteName, value: &impl Serialize) {
        if self.is_durable()
            && let Some(sealed) = self.sealer.seal(key, value)
        {
            self.queue_change(key, Change::Note(name, sealed));
        }
    }

    /// Waits until earlier writes are durable and visible to other processes, for at most
    /// `store.wait`: the client's next request may reach another replica. Returns at once while the
    /// durable store is unavailable, because no write reaches it then.
    pub(crate) async fn flush(&self) {
        if let Some(tier) = &self.tiered
            && !tier.inner.is_away()
        {
            _ = timeout(tier.inner.wait, tier.queue.flush()).await;
        }
    }

    /// Whether records outlive the process.
    pub(crate) fn is_durable(&self) -> bool {
        self.tiered.is_some()
    }

    /// Writes what is still queued and closes the file, so that another process can open it.
    pub(crate) async fn close(&self) {
        if let Some(tier) = &self.tiered {
            let limit = tier.inner.write_timeout();
            if timeout(limit, tier.queue.flush()).await.is_err() {
                tracing::warn!("the store did not accept all pending writes before the end");
            }
            tier.inner.durable.close().await;
        }
        if let Some(originals) = &self.originals {
            originals.close().await;
        }
    }
}

/// Contents of a durable store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kept {
    Originals,
    Records,
}

impl Kept {
    /// Returns the bytes, and the lifetime of an entry.
    fn bounds(self, config: &StoreConfig) -> (u64, Duration) {
        match self {
            Self::Originals => (config.recall_max_bytes, config.recall_ttl),
            Self::Records => (config.max_bytes, config.ttl),
        }
    }
}

/// A durable store, if there is one, and the secret next to its file.
type Opened = (Option<DurableStore>, Option<Secret>);

/// Opens the durable store for what is `kept`, if the settings name one.
fn open_durable(config: &StoreConfig, kept: Kept, intent: Intent) -> Result<Opened, Problem> {
    Ok(match &config.location {
        StoreLocation::Memory => (None, None),
        StoreLocation::File(path) => {
            let path = match kept {
                Kept::Originals => &file::originals_path(path),
                Kept::Records => path,
            };
            let (file, secret) = file::FileStore::open(path, kept.bounds(config), intent)?;
            (Some(DurableStore::File(file)), Some(secret))
        }
        StoreLocation::Redis(url) => {
            let redis = redis::RedisStore::new(url, config, kept)?;
            (Some(DurableStore::Redis(Box::new(redis))), None)
        }
    })
}

#[cfg(test)]
mod tests;
