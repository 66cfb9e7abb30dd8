//! Inspection of the store for `longhaul store`: entries by scope, never the text of conversations.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;

use super::file::originals_path;
use super::originals::Original;
use super::{Kept, open_durable, secret};
use crate::config::{StoreConfig, StoreLocation};
use crate::error::Problem;
use crate::store::durable::{Answer, DurableStore, ListedEntry};
use crate::store::file::Intent;
use crate::store::format::RecordSealer;
use longhaul_core::policy::record::CompactionRecord;
use longhaul_core::units::scope::ScopeTag;

/// Timeout of a call. An operator waits for its result.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct StoreInspector {
    durable: DurableStore,
    /// File of originals, if there is one. At a server, originals are among the records.
    originals: Option<DurableStore>,
    sealer: RecordSealer,
}

/// A record without its texts.
#[derive(Debug)]
pub(crate) struct RecordListing {
    pub(crate) scope: ScopeTag,
    /// `None` if this version, or this secret, cannot read the record.
    pub(crate) record: Option<CompactionRecord>,
    pub(crate) adopted: bool,
    pub(crate) bytes: usize,
    /// Time since the last use, if known.
    pub(crate) idle: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScopeStats {
    pub(crate) entries: u64,
    pub(crate) records: u64,
    pub(crate) adopted: u64,
    pub(crate) originals: u64,
    pub(crate) bytes: u64,
}

impl StoreInspector {
    /// Opens the store of the settings. A missing store is not created. Fails if the settings name
    /// no durable store, or it cannot be used.
    pub(crate) fn open(config: &StoreConfig) -> Result<Self, Problem> {
        let (far, own) = open_durable(config, Kept::Records, Intent::Inspect)?;
        let far = far.ok_or_else(|| {
            Problem::Store(
                "store.at is memory, which does not outlive its process; name the store with \
                 --store file:PATH or redis://HOST:PORT"
                    .into(),
            )
        })?;
        let originals = match &config.location {
            StoreLocation::File(path) if originals_path(path).exists() => {
                open_durable(config, Kept::Originals, Intent::Inspect)?.0
            }
            StoreLocation::File(_) | StoreLocation::Memory | StoreLocation::Redis(_) => None,
        };
        let sealer = RecordSealer::new(&secret::choose(config, own)?);
        Ok(Self { originals, durable: far, sealer })
    }

    /// Lists all records, or those of one scope, the most recently used first.
    pub(crate) async fn list(
        &self,
        scope: Option<ScopeTag>,
    ) -> Result<Vec<RecordListing>, Problem> {
        let mut lines = Vec::new();
        let mut add = |listed: ListedEntry| {
            if let Some(sealed) = &listed.entry.record
                && self.original(&listed).is_none()
            {
                lines.push(RecordListing {
                    scope: listed.key.scope(),
                    record: self.sealer.open(listed.key, sealed),
                    adopted: listed.entry.adopted,
                    bytes: sealed.len(),
                    idle: listed.idle,
                });
            }
        };
        await_answer(self.durable.for_each_entry(scope, &mut add)).await?;
        // The texts of a record are not needed once the rest is read.
        for record in lines.iter_mut().filter_map(|line| line.record.as_mut()) {
            (record.text, record.summary, record.previous_summary) = (None, None, None);
            record.provider = None;
        }
        lines.sort_by_key(|line| (line.idle, line.scope));
        Ok(lines)
    }

    pub(crate) async fn stats(
        &self,
        scope: Option<ScopeTag>,
    ) -> Result<BTreeMap<ScopeTag, ScopeStats>, Problem> {
        let mut scopes: BTreeMap<ScopeTag, ScopeStats> = BTreeMap::new();
        let mut add = |listed: ListedEntry| {
            let stats = scopes.entry(listed.key.scope()).or_default();
            stats.entries += 1;
            if let Some(sealed) = &listed.entry.record {
                let is_original = self.original(&listed).is_some();
                stats.originals += u64::from(is_original);
                stats.records += u64::from(!is_original);
                stats.adopted += u64::from(listed.entry.adopted);
                stats.bytes += sealed.len() as u64;
            }
        };
        for store in self.stores() {
            await_answer(store.for_each_entry(scope, &mut add)).await?;
        }
        Ok(scopes)
    }

    /// Removes every entry, or those of one scope. Returns how many.
    pub(crate) async fn purge(&self, scope: Option<ScopeTag>) -> Result<u64, Problem> {
        let mut purged = 0;
        for store in self.stores() {
            purged += await_answer(store.purge(scope)).await?;
        }
        Ok(purged)
    }

    fn stores(&self) -> impl Iterator<Item = &DurableStore> {
        [&self.durable].into_iter().chain(&self.originals)
    }

    fn original(&self, listed: &ListedEntry) -> Option<Original> {
        self.sealer.open(listed.key, listed.entry.record.as_ref()?)
    }

    pub(crate) async fn close(&self) {
        for store in self.stores() {
            store.close().await;
        }
    }
}

async fn await_answer<T>(call: impl Future<Output = Answer<T>>) -> Result<T, Problem> {
    let why = match timeout(CALL_TIMEOUT, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(unavailable)) => unavailable.0,
        Err(_) => "no answer in time",
    };
    Err(Problem::Store(format!("the store does not answer: {why}")))
}
