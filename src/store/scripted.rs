//! A far tier for tests, shared by as many stores as a test has, which fails and hangs as it is
//! told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::far::{Change, Entry, Lease, LeaseToken, Renewed, Unavailable, Winner, Write};
use crate::rewrite::chain::RecordKey;

/// The most fields of an entry, as at a server: where it is full, no further note is taken.
pub(super) const FIELDS: usize = 64;

/// How it answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Answers {
    /// At once.
    AtOnce,
    /// With a failure.
    Fails,
    /// So late.
    Late(Duration),
    /// Never.
    Never,
}

#[derive(Clone)]
pub(crate) struct Scripted(Arc<Mutex<Script>>);

pub(super) struct Script {
    pub(super) answers: Answers,
    /// Each with when it is forgotten.
    pub(super) entries: HashMap<RecordKey, (Entry, Instant)>,
    /// How long an entry is kept that nobody reads or writes.
    pub(super) ttl: Duration,
    pub(super) leases: HashMap<RecordKey, (LeaseToken, Instant)>,
    /// The keys of every read, answered or not.
    pub(super) reads: Vec<Vec<RecordKey>>,
    pub(super) writes: usize,
    /// Whether other processes write there too.
    pub(super) is_shared: bool,
}

impl Scripted {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Script {
            answers: Answers::AtOnce,
            entries: HashMap::new(),
            ttl: Duration::from_hours(7 * 24),
            leases: HashMap::new(),
            reads: Vec::new(),
            writes: 0,
            is_shared: true,
        })))
    }

    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    async fn answer(&self) -> Result<(), Unavailable> {
        let answers = self.script().answers;
        match answers {
            Answers::AtOnce => Ok(()),
            Answers::Fails => Err(Unavailable { why: "told to" }),
            Answers::Late(by) => {
                sleep(by).await;
                Ok(())
            }
            Answers::Never => std::future::pending().await,
        }
    }

    pub(super) async fn read(&self, keys: &[RecordKey]) -> Result<Vec<Option<Entry>>, Unavailable> {
        self.script().reads.push(keys.to_vec());
        self.answer().await?;
        let mut script = self.script();
        let Script { entries, ttl, .. } = &mut *script;
        let now = Instant::now();
        let read = |key| {
            let (entry, ends) = entries.get_mut(key).filter(|(_, ends)| *ends > now)?;
            *ends = now + *ttl;
            Some(entry.clone())
        };
        Ok(keys.iter().map(read).collect())
    }

    pub(super) async fn write(&self, writes: &[Write]) -> Result<Vec<Winner>, Unavailable> {
        self.answer().await?;
        let mut script = self.script();
        script.writes += writes.len();
        let now = Instant::now();
        script.entries.retain(|_, (_, ends)| *ends > now);
        let ends = now + script.ttl;
        let winners = writes.iter().map(|write| {
            let entry = script.entries.entry(write.key);
            let entry = entry.or_insert_with(|| (Entry::default(), ends));
            entry.1 = ends;
            let entry = &mut entry.0;
            for change in &write.changes {
                apply(entry, change);
            }
            let is_asked = |change: &Change| matches!(change, Change::Record(_));
            if write.changes.iter().any(is_asked) {
                Winner {
                    record: entry.record.clone(),
                    adopted: entry.adopted,
                }
            } else {
                Winner::default()
            }
        });
        Ok(winners.collect())
    }

    pub(super) async fn lease(
        &self,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<Lease, Unavailable> {
        self.answer().await?;
        let mut script = self.script();
        let now = Instant::now();
        let held = script.leases.get(&key).filter(|(_, ends)| *ends > now);
        if held.is_some() {
            return Ok(Lease::Taken);
        }
        script.leases.insert(key, (token, now + ttl));
        Ok(Lease::Held)
    }

    pub(super) async fn renew(
        &self,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<Renewed, Unavailable> {
        self.answer().await?;
        let mut script = self.script();
        let now = Instant::now();
        let lease = script.leases.get_mut(&key);
        let ours = lease.filter(|(holder, ends)| *holder == token && *ends > now);
        Ok(ours.map_or(Renewed::Lost, |lease| {
            lease.1 = now + ttl;
            Renewed::Ours
        }))
    }

    pub(super) async fn release(
        &self,
        key: RecordKey,
        token: LeaseToken,
    ) -> Result<(), Unavailable> {
        self.answer().await?;
        let mut script = self.script();
        if script
            .leases
            .get(&key)
            .is_some_and(|(holder, _)| *holder == token)
        {
            script.leases.remove(&key);
        }
        Ok(())
    }
}

fn apply(entry: &mut Entry, change: &Change) {
    match change {
        Change::Adopted => entry.adopted = true,
        Change::Discard(record) => {
            if entry.record.as_ref() == Some(record) {
                (entry.record, entry.adopted) = (None, false);
            }
        }
        Change::Met => entry.met = true,
        Change::Note(name, note) => {
            let marks = [entry.adopted, entry.met, entry.refused];
            let marks = marks.into_iter().filter(|is_set| *is_set).count();
            let fields = entry.notes.len() + marks + usize::from(entry.record.is_some());
            let mut notes = entry.notes.iter_mut();
            match notes.find(|(other, _)| other == name) {
                Some((_, there)) => *there = note.clone(),
                None if fields < FIELDS => entry.notes.push((*name, note.clone())),
                None => {}
            }
        }
        Change::Record(record) => _ = entry.record.get_or_insert_with(|| record.clone()),
        Change::Refused => entry.refused = true,
    }
}
