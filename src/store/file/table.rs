//! Tables of the file, and their transactions.

use std::time::Duration;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use crate::store::durable::{Change, EntryWrite, ListedEntry, StoredEntry, WriteResult};
use crate::store::file::entry_meta::EntryMeta;
use crate::wall_clock;
use longhaul_core::units::scope::{RecordKey, ScopeTag};

type BytesTable = TableDefinition<'static, &'static [u8], &'static [u8]>;

pub(super) const RECORDS: BytesTable = TableDefinition::new("records");
/// Metadata of entries by key, with and without a record.
pub(super) const METADATA: BytesTable = TableDefinition::new("marks");
/// The version of the format, under [`FORMAT_KEY`].
pub(super) const ABOUT: TableDefinition<'static, &'static str, u64> = TableDefinition::new("about");
pub(super) const FORMAT_KEY: &str = "format";

/// Seconds after which a read renews an entry's last use. In between, a read writes nothing.
const TOUCH_INTERVAL_SECS: u64 = 3_600;

/// Maximum number of entries that are listed at once.
pub(super) const LIST_PAGE_ENTRIES: usize = 256;

/// Reads the entries under these keys, if they were used since `since`. Returns also the keys whose last use
/// must be renewed.
pub(super) fn read(
    database: &Database,
    keys: &[RecordKey],
    since: u64,
) -> Result<(Vec<Option<StoredEntry>>, Vec<RecordKey>), redb::Error> {
    let transaction = database.begin_read()?;
    let marks = transaction.open_table(METADATA)?;
    let records = transaction.open_table(RECORDS)?;
    let now = wall_clock::unix_seconds();
    let (mut entries, mut to_touch) = (Vec::with_capacity(keys.len()), Vec::new());
    for key in keys {
        let bytes = key.to_bytes();
        let mark = marks.get(&bytes[..])?;
        let mark = mark.and_then(|mark| EntryMeta::decode(mark.value()));
        let Some(mark) = mark.filter(|mark| mark.last_used >= since) else {
            entries.push(None);
            continue;
        };
        if mark.last_used.saturating_add(TOUCH_INTERVAL_SECS) < now {
            to_touch.push(*key);
        }
        let record = match mark.record_bytes {
            0 => None,
            _ => records.get(&bytes[..])?,
        };
        let record = record.map(|record| Bytes::copy_from_slice(record.value()));
        entries.push(Some(mark.into_entry(record)));
    }
    Ok((entries, to_touch))
}

/// Returns the next entries of `scope`, or of all, after the key `after`.
pub(super) fn list(
    database: &Database,
    scope: Option<ScopeTag>,
    after: Option<RecordKey>,
) -> Result<Vec<ListedEntry>, redb::Error> {
    let transaction = database.begin_read()?;
    let marks = transaction.open_table(METADATA)?;
    let records = transaction.open_table(RECORDS)?;
    let now = wall_clock::unix_seconds();
    let mut from = scope.map_or_else(Vec::new, |scope| scope.0.to_vec());
    if let Some(after) = after {
        from = after.to_bytes().to_vec();
        // The next possible key.
        from.push(0);
    }
    let mut entries = Vec::new();
    for found in marks.range(&from[..]..)? {
        let (key, mark) = found?;
        let Some(key) = RecordKey::from_bytes(key.value()) else {
            continue;
        };
        if entries.len() == LIST_PAGE_ENTRIES || scope.is_some_and(|scope| scope != key.scope()) {
            break;
        }
        let Some(mark) = EntryMeta::decode(mark.value()) else {
            continue;
        };
        let idle = Duration::from_secs(now.saturating_sub(mark.last_used));
        let record = records.get(&key.to_bytes()[..])?;
        let record = record.map(|record| Bytes::copy_from_slice(record.value()));
        entries.push(ListedEntry { key, entry: mark.into_entry(record), idle: Some(idle) });
    }
    Ok(entries)
}

/// Applies writes in one transaction. Returns the resulting records, and by how many bytes the
/// entries have grown.
pub(super) fn write(
    database: &Database,
    writes: &[EntryWrite],
) -> Result<(Vec<WriteResult>, u64), redb::Error> {
    let transaction = database.begin_write()?;
    let mut winners = Vec::with_capacity(writes.len());
    let mut grown = 0;
    {
        let mut marks = transaction.open_table(METADATA)?;
        let mut records = transaction.open_table(RECORDS)?;
        for write in writes {
            let (winner, more) = apply_write(&mut marks, &mut records, write)?;
            winners.push(winner);
            grown += more;
        }
    }
    transaction.commit()?;
    Ok((winners, grown))
}

type OpenTable<'t> = Table<'t, &'static [u8], &'static [u8]>;

fn apply_write(
    marks: &mut OpenTable<'_>,
    records: &mut OpenTable<'_>,
    write: &EntryWrite,
) -> Result<(WriteResult, u64), redb::Error> {
    let key = write.key.to_bytes();
    let before = marks.get(&key[..])?.map(|mark| EntryMeta::decode(mark.value()));
    let before = before.flatten();
    let weighed = before.as_ref().map_or(0, EntryMeta::weight);
    let mut mark = before.unwrap_or_default();
    let mut asked = false;
    for change in &write.changes {
        match change {
            Change::Adopted => mark.adopted = true,
            Change::Seen => mark.seen = true,
            Change::Refused => mark.refused = true,
            Change::Note(name, note) => mark.set_note(*name, note.clone()),
            Change::Discard(unreadable) => {
                let is_it =
                    records.get(&key[..])?.is_some_and(|record| record.value() == unreadable);
                if is_it {
                    records.remove(&key[..])?;
                    mark.record_bytes = 0;
                    mark.adopted = false;
                }
            }
            Change::Record(record) => {
                asked = true;
                if records.get(&key[..])?.is_none() {
                    records.insert(&key[..], &record[..])?;
                    mark.record_bytes = u32::try_from(record.len()).unwrap_or(u32::MAX);
                }
            }
        }
    }
    mark.last_used = mark.last_used.max(wall_clock::unix_seconds());
    marks.insert(&key[..], &mark.encode()[..])?;
    let grown = mark.weight().saturating_sub(weighed);
    let winner = if asked {
        let record = records.get(&key[..])?;
        WriteResult {
            record: record.map(|record| Bytes::copy_from_slice(record.value())),
            adopted: mark.adopted,
        }
    } else {
        WriteResult::default()
    };
    Ok((winner, grown))
}

/// Marks these entries as used now.
pub(super) fn touch(database: &Database, keys: &[RecordKey]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut marks = transaction.open_table(METADATA)?;
        for key in keys {
            let key = key.to_bytes();
            let mark = marks.get(&key[..])?.and_then(|mark| EntryMeta::decode(mark.value()));
            if let Some(mut mark) = mark {
                mark.last_used = mark.last_used.max(wall_clock::unix_seconds());
                marks.insert(&key[..], &mark.encode()[..])?;
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
    use longhaul_core::units::scope::Scope;

    #[test]
    fn slow_clock_never_moves_the_last_use_back() {
        let backend = InMemoryBackend::new();
        let database = Database::builder().create_with_backend(backend).unwrap();
        let key = Scope::new(&[0; 32], &[]).named_key("k");
        let mut mark = EntryMeta::default();
        mark.last_used = u64::MAX;
        let transaction = database.begin_write().unwrap();
        {
            let mut marks = transaction.open_table(METADATA).unwrap();
            marks.insert(&key.to_bytes()[..], &mark.encode()[..]).unwrap();
            transaction.open_table(RECORDS).unwrap();
        }
        transaction.commit().unwrap();
        let changes = vec![Change::Seen];
        write(&database, &[EntryWrite { key, changes }]).unwrap();
        touch(&database, &[key]).unwrap();
        let found = read(&database, &[key], u64::MAX).unwrap();
        assert!(found.0[0].as_ref().is_some_and(|entry| entry.seen));
        assert!(found.1.is_empty());
    }
}
