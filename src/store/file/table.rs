//! What stands in the file, and its transactions.

use std::time::Duration;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use super::mark::Mark;
use crate::rewrite::chain::{RecordKey, ScopeTag};
use crate::store::far::{Change, Entry, Listed, Winner, Write};
use crate::wall_clock;

type Bytewise = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Sealed records by their keys.
pub(super) const RECORDS: Bytewise = TableDefinition::new("records");
/// What stands beside them, and where there is none.
pub(super) const MARKS: Bytewise = TableDefinition::new("marks");
/// The version of the format, under [`FORMAT_KEY`].
pub(super) const ABOUT: TableDefinition<'static, &'static str, u64> = TableDefinition::new("about");
pub(super) const FORMAT_KEY: &str = "format";

/// After so long an entry that is read counts as used again. In between nothing is written for it.
const TOUCH: u64 = 3_600;

/// What to list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Of this scope, or of all.
    pub(super) scope: Option<ScopeTag>,
    /// Behind this key.
    pub(super) after: Option<RecordKey>,
    /// So many at the most.
    pub(super) entries: usize,
}

/// Entries that were read, and those of their keys that count as used by that.
pub(super) struct Read {
    pub(super) entries: Vec<Option<Entry>>,
    pub(super) touched: Vec<RecordKey>,
}

/// The entries under these keys, of those that were used since `since`.
pub(super) fn read(
    database: &Database,
    keys: &[RecordKey],
    since: u64,
) -> Result<Read, redb::Error> {
    let transaction = database.begin_read()?;
    let marks = transaction.open_table(MARKS)?;
    let records = transaction.open_table(RECORDS)?;
    let now = wall_clock::seconds();
    let mut read = Read {
        entries: Vec::with_capacity(keys.len()),
        touched: Vec::new(),
    };
    for key in keys {
        let bytes = key.to_bytes();
        let mark = marks.get(&bytes[..])?;
        let mark = mark.and_then(|mark| Mark::read(mark.value()));
        let Some(mark) = mark.filter(|mark| mark.used >= since) else {
            read.entries.push(None);
            continue;
        };
        if mark.used.saturating_add(TOUCH) < now {
            read.touched.push(*key);
        }
        let record = match mark.record {
            0 => None,
            _ => records.get(&bytes[..])?,
        };
        let record = record.map(|record| Bytes::copy_from_slice(record.value()));
        read.entries.push(Some(mark.entry(record)));
    }
    Ok(read)
}

/// The entries of one page.
pub(super) fn list(database: &Database, page: Page) -> Result<Vec<Listed>, redb::Error> {
    let transaction = database.begin_read()?;
    let marks = transaction.open_table(MARKS)?;
    let records = transaction.open_table(RECORDS)?;
    let now = wall_clock::seconds();
    let mut from = page.scope.map_or_else(Vec::new, |scope| scope.0.to_vec());
    if let Some(after) = page.after {
        from = after.to_bytes().to_vec();
        // The next key there can be.
        from.push(0);
    }
    let mut entries = Vec::new();
    for found in marks.range(&from[..]..)? {
        let (key, mark) = found?;
        let Some(key) = RecordKey::from_bytes(key.value()) else {
            continue;
        };
        if entries.len() == page.entries || page.scope.is_some_and(|scope| scope != key.scope()) {
            break;
        }
        let Some(mark) = Mark::read(mark.value()) else {
            continue;
        };
        let idle = Duration::from_secs(now.saturating_sub(mark.used));
        let record = records.get(&key.to_bytes()[..])?;
        let record = record.map(|record| Bytes::copy_from_slice(record.value()));
        entries.push(Listed {
            key,
            entry: mark.entry(record),
            idle: Some(idle),
        });
    }
    Ok(entries)
}

/// Writes these in one transaction; what stands there then, and by how many bytes the entries have
/// grown.
pub(super) fn write(
    database: &Database,
    writes: &[Write],
) -> Result<(Vec<Winner>, u64), redb::Error> {
    let transaction = database.begin_write()?;
    let mut winners = Vec::with_capacity(writes.len());
    let mut grown = 0;
    {
        let mut marks = transaction.open_table(MARKS)?;
        let mut records = transaction.open_table(RECORDS)?;
        for write in writes {
            let (winner, more) = write_one(&mut marks, &mut records, write)?;
            winners.push(winner);
            grown += more;
        }
    }
    transaction.commit()?;
    Ok((winners, grown))
}

type Open<'t> = Table<'t, &'static [u8], &'static [u8]>;

fn write_one(
    marks: &mut Open<'_>,
    records: &mut Open<'_>,
    write: &Write,
) -> Result<(Winner, u64), redb::Error> {
    let key = write.key.to_bytes();
    let before = marks.get(&key[..])?.map(|mark| Mark::read(mark.value()));
    let before = before.flatten();
    let weighed = before.as_ref().map_or(0, Mark::weight);
    let mut mark = before.unwrap_or_default();
    let mut asked = false;
    for change in &write.changes {
        match change {
            Change::Adopted => mark.adopted = true,
            Change::Met => mark.met = true,
            Change::Refused => mark.refused = true,
            Change::Note(name, note) => mark.note(*name, note.clone()),
            Change::Discard(unreadable) => {
                let is_it = records
                    .get(&key[..])?
                    .is_some_and(|record| record.value() == unreadable);
                if is_it {
                    records.remove(&key[..])?;
                    mark.record = 0;
                    mark.adopted = false;
                }
            }
            Change::Record(record) => {
                asked = true;
                if records.get(&key[..])?.is_none() {
                    records.insert(&key[..], &record[..])?;
                    mark.record = u32::try_from(record.len()).unwrap_or(u32::MAX);
                }
            }
        }
    }
    mark.used = mark.used.max(wall_clock::seconds());
    marks.insert(&key[..], &mark.bytes()[..])?;
    let grown = mark.weight().saturating_sub(weighed);
    let winner = if asked {
        let record = records.get(&key[..])?;
        Winner {
            record: record.map(|record| Bytes::copy_from_slice(record.value())),
            adopted: mark.adopted,
        }
    } else {
        Winner::default()
    };
    Ok((winner, grown))
}

/// These entries count as used now.
pub(super) fn touch(database: &Database, keys: &[RecordKey]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut marks = transaction.open_table(MARKS)?;
        for key in keys {
            let key = key.to_bytes();
            let mark = marks
                .get(&key[..])?
                .and_then(|mark| Mark::read(mark.value()));
            if let Some(mut mark) = mark {
                mark.used = mark.used.max(wall_clock::seconds());
                marks.insert(&key[..], &mark.bytes()[..])?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::rewrite::chain::Scope;

    #[test]
    fn a_clock_that_is_behind_moves_no_use_back() {
        let backend = InMemoryBackend::new();
        let database = Database::builder().create_with_backend(backend).unwrap();
        let key = Scope::new(&[0; 32], &[]).key_of("k");
        let mut mark = Mark::default();
        mark.used = u64::MAX;
        let transaction = database.begin_write().unwrap();
        {
            let mut marks = transaction.open_table(MARKS).unwrap();
            marks
                .insert(&key.to_bytes()[..], &mark.bytes()[..])
                .unwrap();
            transaction.open_table(RECORDS).unwrap();
        }
        transaction.commit().unwrap();
        let changes = vec![Change::Met];
        write(&database, &[Write { key, changes }]).unwrap();
        touch(&database, &[key]).unwrap();
        let found = read(&database, &[key], u64::MAX).unwrap();
        assert!(found.entries[0].as_ref().is_some_and(|entry| entry.met));
        assert!(found.touched.is_empty());
    }
}
