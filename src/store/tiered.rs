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

use super::breaker::{Breaker, Turned};
use super::far::{Change, Entry, Far, NoteName, Unavailable, Winner, Write};
use super::format::{Seal, check_of};
use super::lore::Lore;
use super::near::{Kept, Near, Settled};
use super::queue::{Job, Queue};
use super::taught::{Taught, There};
use super::writes::Writes;
use crate::metrics::{FarStore, Metrics};
use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::record::Record;

/// How long a write behind a request's back may take. A disk that is busy takes a second.
pub(super) const WRITE: Duration = Duration::from_secs(2);
/// What did not answer within its time.
const LATE: Unavailable = Unavailable {
    why: "no answer in time",
};
/// The name of the one note under a model's own key.
const LORE: NoteName = NoteName(*b"\0learned");

/// A far tier and the memory in front of it.
pub(super) struct Tier {
    pub(super) inner: Arc<Inner>,
    pub(super) queue: Queue,
}

/// What requests share with the queue's own task.
pub(super) struct Inner {
    pub(super) far: Far,
    pub(super) near: Arc<Near>,
    pub(super) seal: Arc<Seal>,
    /// How long a request waits for the far tier, in all.
    pub(super) wait: Duration,
    breaker: Breaker,
    writes: Writes,
    metrics: Arc<Metrics>,
    taught: Taught,
}

/// Something to be written.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// This, as it is.
    Change(Change),
    /// What is known of a model by then, with what is there.
    Lore,
    /// A record, unless one is there. It is sealed when it is written.
    Record(Arc<Record>),
}

impl Tier {
    /// `near` in front of `far`, which a request waits for as long as this.
    pub(super) fn new(
        (far, wait): (Far, Duration),
        near: Arc<Near>,
        seal: Arc<Seal>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let inner = Arc::new(Inner {
            far,
            near,
            seal,
            wait,
            breaker: Breaker::default(),
            writes: Writes::default(),
            metrics: Arc::clone(metrics),
            taught: Taught::default(),
        });
        Self {
            queue: Queue::new(&inner),
            inner,
        }
    }

    /// Brings memory up to date with what the far tier has of a conversation, and of the model whose
    /// own key is `model`: what is known of that by then.
    pub(super) async fn refresh(&self, chains: &Chains, model: RecordKey) -> Lore {
        let inner = &*self.inner;
        let keys = inner.near.open_keys(chains);
        let of_model = if inner.may_have_news(model) {
            &[model][..]
        } else {
            &[]
        };
        let both = async { tokio::try_join!(inner.read(&keys), inner.read(of_model)) };
        if let Some((entries, of_model)) = inner.ask(inner.wait, both).await {
            for (key, entry) in keys.into_iter().zip(entries) {
                self.merge(key, entry);
            }
            let theirs = of_model.into_iter().next();
            if let Some(theirs) = theirs.and_then(|entry| inner.note_on(model, entry))
                && inner.taught.hear(model, theirs) == There::Wanting
            {
                self.write(model, vec![Wanted::Lore]);
            }
        }
        inner.taught.of(model)
    }

    /// Brings memory up to date with what the far tier has of one prefix; says whether a record is
    /// there.
    pub(super) async fn arrived(&self, key: RecordKey) -> bool {
        let entries = self
            .inner
            .ask(self.inner.wait, self.inner.read(&[key]))
            .await;
        let Some(entry) = entries.and_then(|entries| entries.into_iter().next()?) else {
            return false;
        };
        self.merge(key, Some(entry));
        self.inner.near.get(key).is_some()
    }

    /// Has something written behind the request's back.
    pub(super) fn write(&self, key: RecordKey, wanted: Vec<Wanted>) {
        if !self.queue.put(Job::Write(key, wanted)) {
            self.inner.metrics.far_store.add(FarStore::Dropped);
        }
    }

    /// Has a record written that is kept here, and what is known of it here.
    pub(super) fn write_record(&self, key: RecordKey, kept: &Kept) {
        let mut wanted = Vec::with_capacity(2);
        if !kept.is_settled() {
            wanted.push(Wanted::Record(Arc::clone(&kept.record)));
        }
        if kept.is_adopted() {
            wanted.push(Wanted::Change(Change::Adopted));
        }
        if !wanted.is_empty() {
            self.write(key, wanted);
        }
    }

    /// Has something written and waits until it is, or until that is given up.
    pub(super) async fn write_through(&self, key: RecordKey, wanted: Vec<Wanted>) {
        self.inner.write(&[(key, wanted)]).await;
    }

    /// Remembers what this process has learned of the model with this key, and has it written where
    /// it is new.
    pub(super) fn learned(&self, model: RecordKey, lore: Lore) {
        if self.inner.taught.learn(model, lore) == There::Wanting {
            self.write(model, vec![Wanted::Lore]);
        }
    }

    /// The far tier has this under a key.
    fn merge(&self, key: RecordKey, entry: Option<Entry>) {
        let inner = &*self.inner;
        let entry = entry.unwrap_or_default();
        let mut wanted = Vec::new();
        match &entry.record {
            Some(sealed) => match inner.settle(key, sealed, entry.adopted) {
                Settled::Adopt => wanted.push(Wanted::Change(Change::Adopted)),
                Settled::Done => {}
                Settled::Unreadable => {
                    inner.metrics.far_store.add(FarStore::Unreadable);
                    wanted.push(Wanted::Change(Change::Discard(sealed.clone())));
                    wanted.extend(inner.offers(key));
                }
            },
            None => wanted.extend(inner.offers(key)),
        }
        if entry.met {
            inner.near.met(key);
        }
        if entry.refused {
            inner.near.hear_of_refusal(key);
        } else if inner.near.is_refused_at(key) {
            wanted.push(Wanted::Change(Change::Refused));
        }
        for (name, sealed) in entry.notes {
            if let Some(counted) = inner.seal.open(key, &sealed) {
                inner.near.counts.keep(key, name, counted);
            }
        }
        if !wanted.is_empty() {
            self.write(key, wanted);
        }
    }
}

impl Inner {
    /// Whether it is asked, as far as the last calls tell.
    pub(super) fn is_away(&self) -> bool {
        self.breaker.is_open()
    }

    /// Asks the far tier for what it has, unless it has just failed several times. `None` is a miss.
    pub(super) async fn ask<T>(
        &self,
        within: Duration,
        call: impl Future<Output = Result<T, Unavailable>>,
    ) -> Option<T> {
        if !self.breaker.lets_through() {
            self.metrics.far_store.add(FarStore::Spared);
            return None;
        }
        match self.counted(timeout(within, call).await) {
            Ok(answer) => {
                if self.breaker.answered() == Turned::Back {
                    tracing::info!("the store answers again and is used again");
                }
                if let Some(why) = self.writes.answered() {
                    tracing::warn!(
                        why,
                        "the store answers and takes no writes; what is new is kept in memory alone"
                    );
                }
                Some(answer)
            }
            Err(Unavailable { why }) => {
                self.writes.unanswered();
                if self.breaker.failed() == Turned::Off {
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
    pub(super) async fn modify<T>(
        &self,
        within: Duration,
        call: impl Future<Output = Result<T, Unavailable>>,
    ) -> Option<T> {
        if self.breaker.is_open() || !self.writes.lets_through() {
            self.metrics.far_store.add(FarStore::Spared);
            return None;
        }
        match self.counted(timeout(within, call).await) {
            Ok(done) => {
                if self.writes.kept() {
                    tracing::info!("the store takes writes again");
                }
                Some(done)
            }
            Err(Unavailable { why }) => {
                self.writes.failed(why);
                None
            }
        }
    }

    /// What came of a call within its time, counted.
    fn counted<T>(&self, ended: Result<Result<T, Unavailable>, Elapsed>) -> Result<T, Unavailable> {
        let (how, answer) = match ended {
            Ok(Ok(answer)) => (FarStore::Answered, Ok(answer)),
            Ok(Err(unavailable)) => (FarStore::Failed, Err(unavailable)),
            Err(_) => (FarStore::Late, Err(LATE)),
        };
        self.metrics.far_store.add(how);
        answer
    }

    /// Writes these, and holds what stands there then against what is here.
    pub(super) async fn write(&self, wanted: &[(RecordKey, Vec<Wanted>)]) {
        let mut writes = Vec::with_capacity(wanted.len());
        for (key, wanted) in wanted {
            let mut changes = Vec::with_capacity(wanted.len());
            for one in wanted {
                changes.extend(self.change(*key, one).await);
            }
            if !changes.is_empty() {
                writes.push(Write { key: *key, changes });
            }
        }
        if writes.is_empty() {
            return;
        }
        let Some(winners) = self.modify(WRITE, self.far.write(&writes)).await else {
            return;
        };
        for (write, winner) in writes.iter().zip(winners) {
            if let Winner {
                record: Some(sealed),
                adopted,
            } = winner
            {
                // What was adopted here was written as adopted, or is when it is read next.
                _ = self.settle(write.key, &sealed, adopted);
            }
        }
    }

    /// Whether the far tier may know something of a model that is not known here.
    fn may_have_news(&self, model: RecordKey) -> bool {
        self.far.is_shared() || self.taught.there(model) == There::Wanting
    }

    /// What `entry` says of the model whose own key it stands under; none if it cannot be read.
    fn note_on(&self, model: RecordKey, entry: Option<Entry>) -> Option<Lore> {
        let notes = entry.map(|entry| entry.notes).unwrap_or_default();
        match notes.iter().find(|(name, _)| *name == LORE) {
            Some((_, sealed)) => self.seal.open(model, sealed),
            None => Some(Lore::default()),
        }
    }

    /// The note on a model, with what it says already: that may be what this process asked for too
    /// early, or in vain. Where it cannot be read now it stays as it is until the model's next
    /// request.
    async fn lore(&self, model: RecordKey) -> Option<Change> {
        let there = self.ask(WRITE, self.far.read(&[model])).await?;
        let theirs = self.note_on(model, there.into_iter().next().flatten());
        match self.taught.hear(model, theirs.unwrap_or_default()) {
            There::Settled => None,
            There::Wanting => {
                let sealed = self.seal.close(model, &self.taught.of(model))?;
                Some(Change::Note(LORE, sealed))
            }
        }
    }

    async fn read(&self, keys: &[RecordKey]) -> Result<Vec<Option<Entry>>, Unavailable> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.far.read(keys).await
    }

    async fn change(&self, key: RecordKey, wanted: &Wanted) -> Option<Change> {
        Some(match wanted {
            Wanted::Change(change) => change.clone(),
            Wanted::Lore => return self.lore(key).await,
            Wanted::Record(record) => Change::Record(self.seal.close(key, &**record)?),
        })
    }

    fn settle(&self, key: RecordKey, sealed: &Bytes, adopted: bool) -> Settled {
        let Some(check) = check_of(sealed) else {
            return Settled::Unreadable;
        };
        self.near
            .settle(key, check, adopted, || self.seal.open(key, sealed))
    }

    /// What is offered to the far tier where it has no record: the one that is kept here.
    fn offers(&self, key: RecordKey) -> Vec<Wanted> {
        let Some(kept) = self.near.get(key) else {
            return Vec::new();
        };
        let mut offers = vec![Wanted::Record(Arc::clone(&kept.record))];
        if kept.is_adopted() {
            offers.push(Wanted::Change(Change::Adopted));
        }
        offers
    }
}
