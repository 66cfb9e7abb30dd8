//! Memory in front of a durable store: the calls between them, their timeouts, and which side wins
//! when the two differ.
//!
//! The durable store wins. A record that only this process has is provisional, and is offered until
//! the durable store has confirmed whose record it keeps. That breaks a conversation's prefix at
//! most once, after which every replica forwards the same bytes. If each replica kept its own
//! record, the prefix would break at every turn.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use super::format::{RecordSealer, read_tag};
use crate::callers::AcceptedCallers;
use crate::learned::model_facts::{ModelFacts, ModelFactsCache, SyncState};
use crate::metrics::{DurableStoreOutcome, Metrics};
use crate::store::circuit_breaker::CircuitBreaker;
use crate::store::durable::{
    Answer, Change, DurableStore, EntryWrite, NoteName, StoredEntry, Unavailable, WriteResult,
};
use crate::store::kept_texts::KeptTexts;
use crate::store::memory::{CachedRecord, MemoryStore, MergeOutcome};
use crate::store::prefix_caches::{CountedRequest, StoredRemoval};
use crate::store::write_queue::{StoreJob, WriteQueue};
use longhaul_core::policy::record::CompactionRecord;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::RecordKey;
use parking_lot::Mutex;

/// Timeout of a background write, unless requests wait longer. A busy disk takes a second.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Error for a call that exceeded its timeout.
const TIMED_OUT: Unavailable = Unavailable("no answer in time");
/// Name of the only note under a model's own key.
const MODEL_FACTS: NoteName = NoteName(*b"\0learned");

/// Name of the only note under the key of a list of kept texts.
pub(super) const KEPT_TEXTS: NoteName = NoteName(*b"\0\0\0\0kept");

pub(super) struct TieredStore {
    pub(super) inner: Arc<TieredInner>,
    pub(super) queue: WriteQueue,
}

/// State that requests share with the queue's own task.
pub(super) struct TieredInner {
    pub(super) durable: DurableStore,
    pub(super) memory: Arc<MemoryStore>,
    pub(super) sealer: Arc<RecordSealer>,
    /// Total time that a request waits for the durable store.
    pub(super) wait: Duration,
    read_breaker: CircuitBreaker,
    /// Separate breaker for writes. A store that answers every read may refuse every write. The
    /// reasons are a missing permission, full memory, a full disk, or a read-only replica.
    write_breaker: CircuitBreaker,
    /// Reason of the last failed write, if no read has ended since. The next read shows whether the
    /// store refused the write or is unavailable.
    failed_write: Mutex<Option<(&'static str, Instant)>>,
    metrics: Arc<Metrics>,
    model_facts: ModelFactsCache,
}

/// A modification of an entry that is still to be written.
#[derive(Clone, Debug)]
pub(super) enum PendingChange {
    /// A change that needs no preparation.
    Change(Change),
    /// The facts about a model at the time of writing, merged with the stored ones.
    ModelFacts,
    /// A record, unless one exists. Sealed when it is written.
    Record(Arc<CompactionRecord>),
}

impl TieredStore {
    /// Puts `near` in front of `far`. A request waits at most `wait` for `far`.
    pub(super) fn new(
        (far, wait): (DurableStore, Duration),
        near: Arc<MemoryStore>,
        seal: Arc<RecordSealer>,
        metrics: &Arc<Metrics>,
        accepted: &Arc<AcceptedCallers>,
    ) -> Self {
        let inner = Arc::new(TieredInner {
            durable: far,
            memory: near,
            sealer: seal,
            wait,
            read_breaker: CircuitBreaker::default(),
            write_breaker: CircuitBreaker::default(),
            failed_write: Mutex::default(),
            metrics: Arc::clone(metrics),
            model_facts: ModelFactsCache::new(accepted),
        });
        Self { queue: WriteQueue::new(&inner), inner }
    }

    /// Updates memory with the durable store's entries for a conversation, and for the model whose
    /// own key is `model`. Returns the facts known about that model.
    pub(super) async fn refresh(&self, prefix_keys: &PrefixKeys, model: RecordKey) -> ModelFacts {
        let inner = &*self.inner;
        let mut keys = inner.memory.keys_to_refresh(prefix_keys);
        keys.extend(prefix_keys.kept_keys());
        let of_model = if inner.may_have_newer_facts(model) { &[model][..] } else { &[] };
        let both = async { tokio::try_join!(inner.read(&keys), inner.read(of_model)) };
        if let Some((entries, of_model)) = inner.guarded_read(inner.wait, both).await {
            for (key, entry) in keys.into_iter().zip(entries) {
                self.merge_entry(key, entry);
            }
            let theirs = of_model.into_iter().next();
            if let Some(theirs) = theirs.and_then(|entry| inner.read_model_facts(model, entry))
                && inner.model_facts.merge_durable(model, theirs) == SyncState::Incomplete
            {
                self.queue_write(model, vec![PendingChange::ModelFacts]);
            }
        }
        inner.model_facts.get(model)
    }

    /// Updates memory with the durable store's entry for one prefix. Returns whether a record is
    /// there.
    pub(super) async fn refresh_prefix(&self, key: RecordKey) -> bool {
        let inner = &self.inner;
        let entries = inner.guarded_read(inner.wait, inner.read(&[key])).await;
        let Some(entry) = entries.and_then(|entries| entries.into_iter().next()?) else {
            return false;
        };
        self.merge_entry(key, Some(entry));
        self.inner.memory.records.get(&key).is_some()
    }

    pub(super) fn queue_write(&self, key: RecordKey, wanted: Vec<PendingChange>) {
        if !self.queue.try_push(StoreJob::Write(key, wanted)) {
            let outcomes = &self.inner.metrics.durable_store;
            outcomes.add(DurableStoreOutcome::Dropped);
        }
    }

    /// Queues the write of a record in memory, with its adoption mark.
    pub(super) fn queue_record(&self, key: RecordKey, kept: &CachedRecord) {
        let wanted = record_changes(kept, !kept.is_confirmed());
        if !wanted.is_empty() {
            self.queue_write(key, wanted);
        }
    }

    /// Merges what this process has learned about the model with this key, and queues a write if it
    /// is new.
    pub(super) fn publish_model_facts(&self, model: RecordKey, facts: ModelFacts) {
        if self.inner.model_facts.merge_learned(model, facts) == SyncState::Incomplete {
            self.queue_write(model, vec![PendingChange::ModelFacts]);
        }
    }

    /// Merges the durable store's entry into memory, and queues what the entry lacks.
    fn merge_entry(&self, key: RecordKey, entry: Option<StoredEntry>) {
        let inner = &*self.inner;
        let entry = entry.unwrap_or_default();
        let mut wanted = Vec::new();
        match &entry.record {
            Some(sealed) => match inner.merge_record(key, sealed, entry.adopted) {
                MergeOutcome::AdoptedHereOnly => {
                    wanted.push(PendingChange::Change(Change::Adopted));
                }
                MergeOutcome::Merged => {}
                MergeOutcome::Unreadable => {
                    let outcomes = &inner.metrics.durable_store;
                    outcomes.add(DurableStoreOutcome::Unreadable);
                    wanted.push(PendingChange::Change(Change::Discard(sealed.clone())));
                    wanted.extend(inner.local_record_changes(key));
                }
            },
            None => wanted.extend(inner.local_record_changes(key)),
        }
        if entry.seen {
            inner.memory.seen.insert(key, ());
        }
        if entry.refused {
            inner.memory.record_remote_refusal(key);
        } else if inner.memory.refused.get(&key).is_some() {
            wanted.push(PendingChange::Change(Change::Refused));
        }
        for (name, sealed) in entry.notes {
            if name == KEPT_TEXTS {
                if let Some(kept) = inner.sealer.open::<KeptTexts>(key, &sealed) {
                    inner.memory.kept.merge(key, kept);
                }
            } else if let Some(counted) = inner.sealer.open::<CountedRequest>(key, &sealed) {
                inner.memory.counts.insert((key, name), counted);
            } else if let Some(stored) = inner.sealer.open::<StoredRemoval>(key, &sealed) {
                let model = NoteName(stored.model.to_le_bytes());
                inner.memory.removals.insert(key, model, stored.removal);
            }
        }
        if !wanted.is_empty() {
            self.queue_write(key, wanted);
        }
    }
}

impl TieredInner {
    pub(super) fn write_timeout(&self) -> Duration {
        WRITE_TIMEOUT.max(self.wait)
    }

    /// Whether the durable store is unavailable, judged by the last calls.
    pub(super) fn is_away(&self) -> bool {
        self.read_breaker.is_open()
    }

    /// Reads from the durable store, unless it has just failed several times. `None` is a miss.
    pub(super) async fn guarded_read<T>(
        &self,
        within: Duration,
        call: impl Future<Output = Answer<T>>,
    ) -> Option<T> {
        if !self.read_breaker.allows_call() {
            self.metrics.durable_store.add(DurableStoreOutcome::Spared);
            return None;
        }
        match self.count_outcome(timeout(within, call).await) {
            Ok(answer) => {
                if self.read_breaker.record_success() {
                    tracing::info!("the store answers again; using it");
                }
                let refused = self.failed_write.lock().take();
                if let Some((why, failed_at)) = refused
                    && self.write_breaker.record_failure(failed_at)
                {
                    tracing::warn!(
                        why,
                        "the store answers but takes no writes; keeping new records in memory only"
                    );
                }
                Some(answer)
            }
            Err(Unavailable(why)) => {
                // Writes fail for the same reason.
                *self.failed_write.lock() = None;
                self.write_breaker.forget_failures();
                if self.read_breaker.record_failure(Instant::now()) {
                    tracing::warn!(why, "the store does not answer; going on from memory alone");
                }
                None
            }
        }
    }

    /// Writes to the durable store, unless it is unavailable or has refused several writes. Returns
    /// `None` if the write is not known to be done.
    ///
    /// Only reads probe whether the store is back. Every request has one, and each pause lets one
    /// call through, which a refused write would use up.
    pub(super) async fn guarded_write<T>(
        &self,
        within: Duration,
        call: impl Future<Output = Answer<T>>,
    ) -> Option<T> {
        if self.read_breaker.is_open() || !self.write_breaker.allows_call() {
            self.metrics.durable_store.add(DurableStoreOutcome::Spared);
            return None;
        }
        match self.count_outcome(timeout(within, call).await) {
            Ok(done) => {
                *self.failed_write.lock() = None;
                if self.write_breaker.record_success() {
                    tracing::info!("the store takes writes again");
                }
                Some(done)
            }
            Err(Unavailable(why)) => {
                *self.failed_write.lock() = Some((why, Instant::now()));
                None
            }
        }
    }

    /// Counts the outcome of a call, and turns a timeout into an error.
    fn count_outcome<T>(&self, ended: Result<Answer<T>, Elapsed>) -> Answer<T> {
        let (how, answer) = match ended {
            Ok(Ok(answer)) => (DurableStoreOutcome::Answered, Ok(answer)),
            Ok(Err(unavailable)) => (DurableStoreOutcome::Failed, Err(unavailable)),
            Err(_) => (DurableStoreOutcome::Late, Err(TIMED_OUT)),
        };
        self.metrics.durable_store.add(how);
        answer
    }

    /// Writes changes, and waits until they are written or given up. Then merges the resulting records
    /// into memory.
    pub(super) async fn write(&self, wanted: &[(RecordKey, Vec<PendingChange>)]) {
        let mut writes = Vec::with_capacity(wanted.len());
        for (key, wanted) in wanted {
            let mut changes = Vec::with_capacity(wanted.len());
            for one in wanted {
                changes.extend(self.prepare_change(*key, one).await);
            }
            if !changes.is_empty() {
                writes.push(EntryWrite { key: *key, changes });
            }
        }
        if writes.is_empty() {
            return;
        }
        let Some(winners) =
            self.guarded_write(self.write_timeout(), self.durable.write(&writes)).await
        else {
            return;
        };
        for (write, winner) in writes.iter().zip(winners) {
            if let WriteResult { record: Some(sealed), adopted } = winner {
                // A record adopted here was written as adopted, or will be after its next read.
                _ = self.merge_record(write.key, &sealed, adopted);
            }
        }
    }

    /// Whether the durable store may have facts about a model that memory lacks.
    fn may_have_newer_facts(&self, model: RecordKey) -> bool {
        self.durable.is_shared() || self.model_facts.sync_state(model) == SyncState::Incomplete
    }

    /// Reads the facts about a model from `entry`, which is stored under the model's own key.
    /// Returns `None` if they cannot be read.
    fn read_model_facts(&self, model: RecordKey, entry: Option<StoredEntry>) -> Option<ModelFacts> {
        let notes = entry.map(|entry| entry.notes).unwrap_or_default();
        match notes.iter().find(|(name, _)| *name == MODEL_FACTS) {
            Some((_, sealed)) => self.sealer.open(model, sealed),
            None => Some(ModelFacts::default()),
        }
    }

    /// Builds the change that stores the facts about a model. Reads and merges the stored facts
    /// first: this process may have read them too early, or failed to.
    ///
    /// Returns `None` if the store lacks nothing. If the stored facts cannot be read now, they stay
    /// unchanged until the model's next request.
    async fn model_facts_change(&self, model: RecordKey) -> Option<Change> {
        let there = self.guarded_read(self.write_timeout(), self.durable.read(&[model])).await?;
        let theirs = self.read_model_facts(model, there.into_iter().next().flatten());
        match self.model_facts.merge_durable(model, theirs.unwrap_or_default()) {
            SyncState::Synced => None,
            SyncState::Incomplete => {
                let sealed = self.sealer.seal(model, &self.model_facts.get(model))?;
                Some(Change::Note(MODEL_FACTS, sealed))
            }
        }
    }

    async fn read(&self, keys: &[RecordKey]) -> Answer<Vec<Option<StoredEntry>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.durable.read(keys).await
    }

    async fn prepare_change(&self, key: RecordKey, wanted: &PendingChange) -> Option<Change> {
        Some(match wanted {
            PendingChange::Change(change) => change.clone(),
            PendingChange::ModelFacts => return self.model_facts_change(key).await,
            PendingChange::Record(record) => Change::Record(self.sealer.seal(key, &**record)?),
        })
    }

    fn merge_record(&self, key: RecordKey, sealed: &Bytes, adopted: bool) -> MergeOutcome {
        let Some(check) = read_tag(sealed) else {
            return MergeOutcome::Unreadable;
        };
        self.memory.merge_record(key, check, adopted, || self.sealer.open(key, sealed))
    }

    /// Returns the changes that offer the local record to a durable store without one.
    fn local_record_changes(&self, key: RecordKey) -> Vec<PendingChange> {
        let kept = self.memory.records.get(&key);
        kept.map_or_else(Vec::new, |kept| record_changes(&kept, true))
    }
}

/// Returns the changes that store the adoption mark of `kept`, after the record itself if `is_offered`.
fn record_changes(kept: &CachedRecord, is_offered: bool) -> Vec<PendingChange> {
    let record = is_offered.then(|| PendingChange::Record(Arc::clone(&kept.record)));
    let mark = PendingChange::Change(Change::Adopted);
    let mark = kept.is_adopted.then_some(mark);
    record.into_iter().chain(mark).collect()
}
