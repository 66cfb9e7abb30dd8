//! Durable store for tests that fails and hangs as scripted. A test can share it among any number
//! of stores.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::store::durable::{
    Answer, Change, EntryWrite, LeaseAction, LeaseToken, ListedEntry, StoredEntry, Unavailable,
    WriteResult,
};
use longhaul_core::units::scope::{RecordKey, ScopeTag};

/// Maximum number of fields of an entry, as at a server. A full entry accepts no further note.
pub(crate) const MAX_FIELDS: usize = 64;

/// Scripted behaviour of every call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ScriptedReply {
    /// Answers at once.
    AtOnce,
    /// Fails.
    Fails,
    /// Answers after this delay.
    Late(Duration),
    /// Never answers.
    Never,
}

#[derive(Clone)]
pub(crate) struct ScriptedStore(Arc<Mutex<ScriptState>>);

pub(crate) struct ScriptState {
    pub(crate) answers: ScriptedReply,
    /// Entries, each with the time of its expiry.
    pub(crate) entries: HashMap<RecordKey, (StoredEntry, Instant)>,
    /// Time to live of an entry after its last read or write.
    pub(crate) ttl: Duration,
    pub(crate) leases: HashMap<RecordKey, (LeaseToken, Instant)>,
    /// Keys of every read, answered or not.
    pub(crate) reads: Vec<Vec<RecordKey>>,
    pub(crate) writes: usize,
    /// Whether other processes write to the store too.
    pub(crate) is_shared: bool,
}

impl ScriptedStore {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(ScriptState {
            answers: ScriptedReply::AtOnce,
            entries: HashMap::new(),
            ttl: Duration::from_hours(7 * 24),
            leases: HashMap::new(),
            reads: Vec::new(),
            writes: 0,
            is_shared: true,
        })))
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, ScriptState> {
        self.0.lock().unwrap()
    }

    async fn answer(&self) -> Answer<()> {
        let answers = self.script().answers;
        match answers {
            ScriptedReply::AtOnce => Ok(()),
            ScriptedReply::Fails => Err(Unavailable("told to")),
            ScriptedReply::Late(by) => {
                sleep(by).await;
                Ok(())
            }
            ScriptedReply::Never => std::future::pending().await,
        }
    }

    #[expect(clippy::unused_async, reason = "other stores wait")]
    pub(crate) async fn wait_until_ready(&self) -> Answer<()> {
        Ok(())
    }

    #[expect(clippy::unused_async, reason = "other stores wait")]
    pub(crate) async fn for_each_entry(
        &self,
        _scope: Option<ScopeTag>,
        _show: &mut (dyn FnMut(ListedEntry) + Send),
    ) -> Answer<()> {
        Ok(())
    }

    #[expect(clippy::unused_async, reason = "other stores wait")]
    pub(crate) async fn purge(&self, _scope: Option<ScopeTag>) -> Answer<u64> {
        Ok(0)
    }

    pub(crate) async fn read(&self, keys: &[RecordKey]) -> Answer<Vec<Option<StoredEntry>>> {
        self.script().reads.push(keys.to_vec());
        self.answer().await?;
        let mut script = self.script();
        let ScriptState { entries, ttl, .. } = &mut *script;
        let now = Instant::now();
        let read = |key| {
            let (entry, ends) = entries.get_mut(key).filter(|(_, ends)| *ends > now)?;
            *ends = now + *ttl;
            Some(entry.clone())
        };
        Ok(keys.iter().map(read).collect())
    }

    pub(crate) async fn write(&self, writes: &[EntryWrite]) -> Answer<Vec<WriteResult>> {
        self.answer().await?;
        let mut script = self.script();
        script.writes += writes.len();
        let now = Instant::now();
        script.entries.retain(|_, (_, ends)| *ends > now);
        let ends = now + script.ttl;
        let winners = writes.iter().map(|write| {
            let entry = script.entries.entry(write.key);
            let entry = entry.or_insert_with(|| (StoredEntry::default(), ends));
            entry.1 = ends;
            let entry = &mut entry.0;
            for change in &write.changes {
                apply(entry, change);
            }
            let is_asked = |change: &Change| matches!(change, Change::Record(_));
            if write.changes.iter().any(is_asked) {
                WriteResult { record: entry.record.clone(), adopted: entry.adopted }
            } else {
                WriteResult::default()
            }
        });
        Ok(winners.collect())
    }

    pub(crate) async fn lease(
        &self,
        action: LeaseAction,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Answer<bool> {
        self.answer().await?;
        let mut script = self.script();
        let now = Instant::now();
        let holder = script.leases.get(&key).filter(|(_, ends)| *ends > now);
        let is_allowed = match action {
            LeaseAction::Acquire => holder.is_none(),
            LeaseAction::Release | LeaseAction::Renew => holder.is_some_and(|it| it.0 == token),
        };
        if is_allowed && action == LeaseAction::Release {
            script.leases.remove(&key);
        } else if is_allowed {
            script.leases.insert(key, (token, now + ttl));
        }
        Ok(is_allowed)
    }
}

fn apply(entry: &mut StoredEntry, change: &Change) {
    match change {
        Change::Adopted => entry.adopted = true,
        Change::Discard(record) => {
            if entry.record.as_ref() == Some(record) {
                (entry.record, entry.adopted) = (None, false);
            }
        }
        Change::Seen => entry.seen = true,
        Change::Note(name, note) => {
            let marks = [entry.adopted, entry.seen, entry.refused];
            let marks = marks.into_iter().filter(|is_set| *is_set).count();
            let fields = entry.notes.len() + marks + usize::from(entry.record.is_some());
            let mut notes = entry.notes.iter_mut();
            match notes.find(|(other, _)| other == name) {
                Some((_, there)) => *there = note.clone(),
                None if fields < MAX_FIELDS => entry.notes.push((*name, note.clone())),
                None => {}
            }
        }
        Change::Record(record) => _ = entry.record.get_or_insert_with(|| record.clone()),
        Change::Refused => entry.refused = true,
    }
}
