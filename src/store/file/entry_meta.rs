//! Metadata of an entry, without its record: short, because every request writes it.

use bytes::Bytes;

use crate::store::durable::{NoteName, StoredEntry};

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

/// Marks and notes of an entry, its last use, and the size of its record.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct EntryMeta {
    pub(super) adopted: bool,
    pub(super) seen: bool,
    pub(super) refused: bool,
    /// Time of the last use, in seconds since 1970.
    pub(super) last_used: u64,
    /// Size of the record in bytes; 0 if there is none.
    pub(super) record_bytes: u32,
    notes: Vec<(NoteName, Bytes)>,
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
        Some(Self {
            adopted: bits & ADOPTED != 0,
            seen: bits & SEEN != 0,
            refused: bits & REFUSED != 0,
            last_used: u64::from_le_bytes(*used),
            record_bytes: u32::from_le_bytes(*record),
            notes,
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let bits = bit(self.adopted, ADOPTED) | bit(self.seen, SEEN) | bit(self.refused, REFUSED);
        let mut bytes = vec![bits];
        bytes.extend(self.last_used.to_le_bytes());
        bytes.extend(self.record_bytes.to_le_bytes());
        for (name, note) in &self.notes {
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
        let notes: usize = self.notes.iter().map(bytes).sum();
        ENTRY_OVERHEAD_BYTES
            + u64::from(self.record_bytes)
            + u64::try_from(notes).unwrap_or(u64::MAX)
    }

    /// Stores a note, replacing any of that name. A note that is too long is ignored.
    pub(super) fn set_note(&mut self, name: NoteName, note: Bytes) {
        if u16::try_from(note.len()).is_err() {
            return;
        }
        self.notes.retain(|(other, _)| *other != name);
        if self.notes.len() == MAX_NOTES {
            self.notes.remove(0);
        }
        self.notes.push((name, note));
    }

    pub(super) fn into_entry(self, record: Option<Bytes>) -> StoredEntry {
        StoredEntry {
            record,
            adopted: self.adopted,
            seen: self.seen,
            refused: self.refused,
            notes: self.notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> EntryMeta {
        let mut mark = EntryMeta {
            adopted: true,
            refused: true,
            last_used: 1_700_000_000,
            record_bytes: 80_000,
            ..EntryMeta::default()
        };
        mark.set_note(NoteName([1; 8]), Bytes::from_static(b"one"));
        mark.set_note(NoteName([2; 8]), Bytes::new());
        mark
    }

    #[test]
    fn encoded_metadata_decodes_to_itself() {
        let met = EntryMeta { seen: true, ..EntryMeta::default() };
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
        assert_eq!(mark.notes.len(), 2);
        for name in 10..10 + 15 {
            mark.set_note(NoteName([name; 8]), Bytes::new());
        }
        assert_eq!(mark.notes.len(), MAX_NOTES);
        let first = NoteName([1; 8]);
        assert_eq!(mark.notes[0], (first, Bytes::from_static(b"new")));
        mark.set_note(NoteName([9; 8]), Bytes::from(vec![0; 1 << 16]));
        assert_eq!(mark.notes[0].0, first, "too long for a note");
    }
}
