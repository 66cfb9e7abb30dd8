//! Tables of the file, their transactions, and the metadata of an entry: short, because every request writes it.

use std::time::Duration;

use bytes::Bytes;
use redb::{AccessGuard, Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use crate::store::durable::{Change, EntryWrite, ListedEntry, NoteName, StoredEntry, WriteResult};
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
        let Some(mut mark) = mark.filter(|mark| mark.last_used >= since) else {
            entries.push(None);
            continue;
        };
        if mark.last_used.saturating_add(TOUCH_INTERVAL_SECS) < now {
            to_touch.push(*key);
        }
        if mark.record_bytes > 0 {
            mark.entry.record = records.get(&bytes[..])?.map(|record| copied(&record));
        }
        entries.push(Some(mark.entry));
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
        let Some(mut mark) = EntryMeta::decode(mark.value()) else {
            continue;
        };
        let idle = Duration::from_secs(now.saturating_sub(mark.last_used));
        mark.entry.record = records.get(&key.to_bytes()[..])?.map(|record| copied(&record));
        entries.push(ListedEntry { key, entry: mark.entry, idle: Some(idle) });
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

fn copied(record: &AccessGuard<'_, &[u8]>) -> Bytes {
    Bytes::copy_from_slice(record.value())
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
            Change::Adopted => mark.entry.adopted = true,
            Change::Seen => mark.entry.seen = true,
            Change::Refused => mark.entry.refused = true,
            Change::Note(name, note) => mark.set_note(*name, note.clone()),
            Change::Discard(unreadable) => {
                let is_it =
                    records.get(&key[..])?.is_some_and(|record| record.value() == unreadable);
                if is_it {
                    records.remove(&key[..])?;
                    mark.record_bytes = 0;
                    mark.entry.adopted = false;
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
        let record = records.get(&key[..])?.map(|record| copied(&record));
        WriteResult { record, adopted: mark.entry.adopted }
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

/// Maximum number of notes of one entry; the oldest is removed first. There is one for each model
/// that has counted the same prefix.
const MAX_NOTES: usize = 16;

/// Bytes of an entry without its record and its notes: keys, metadata, and its part of the pages,
/// which are not full.
const ENTRY_OVERHEAD_BYTES: u64 = 256;
const NOTE_OVERHEAD_BYTES: usize = 10;

const ADOPTED: u8 = 1;
const SEEN: u8 = 2;
const REFUSED: u8 = 4;

/// An entry without its record, its last use, and the size of the record.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct EntryMeta {
    entry: StoredEntry,
    /// Time of the last use, in seconds since 1970.
    pub(super) last_used: u64,
    /// Size of the record in bytes; 0 if there is none.
    pub(super) record_bytes: u32,
}

impl EntryMeta {
    /// Decodes metadata. Returns `None` if the bytes are malformed.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[bits], rest) = bytes.split_first_chunk()?;
        let (used, rest) = rest.split_first_chunk()?;
        let (record, mut rest) = rest.split_first_chunk()?;
        let mut notes = Vec::new();
        while !rest.is_empty() {
            let (name, after) = rest.split_first_chunk()?;
            let (length, after) = after.split_first_chunk()?;
            let (note, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
            notes.push((NoteName(*name), Bytes::copy_from_slice(note)));
            rest = after;
        }
        let entry = StoredEntry {
            record: None,
            adopted: bits & ADOPTED != 0,
            seen: bits & SEEN != 0,
            refused: bits & REFUSED != 0,
            notes,
        };
        let (last_used, record_bytes) = (u64::from_le_bytes(*used), u32::from_le_bytes(*record));
        Some(Self { entry, last_used, record_bytes })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let entry = &self.entry;
        let bits =
            bit(entry.adopted, ADOPTED) | bit(entry.seen, SEEN) | bit(entry.refused, REFUSED);
        let mut bytes = vec![bits];
        bytes.extend(self.last_used.to_le_bytes());
        bytes.extend(self.record_bytes.to_le_bytes());
        for (name, note) in &entry.notes {
            // Longer notes were rejected earlier.
            let length = u16::try_from(note.len()).unwrap_or(0);
            bytes.extend(name.0);
            bytes.extend(length.to_le_bytes());
            bytes.extend(note.iter().take(length.into()));
        }
        bytes
    }

    /// Estimates the bytes that the entry takes in the file.
    pub(super) fn weight(&self) -> u64 {
        let bytes = |(_, note): &(NoteName, Bytes)| NOTE_OVERHEAD_BYTES + note.len();
        let notes: usize = self.entry.notes.iter().map(bytes).sum();
        ENTRY_OVERHEAD_BYTES
            + u64::from(self.record_bytes)
            + u64::try_from(notes).unwrap_or(u64::MAX)
    }

    /// Stores a note, replacing any of that name. A note that is too long is ignored.
    pub(super) fn set_note(&mut self, name: NoteName, note: Bytes) {
        if u16::try_from(note.len()).is_err() {
            return;
        }
        let notes = &mut self.entry.notes;
        notes.retain(|(other, _)| *other != name);
        if notes.len() == MAX_NOTES {
            notes.remove(0);
        }
        notes.push((name, note));
    }
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
        let mark = EntryMeta { last_used: u64::MAX, ..EntryMeta::default() };
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

#[cfg(test)]
mod meta_tests {
    use super::*;

    fn mark() -> EntryMeta {
        let entry = StoredEntry { adopted: true, refused: true, ..StoredEntry::default() };
        let mut mark = EntryMeta { entry, last_used: 1_700_000_000, record_bytes: 80_000 };
        mark.set_note(NoteName([1; 8]), Bytes::from_static(b"one"));
        mark.set_note(NoteName([2; 8]), Bytes::new());
        mark
    }

    #[test]
    fn encoded_metadata_decodes_to_itself() {
        let entry = StoredEntry { seen: true, ..StoredEntry::default() };
        let met = EntryMeta { entry, ..EntryMeta::default() };
        for mark in [mark(), EntryMeta::default(), met] {
            assert_eq!(EntryMeta::decode(&mark.encode()), Some(mark));
        }
    }

    #[test]
    fn metadata_cut_within_a_field_is_rejected() {
        let bytes = mark().encode();
        // Bytes cut off after a note are valid metadata with fewer notes.
        let whole = [13, 13 + 8 + 2 + 3, bytes.len()];
        for at in 0..=bytes.len() {
            let read = EntryMeta::decode(&bytes[..at]);
            assert_eq!(read.is_some(), whole.contains(&at), "{at}");
        }
    }

    #[test]
    fn metadata_weight_includes_record_and_notes() {
        assert_eq!(EntryMeta::default().weight(), ENTRY_OVERHEAD_BYTES);
        assert_eq!(mark().weight(), ENTRY_OVERHEAD_BYTES + 80_000 + 8 + 2 + 3 + 8 + 2);
    }

    #[test]
    fn keeps_the_newest_note_per_name_and_drops_the_oldest_names() {
        let mut mark = mark();
        mark.set_note(NoteName([1; 8]), Bytes::from_static(b"new"));
        assert_eq!(mark.entry.notes.len(), 2);
        for name in 10..10 + 15 {
            mark.set_note(NoteName([name; 8]), Bytes::new());
        }
        assert_eq!(mark.entry.notes.len(), MAX_NOTES);
        let first = NoteName([1; 8]);
        assert_eq!(mark.entry.notes[0], (first, Bytes::from_static(b"new")));
        mark.set_note(NoteName([9; 8]), Bytes::from(vec![0; 1 << 16]));
        assert_eq!(mark.entry.notes[0].0, first, "too long for a note");
    }
}
