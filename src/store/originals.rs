//! Originals for recall: the history that cleared results and summaries replace, kept by ID within
//! separate bounds.
//!
//! Originals never share a queue, a file or a connection with records, so they delay no request. Without
//! a durable store they are in memory.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::format::RecordSealer;
use super::tiered::WRITE_TIMEOUT;
use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::FairCache;
use crate::config::StoreConfig;
use crate::store::durable::{Answer, Change, DurableStore, EntryWrite, Unavailable};
use longhaul_core::planning::originals::Originals;
use longhaul_core::units::recall_id::RecallId;

/// Bytes of request bodies whose originals wait to be kept. Further ones wait for a later request, which
/// has the same history.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Bytes of an original without its text: keys, and the bookkeeping of the cache.
const ENTRY_OVERHEAD_BYTES: u64 = 256;
/// Number of IDs that are known to be kept. One that is forgotten is kept once more.
const MAX_KNOWN: u64 = 65_536;
/// Time after which a known original is kept once more, which renews its lifetime. At most half of the
/// lifetime.
const RENEW_AFTER: Duration = Duration::from_hours(6);
/// Number of originals in one write or read of a durable store.
const BATCH: usize = 64;
/// Bytes of text after which a write is full: a slow server takes them within the time of a write.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Maximum number of units in an outline; the oldest are left out.
const MAX_OUTLINED: usize = 16_384;
/// Time that a reader waits for originals of requests that were just answered.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Original {
    pub(crate) outline: RecallId,
    pub(crate) content: OriginalContent,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum OriginalContent {
    /// The units of a conversation: ID and title of each.
    Outline(Vec<(RecallId, String)>),
    /// Bytes of a unit's text: a result.
    Slice(RecallId, usize, usize),
    Text(String),
    /// The units that a segment replaces.
    Units(Vec<RecallId>),
}

pub(crate) struct OriginalStore {
    sealer: Arc<RecordSealer>,
    place: Place,
    /// IDs that are kept in a durable store, and when each was written.
    known: FairCache<RecallId, Instant>,
    /// Time after which a known original is written once more.
    renew_after: Duration,
    /// Bytes of bodies whose originals are being kept, and the number of these bodies.
    waiting: watch::Sender<(usize, usize)>,
}

enum Place {
    Durable(DurableStore),
    Memory(Box<FairCache<RecallId, Arc<Original>>>),
}

/// Right to keep the originals of one body. Ends when dropped.
pub(crate) struct KeepPermit {
    store: Arc<OriginalStore>,
    bytes: usize,
}

impl Drop for KeepPermit {
    fn drop(&mut self) {
        self.store.waiting.send_modify(|(bytes, bodies)| {
            *bytes -= self.bytes;
            *bodies -= 1;
        });
    }
}

impl OriginalStore {
    /// Opens the store of the settings, with the secret of the records.
    pub(super) fn new(
        config: &StoreConfig,
        durable: Option<DurableStore>,
        sealer: Arc<RecordSealer>,
        accepted: &Arc<AcceptedCallers>,
    ) -> Self {
        let place = if let Some(durable) = durable {
            Place::Durable(durable)
        } else {
            let (bytes, idle) = (config.recall_max_bytes, config.recall_ttl);
            let cache = FairCache::new(bytes, idle, |it: &Arc<Original>| weight(it), accepted);
            Place::Memory(Box::new(cache))
        };
        let renew_after = RENEW_AFTER.min(config.recall_ttl / 2);
        Self {
            sealer,
            place,
            known: FairCache::of_entries(MAX_KNOWN, renew_after, accepted),
            renew_after,
            waiting: watch::Sender::default(),
        }
    }

    /// Whether this process has recorded all of these originals as kept.
    pub(crate) fn knows_all(&self, ids: impl IntoIterator<Item = RecallId>) -> bool {
        ids.into_iter().all(|id| self.knows(id))
    }

    fn knows(&self, id: RecallId) -> bool {
        match &self.place {
            Place::Durable(_) => {
                let written_at = self.known.get(&id);
                written_at.is_some_and(|at| at.elapsed() < self.renew_after)
            }
            Place::Memory(cache) => touch(cache, id),
        }
    }

    /// Returns the right to keep the originals of a body of `bytes`, or `None` if too many wait.
    pub(crate) fn permit(self: &Arc<Self>, bytes: usize) -> Option<KeepPermit> {
        let mut granted = false;
        self.waiting.send_modify(|(held, bodies)| {
            granted = *bodies == 0 || *held + bytes <= MAX_WAITING_BYTES;
            if granted {
                *held += bytes;
                *bodies += 1;
            }
        });
        granted.then(|| KeepPermit { store: Arc::clone(self), bytes })
    }

    /// Keeps the originals of a request. Returns whether all are kept now.
    pub(crate) async fn keep(&self, originals: Originals) -> bool {
        let outline = originals.outline;
        let newest = originals.units.len().saturating_sub(MAX_OUTLINED);
        let outlined = originals.units.iter().skip(newest);
        let titles = outlined.map(|unit| (unit.id, unit.title.clone())).collect();
        let unit_ids: Vec<RecallId> = originals.units.iter().map(|unit| unit.id).collect();
        let units = originals.units.into_iter();
        let units = units.map(|unit| (unit.id, OriginalContent::Text(unit.text)));
        let results = originals.results.into_iter().filter_map(|(id, unit, range)| {
            let unit = unit_ids.get(unit)?;
            Some((id, OriginalContent::Slice(*unit, range.start, range.end)))
        });
        let segments = originals.segments.into_iter().filter_map(|(id, range)| {
            Some((id, OriginalContent::Units(unit_ids.get(range)?.to_vec())))
        });
        // Texts come first: what refers to a text is never there without it.
        let mut batch = Vec::with_capacity(BATCH);
        let (mut are_kept, mut bytes) = (true, 0);
        let mut all = units.chain(results).chain(segments);
        loop {
            let next = all.by_ref().find(|(id, _)| !self.knows(*id));
            let is_last = next.is_none();
            if let Some((_, OriginalContent::Text(text))) = &next {
                bytes += text.len();
            }
            batch.extend(next.map(|(id, content)| (id, Original { outline, content })));
            if is_last || batch.len() == BATCH || bytes >= MAX_BATCH_BYTES {
                bytes = 0;
                are_kept &= self.put(std::mem::take(&mut batch)).await;
            }
            if is_last {
                break;
            }
        }
        drop(all);
        let content = OriginalContent::Outline(titles);
        are_kept && self.replace_outline(outline, Original { outline, content }).await
    }

    /// Stores new originals. Returns whether they are stored.
    async fn put(&self, batch: Vec<(RecallId, Original)>) -> bool {
        match &self.place {
            Place::Memory(cache) => {
                for (id, original) in batch {
                    cache.insert(id, Arc::new(original));
                }
                true
            }
            Place::Durable(durable) => {
                let sealed = batch.into_iter().filter_map(|(id, original)| {
                    let key = id.record_key();
                    let changes = vec![Change::Record(self.sealer.seal(key, &original)?)];
                    Some((id, EntryWrite { key, changes }))
                });
                let (ids, writes): (Vec<RecallId>, Vec<EntryWrite>) = sealed.unzip();
                let is_written = writes.is_empty() || write(durable, &writes).await;
                for id in ids.into_iter().filter(|_| is_written) {
                    self.known.insert(id, Instant::now());
                }
                is_written
            }
        }
    }

    /// Replaces the outline of a conversation, if it changed. Of two processes at once, one may lose: its
    /// next request repairs that.
    async fn replace_outline(&self, id: RecallId, outline: Original) -> bool {
        let durable = match &self.place {
            Place::Memory(cache) => {
                cache.insert(id, Arc::new(outline));
                return true;
            }
            Place::Durable(durable) => durable,
        };
        let key = id.record_key();
        let Ok(Ok(found)) = timeout(WRITE_TIMEOUT, durable.read(&[key])).await else {
            return false;
        };
        let before = found.into_iter().next().flatten();
        let before = before.and_then(|entry| entry.record);
        if before
            .as_ref()
            .is_some_and(|sealed| self.sealer.open(key, sealed).as_ref() == Some(&outline))
        {
            return true;
        }
        let Some(sealed) = self.sealer.seal(key, &outline) else {
            return false;
        };
        let discard = before.map(Change::Discard);
        let changes = discard.into_iter().chain([Change::Record(sealed)]);
        let changes = changes.collect();
        write(durable, &[EntryWrite { key, changes }]).await
    }

    /// Reads originals, in the order of `ids`. `None` for an unknown or expired one. Fails if the
    /// durable store does not answer in time.
    pub(crate) async fn read(&self, ids: &[RecallId]) -> Answer<Vec<Option<Arc<Original>>>> {
        let durable = match &self.place {
            Place::Memory(cache) => return Ok(ids.iter().map(|id| cache.get(id)).collect()),
            Place::Durable(durable) => durable,
        };
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.chunks(BATCH) {
            let keys: Vec<_> = ids.iter().map(|id| id.record_key()).collect();
            let entries = timeout(WRITE_TIMEOUT, durable.read(&keys)).await;
            let entries = entries.map_err(|_| Unavailable("no answer in time"))??;
            found.extend(keys.into_iter().zip(entries).map(|(key, entry)| {
                let sealed = entry?.record?;
                self.sealer.open(key, &sealed).map(Arc::new)
            }));
        }
        Ok(found)
    }

    /// Waits until the originals of all answered requests are kept, at most [`SETTLE_TIMEOUT`].
    pub(crate) async fn settled(&self) {
        let mut waiting = self.waiting.subscribe();
        let idle = waiting.wait_for(|(_, bodies)| *bodies == 0);
        _ = timeout(SETTLE_TIMEOUT, idle).await;
    }

    pub(super) async fn close(&self) {
        self.settled().await;
        if let Place::Durable(durable) = &self.place {
            durable.close().await;
        }
    }
}

/// Returns whether the writes are done in time.
async fn write(durable: &DurableStore, writes: &[EntryWrite]) -> bool {
    let written = timeout(WRITE_TIMEOUT, durable.write(writes)).await;
    matches!(written, Ok(Ok(_)))
}

/// Counts a use of an original. Returns whether the original is there.
fn touch(cache: &FairCache<RecallId, Arc<Original>>, id: RecallId) -> bool {
    let Some(original) = cache.get(&id) else {
        return false;
    };
    // An original is there only with the units that it refers to.
    let is_there = |unit: &RecallId| cache.get(unit).is_some();
    match &original.content {
        OriginalContent::Outline(_) | OriginalContent::Text(_) => true,
        OriginalContent::Slice(unit, ..) => is_there(unit),
        OriginalContent::Units(units) => units.iter().all(is_there),
    }
}

fn weight(original: &Original) -> u64 {
    let id = size_of::<RecallId>();
    let bytes = match &original.content {
        OriginalContent::Outline(units) => {
            units.iter().map(|(_, title)| id + title.len() + size_of::<String>()).sum()
        }
        OriginalContent::Slice(..) => id,
        OriginalContent::Text(text) => text.len(),
        OriginalContent::Units(units) => units.len() * id,
    };
    ENTRY_OVERHEAD_BYTES + u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
