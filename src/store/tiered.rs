//! Memory in front of a far tier: what is asked of it, how long that may take, and who is right
//! where the two differ.
//!
//! The far tier is. A record that only this process has is provisional and is offered until the far
//! tier has said whose it keeps. That costs a conversation at most one break of its prefix, after
//! which every replica forwards the same bytes; each keeping its own would break it at every turn.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::breaker::{BreakerTransition, ReadBreaker};
use super::far::{Change, DurableStore, EntryWrite, NoteName, StoredEntry, Unavailable, Winner};
use super::format::{RecordSealer, read_tag};
use super::lore::ModelFacts;
use super::near::{CachedRecord, MemoryStore, MergeOutcome};
use super::queue::{StoreJob, WriteQueue};
use super::taught::{ModelFactsCache, SyncState};
use super::writes::WriteBreaker;
use crate::metrics::{DurableStoreOutcome, Metrics};
use crate::rewrite::chain::{PrefixKeys, RecordKey};
use crate::rewrite::record::CompactionRecord;

/// How long a write behind a request's back may take. A disk that is busy takes a second.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// What did not answer within its time.
const TIMED_OUT: Unavailable = Unavailable {
    why: "no answer in time",
};
/// The name of the one note under a model's own key.
const MODEL_FACTS: NoteName = NoteName(*b"\0learned");

/// A far tier and the memory in front of it.
pub(super) struct TieredStore {
    pub(super) inner: Arc<TieredInner>,
    pub(super) queue: WriteQueue,
}

/// What requests share with the queue's own task.
pub(super) struct TieredInner {
    pub(super) durable: DurableStore,
    pub(super) memory: Arc<MemoryStore>,
    pub(super) sealer: Arc<RecordSealer>,
    /// How long a request waits for the far tier, in all.
    pub(super) wait: Duration,
    read_breaker: ReadBreaker,
    write_breaker: WriteBreaker,
    metrics: Arc<Metrics>,
    model_facts: ModelFactsCache,
}

/// Something to be written.
#[derive(Clone, Debug)]
pub(super) enum PendingChange {
    /// This, as it is.
    Change(Change),
    /// What is known of a model by then, with what is there.
    ModelFacts,
    /// A record, unless one is there. It is sealed when it is written.
    Record(Arc<CompactionRecord>),
}

impl TieredStore {
    /// `near` in front of `far`, which a request waits for as long as this.
    pub(super) fn new(
        (far, wait): (DurableStore, Duration),
        near: Arc<MemoryStore>,
        seal: Arc<RecordSealer>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let inner = Arc::new(TieredInner {
            durable: far,
            memory: near,
            sealer: seal,
            wait,
            read_breaker: ReadBreaker::default(),
            write_breaker: WriteBreaker::default(),
            metrics: Arc::clone(metrics),
            model_facts: ModelFactsCache::default(),
        });
        Self {
            queue: WriteQueue::new(&inner),
            inner,
        }
    }

    /// Brings memory up to date with what the far tier has of a conversation, and of the model whose
    /// own key is `model`: what is known of that by then.
    pub(super) async fn refresh(&self, chains: &PrefixKeys, model: RecordKey) -> ModelFacts {
        let inner = &*self.inner;
        let keys = inner.memory.keys_to_refresh(chains);
        let of_model = if inner.may_have_newer_facts(model) {
            &[model][..]
        } else {
            &[]
        };
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

    /// Brings memory up to date with what the far tier has of one prefix; says whether a record is
    /// there.
    pub(super) async fn refresh_prefix(&self, key: RecordKey) -> bool {
        let entries = self
            .inner
            .guarded_read(self.inner.wait, self.inner.read(&[key]))
            .await;
        let Some(entry) = entries.and_then(|entries| entries.into_iter().next()?) else {
            return false;
        };
        self.merge_entry(key, Some(entry));
        self.inner.memory.get(key).is_some()
    }

    /// Has something written behind the request's back.
    pub(super) fn queue_write(&self, key: RecordKey, wanted: Vec<PendingChange>) {
        if !self.queue.try_push(StoreJob::Write(key, wanted)) {
            self.inner
                .metrics
                .durable_store
                .add(DurableStoreOutcome::Dropped);
        }
    }

    /// Has a record written that is kept here, and what is known of it here.
    pub(super) fn queue_record(&self, key: RecordKey, kept: &CachedRecord) {
        let mut wanted = Vec::with_capacity(2);
        if !kept.is_confirmed() {
            wanted.push(PendingChange::Record(Arc::clone(&kept.record)));
        }
        if kept.is_adopted() {
            wanted.push(PendingChange::Change(Change::Adopted));
        }
        if !wanted.is_empty() {
            self.queue_write(key, wanted);
        }
    }

    /// Has something written and waits until it is, or until that is given up.
    pub(super) async fn write_through(&self, key: RecordKey, wanted: Vec<PendingChange>) {
        self.inner.write(&[(key, wanted)]).await;
    }

    /// Remembers what this process has learned of the model with this key, and has it written where
    /// it is new.
    pub(super) fn publish_model_facts(&self, model: RecordKey, lore: ModelFacts) {
        if self.inner.model_facts.merge_learned(model, lore) == SyncState::Incomplete {
            self.queue_write(model, vec![PendingChange::ModelFacts]);
        }
    }

    /// The far tier has this under a key.
    fn merge_entry(&self, key: RecordKey, entry: Option<StoredEntry>) {
        let inner = &*self.inner;
        let entry = entry.unwrap_or_default();
        let mut wanted = Vec::new();
        match &entry.record {
            Some(sealed) => match inner.merge_record(key, sealed, entry.adopted) {
                MergeOutcome::AdoptedHereOnly => {
                    wanted.push(PendingChange::Change(Change::Adopted))
                }
                MergeOutcome::Merged => {}
                MergeOutcome::Unreadable => {
                    inner
                        .metrics
                        .durable_store
                        .add(DurableStoreOutcome::Unreadable);
                    wanted.push(PendingChange::Change(Change::Discard(sealed.clone())));
                    wanted.extend(inner.local_record_changes(key));
                }
            },
            None => wanted.extend(inner.local_record_changes(key)),
        }
        if entry.seen {
            inner.memory.mark_seen(key);
        }
        if entry.refused {
            inner.memory.record_remote_refusal(key);
        } else if inner.memory.is_refused_at(key) {
            wanted.push(PendingChange::Change(Change::Refused));
        }
        for (name, sealed) in entry.notes {
            if let Some(counted) = inner.sealer.open(key, &sealed) {
                inner.memory.counts.insert(key, name, counted);
            }
        }
        if !wanted.is_empty() {
            self.queue_write(key, wanted);
        }
    }
}

impl TieredInner {
    /// Whether it is asked, as far as the last calls tell.
    pub(super) fn is_away(&self) -> bool {
        self.read_breaker.is_open()
    }

    /// Asks the far tier for what it has, unless it has just failed several times. `None` is a miss.
    pub(super) async fn guarded_read<T>(
        &self,
        within: Duration,
        call: impl Future<Output = Result<T, Unavailable>>,
    ) -> Option<T> {
        if !self.read_breaker.allows_call() {
            self.metrics.durable_store.add(DurableStoreOutcome::Spared);
            return None;
        }
        match self.count_outcome(timeout(within, call).await) {
            Ok(answer) => {
                if self.read_breaker.record_success() == BreakerTransition::Recovered {
                    tracing::info!("the store answers again and is used again");
                }
                if let Some(why) = self.write_breaker.record_read_success() {
                    tracing::warn!(
                        why,
                        "the store answers and takes no writes; what is new is kept in memory alone"
                    );
                }
                Some(answer)
            }
            Err(Unavailable { why }) => {
                self.write_breaker.record_read_failure();
                if self.read_breaker.record_failure() == BreakerTransition::Opened {
                    tracing::warn!(why, "the store does not answer; going on from memory alone");
                }
                None
            }
        }
    }

    /// Has the far tier change something, unless it is away or has refused that several times. `None`
    /// if it is not known to be done.
    ///
    /// Only questions find out whether it is back: every request has one, and each pause lets one
    /// call through, which a write that is refused would use up.
    pub(super) async fn guarded_write<T>(
        &self,
        within: Duration,
        call: impl Future<Output = Result<T, Unavailable>>,
    ) -> Option<T> {
        if self.read_breaker.is_open() || !self.write_breaker.allows_call() {
            self.metrics.durable_store.add(DurableStoreOutcome::Spared);
            return None;
        }
        match self.count_outcome(timeout(within, call).await) {
            Ok(done) => {
                if self.write_breaker.record_success() {
                    tracing::info!("the store takes writes again");
                }
                Some(done)
            }
            Err(Unavailable { why }) => {
                self.write_breaker.record_failure(why);
                None
            }
        }
    }

    /// What came of a call within its time, counted.
    fn count_outcome<T>(
        &self,
        ended: Result<Result<T, Unavailable>, Elapsed>,
    ) -> Result<T, Unavailable> {
        let (how, answer) = match ended {
            Ok(Ok(answer)) => (DurableStoreOutcome::Answered, Ok(answer)),
            Ok(Err(unavailable)) => (DurableStoreOutcome::Failed, Err(unavailable)),
            Err(_) => (DurableStoreOutcome::Late, Err(TIMED_OUT)),
        };
        self.metrics.durable_store.add(how);
        answer
    }

    /// Writes these, and holds what stands there then against what is here.
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
        let Some(winners) = self
            .guarded_write(WRITE_TIMEOUT, self.durable.write(&writes))
            .await
        else {
            return;
        };
        for (write, winner) in writes.iter().zip(winners) {
            if let Winner {
                record: Some(sealed),
                adopted,
            } = winner
            {
                // What was adopted here was written as adopted, or is when it is read next.
                _ = self.merge_record(write.key, &sealed, adopted);
            }
        }
    }

    /// Whether the far tier may know something of a model that is not known here.
    fn may_have_newer_facts(&self, model: RecordKey) -> bool {
        self.durable.is_shared() || self.model_facts.sync_state(model) == SyncState::Incomplete
    }

    /// What `entry` says of the model whose own key it stands under; none if it cannot be read.
    fn read_model_facts(&self, model: RecordKey, entry: Option<StoredEntry>) -> Option<ModelFacts> {
        let notes = entry.map(|entry| entry.notes).unwrap_or_default();
        match notes.iter().find(|(name, _)| *name == MODEL_FACTS) {
            Some((_, sealed)) => self.sealer.open(model, sealed),
            None => Some(ModelFacts::default()),
        }
    }

    /// The note on a model, with what it says already: that may be what this process asked for too
    /// early, or in vain. Where it cannot be read now it stays as it is until the model's next
    /// request.
    async fn model_facts_change(&self, model: RecordKey) -> Option<Change> {
        let there = self
            .guarded_read(WRITE_TIMEOUT, self.durable.read(&[model]))
            .await?;
        let theirs = self.read_model_facts(model, there.into_iter().next().flatten());
        match self
            .model_facts
            .merge_durable(model, theirs.unwrap_or_default())
        {
            SyncState::Synced => None,
            SyncState::Incomplete => {
                let sealed = self.sealer.seal(model, &self.model_facts.get(model))?;
                Some(Change::Note(MODEL_FACTS, sealed))
            }
        }
    }

    async fn read(&self, keys: &[RecordKey]) -> Result<Vec<Option<StoredEntry>>, Unavailable> {
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
        self.memory
            .merge_record(key, check, adopted, || self.sealer.open(key, sealed))
    }

    /// What is offered to the far tier where it has no record: the one that is kept here.
    fn local_record_changes(&self, key: RecordKey) -> Vec<PendingChange> {
        let Some(kept) = self.memory.get(key) else {
            return Vec::new();
        };
        let mut offers = vec![PendingChange::Record(Arc::clone(&kept.record))];
        if kept.is_adopted() {
            offers.push(PendingChange::Change(Change::Adopted));
        }
        offers
    }
}
