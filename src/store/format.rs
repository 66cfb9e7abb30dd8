//! Encoding of records and notes as sealed bytes.
//!
//! Sealed bytes begin with the version of this format and the version of the forms that records
//! hold. A seal tag follows: a hash of the key and the value, keyed with the scope secret. Bytes
//! that are damaged, that another version wrote, or that were made or moved without the secret are
//! not read. Reading them is a miss.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::secret::Secret;
use crate::store::durable::NoteName;
use longhaul_core::FORM_VERSION;
use longhaul_core::units::scope::RecordKey;

/// Version of these bytes, and of the data that a durable store keeps beside them. Raised with
/// every change, so that no version takes another's bytes for its own.
pub(super) const FORMAT: u8 = 2;
/// First bytes of every sealed value.
const MAGIC: [u8; 3] = *b"lh\0";
/// Bytes of the seal tag.
const TAG_BYTES: usize = 16;
/// Bytes in front of the value: magic, format, form version, seal tag.
const HEADER_BYTES: usize = MAGIC.len() + 1 + size_of::<u32>() + TAG_BYTES;
/// Maximum size of a sealed value. A record of the widest window takes less than a tenth of it.
pub(super) const MAX_SEALED_BYTES: usize = 8 << 20;

/// Keyed hash of a sealed value. Distinguishes two values under one key without reading them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct SealTag([u8; TAG_BYTES]);

/// Seals values with the scope secret, and opens them.
pub(super) struct RecordSealer {
    key: [u8; 32],
}

impl RecordSealer {
    /// Derives the sealing key from a secret.
    pub(super) fn new(secret: &Secret) -> Self {
        Self {
            key: secret.derive("longhaul 2026 seal of what stores keep"),
        }
    }

    /// Seals `value` for `key`. Returns `None` if the result is too large to be stored.
    pub(super) fn seal(&self, key: RecordKey, value: &impl Serialize) -> Option<Bytes> {
        let mut sealed = header().to_vec();
        sealed.resize(HEADER_BYTES, 0);
        serde_json::to_writer(&mut sealed, value).ok()?;
        let SealTag(check) = self.tag(key, sealed.get(HEADER_BYTES..)?);
        sealed
            .get_mut(HEADER_BYTES - TAG_BYTES..HEADER_BYTES)?
            .copy_from_slice(&check);
        (sealed.len() <= MAX_SEALED_BYTES).then(|| Bytes::from(sealed))
    }

    /// Opens a value that was sealed for `key`. Returns `None` unless this version wrote it and it
    /// is intact.
    pub(super) fn open<T: DeserializeOwned>(&self, key: RecordKey, sealed: &[u8]) -> Option<T> {
        let (_, value) = sealed.split_at_checked(HEADER_BYTES)?;
        let sound = sealed.starts_with(&header())
            && sealed.len() <= MAX_SEALED_BYTES
            && read_tag(sealed) == Some(self.tag(key, value));
        if sound {
            serde_json::from_slice(value).ok()
        } else {
            None
        }
    }

    /// Returns the name of a model's note, which has the same length for every model name.
    pub(super) fn note_name(&self, model: &str) -> NoteName {
        let hash = blake3::keyed_hash(&self.key, model.as_bytes());
        let mut name = [0; 8];
        name.iter_mut()
            .zip(hash.as_bytes())
            .for_each(|(to, byte)| *to = *byte);
        NoteName(name)
    }

    fn tag(&self, key: RecordKey, value: &[u8]) -> SealTag {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&key.to_bytes());
        hasher.update(value);
        let mut check = [0; TAG_BYTES];
        hasher.finalize_xof().fill(&mut check);
        SealTag(check)
    }
}

/// Reads the seal tag of sealed bytes without verifying it.
pub(super) fn read_tag(sealed: &[u8]) -> Option<SealTag> {
    let check = sealed.get(HEADER_BYTES - TAG_BYTES..HEADER_BYTES)?;
    Some(SealTag(check.try_into().ok()?))
}

fn header() -> [u8; HEADER_BYTES - TAG_BYTES] {
    let version = FORM_VERSION.to_le_bytes();
    let bytes = MAGIC.into_iter().chain([FORMAT]).chain(version);
    let mut head = [0; HEADER_BYTES - TAG_BYTES];
    head.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    head
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use longhaul_core::policy::record::{Clip, CompactionRecord};
    use longhaul_core::units::scope::Scope;
    use longhaul_core::units::tokens::Tokens;

    fn seal(secret: u8) -> RecordSealer {
        RecordSealer::new(&Secret::from_bytes([secret; 32]))
    }

    fn key(name: &str) -> RecordKey {
        Scope::new(&[0; 32], &[]).named_key(name)
    }

    fn record() -> CompactionRecord {
        let some = |text: &str| Some(Arc::from(text));
        CompactionRecord {
            text: some("wörds \u{0} \" and\nlines"),
            summary: some("s"),
            previous_summary: some(""),
            head: 1,
            made_for: Some(9),
            history_from: 2,
            compacted_message_count: 7,
            cleared_before: 5,
            clips: vec![Clip {
                message: 6,
                head: Tokens::new(2_000),
                tail: Tokens::new(1),
            }],
            images_before: 3,
            window: Some(Tokens::new(32_000)),
            tokens_before: Tokens::new(u32::MAX),
            tokens_after: Tokens::new(9),
            compaction_count: 4,
            model: "m".into(),
            last_compacted_at: u64::MAX,
            ..CompactionRecord::default()
        }
    }

    #[test]
    fn sealed_record_opens_again() {
        for record in [record(), CompactionRecord::default()] {
            let sealed = seal(1).seal(key("k"), &record).unwrap();
            assert_eq!(
                seal(1).open::<CompactionRecord>(key("k"), &sealed),
                Some(record)
            );
        }
    }

    #[test]
    fn another_key_another_secret_and_another_kind_are_misses() {
        let sealed = seal(1).seal(key("k"), &record()).unwrap();
        assert_eq!(
            seal(1).open::<CompactionRecord>(key("other"), &sealed),
            None
        );
        assert_eq!(seal(2).open::<CompactionRecord>(key("k"), &sealed), None);
        assert_eq!(seal(1).open::<u32>(key("k"), &sealed), None);
    }

    #[test]
    fn any_byte_changed_or_cut_off_is_a_miss() {
        let sealed = seal(1).seal(key("k"), &record()).unwrap();
        for at in 0..sealed.len() {
            assert_eq!(
                seal(1).open::<CompactionRecord>(key("k"), &sealed[..at]),
                None,
                "{at}"
            );
            for bit in 0..8 {
                let mut wrong = sealed.to_vec();
                wrong[at] ^= 1 << bit;
                assert_eq!(
                    seal(1).open::<CompactionRecord>(key("k"), &wrong),
                    None,
                    "{at} {bit}"
                );
            }
        }
    }

    #[test]
    fn an_unknown_or_missing_field_is_a_miss() {
        let whole = serde_json::to_value(record()).unwrap();
        let mut more = whole.clone();
        more["colour"] = 1.into();
        let mut wrong = vec![more];
        for name in whole.as_object().unwrap().keys() {
            let mut less = whole.clone();
            // An optional field is written as null, and may be left out.
            if !less
                .as_object_mut()
                .unwrap()
                .remove(name)
                .unwrap()
                .is_null()
            {
                wrong.push(less);
            }
        }
        for value in wrong {
            let optional = ["text", "summary", "previous_summary", "made_for", "window"];
            let left_out = optional.iter().any(|name| value.get(name).is_none());
            let sealed = seal(1).seal(key("k"), &value).unwrap();
            let read = seal(1).open::<CompactionRecord>(key("k"), &sealed);
            assert_eq!(read.is_some(), left_out, "{value}");
        }
    }
}
