//! The store as `longhaul store` shows it: what is kept of whom, and never what was said.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;

use super::far::{Far, Listed};
use super::file::Intent;
use super::format::Seal;
use super::{Opened, open};
use crate::config::StoreConfig;
use crate::error::Problem;
use crate::rewrite::chain::ScopeTag;
use crate::rewrite::record::Record;

/// How long an answer is waited for. Whoever asks sits before it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store that is looked at and not used.
pub(crate) struct Shelf {
    far: Far,
    seal: Seal,
}

/// One record, without its texts.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) scope: ScopeTag,
    /// None where this version, or this secret, cannot read it.
    pub(crate) record: Option<Record>,
    pub(crate) adopted: bool,
    pub(crate) bytes: usize,
    /// How long ago it was used last, where that is known.
    pub(crate) idle: Option<Duration>,
}

/// What is kept of one scope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    /// Prefixes of which anything is known.
    pub(crate) entries: u64,
    pub(crate) records: u64,
    pub(crate) adopted: u64,
    /// Of records.
    pub(crate) bytes: u64,
}

impl Shelf {
    /// The store of the settings, which is not made where it is not.
    ///
    /// # Errors
    /// There is none that outlives a process, or it cannot be used.
    pub(crate) fn open(config: &StoreConfig) -> Result<Self, Problem> {
        let Opened { far, secret } = open(config, Intent::Look)?;
        let far = far.ok_or_else(|| {
            Problem::Store(
                "store.at is memory, which ends with its process; name the store with --store \
                 file:PATH or redis://HOST:PORT"
                    .into(),
            )
        })?;
        Ok(Self {
            far,
            seal: Seal::new(&secret),
        })
    }

    /// Its records, or those of one scope: the last used first.
    pub(crate) async fn list(&self, scope: Option<ScopeTag>) -> Result<Vec<Line>, Problem> {
        let mut lines = Vec::new();
        let mut add = |listed: Listed| {
            if let Some(sealed) = &listed.entry.record {
                lines.push(Line {
                    scope: listed.key.scope(),
                    record: self.seal.open(listed.key, sealed),
                    adopted: listed.entry.adopted,
                    bytes: sealed.len(),
                    idle: listed.idle,
                });
            }
        };
        answered(self.far.each(scope, &mut add)).await?;
        for line in &mut lines {
            forget_texts(line);
        }
        lines.sort_by_key(|line| (line.idle, line.scope));
        Ok(lines)
    }

    /// What is kept of each scope, or of one.
    pub(crate) async fn stats(
        &self,
        scope: Option<ScopeTag>,
    ) -> Result<BTreeMap<ScopeTag, Stats>, Problem> {
        let mut scopes: BTreeMap<ScopeTag, Stats> = BTreeMap::new();
        let mut add = |listed: Listed| {
            let stats = scopes.entry(listed.key.scope()).or_default();
            stats.entries += 1;
            if let Some(sealed) = &listed.entry.record {
                stats.records += 1;
                stats.adopted += u64::from(listed.entry.adopted);
                stats.bytes += sealed.len() as u64;
            }
        };
        answered(self.far.each(scope, &mut add)).await?;
        Ok(scopes)
    }

    /// Takes all away, or what is kept of one scope; says how many entries that were.
    pub(crate) async fn purge(&self, scope: Option<ScopeTag>) -> Result<u64, Problem> {
        answered(self.far.purge(scope)).await
    }

    /// Lets go of it.
    pub(crate) async fn close(&self) {
        self.far.close().await;
    }
}

/// What was said is of no interest here, and is not kept longer than it takes to read the rest.
fn forget_texts(line: &mut Line) {
    if let Some(record) = &mut line.record {
        record.text = None;
        record.summary = None;
        record.previous_summary = None;
    }
}

async fn answered<T>(
    call: impl Future<Output = Result<T, super::far::Unavailable>>,
) -> Result<T, Problem> {
    let why = match timeout(PATIENCE, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(unavailable)) => unavailable.why,
        Err(_) => "no answer in time",
    };
    Err(Problem::Store(format!("the store does not answer: {why}")))
}
