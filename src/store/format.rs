//! Encoding of records, notes and originals as sealed bytes: encrypted and authenticated.
//!
//! Sealed bytes begin with the version of this format and the version of the forms that records
//! hold. A random nonce follows, then the ciphertext with its tag (ChaCha20-Poly1305, RFC 8439).
//! The key is derived from the scope secret, the scope and the entry, and the tag covers the place
//! of the value. Bytes that are damaged, that another version wrote, or that were made or moved
//! without the secret are not read. Reading them is a miss.

use bytes::Bytes;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::secret::{Secret, random_bytes};
use crate::store::durable::NoteName;
use longhaul_core::FORM_VERSION;
use longhaul_core::units::scope::RecordKey;

/// Version of these bytes, and of the metadata that a durable store keeps with them. Raised with
/// every change, so that no version reads another's bytes as its own. Format 2 was not encrypted:
/// its entries are dropped.
pub(super) const FORMAT: u8 = 3;
/// First bytes of every sealed value.
const MAGIC: [u8; 3] = *b"lh\0";
const TAG_BYTES: usize = 16;
const VERSION_BYTES: usize = MAGIC.len() + 1 + size_of::<u32>();
/// Maximum size of a sealed value. A record of the widest window takes less than a tenth of it.
pub(super) const MAX_SEALED_BYTES: usize = 8 << 20;

/// Authentication tag of a sealed value. Distinguishes two values under one key without reading
/// them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct SealTag([u8; TAG_BYTES]);

/// Seals values with the scope secret, and opens them.
pub(super) struct RecordSealer {
    /// Key from which those of the scopes are derived.
    cipher_key: [u8; 32],
    name_key: [u8; 32],
}

impl RecordSealer {
    pub(super) fn new(secret: &Secret) -> Self {
        Self {
            cipher_key: secret.derive("longhaul 2026 encryption of what stores keep"),
            name_key: secret.derive("longhaul 2026 seal of what stores keep"),
        }
    }

    /// Seals `value` for `key`. Returns `None` if the result is too large to be stored, or if the
    /// system gives no random bytes.
    pub(super) fn seal(&self, key: RecordKey, value: &impl Serialize) -> Option<Bytes> {
        let version = version();
        let nonce: [u8; NONCE_LEN] = random_bytes().ok()?;
        let start = version.len() + nonce.len();
        let mut sealed = [&version[..], &nonce].concat();
        serde_json::to_writer(&mut sealed, value).ok()?;
        let tag = self
            .cipher(key)?
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                associated_data(key),
                sealed.get_mut(start..)?,
            )
            .ok()?;
        sealed.extend_from_slice(tag.as_ref());
        (sealed.len() <= MAX_SEALED_BYTES).then(|| Bytes::from(sealed))
    }

    /// Opens a value that was sealed for `key`. Returns `None` unless this version wrote it and it
    /// is intact.
    pub(super) fn open<T: DeserializeOwned>(&self, key: RecordKey, sealed: &[u8]) -> Option<T> {
        let rest = sealed.strip_prefix(&version()[..])?;
        if sealed.len() > MAX_SEALED_BYTES {
            return None;
        }
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_LEN>()?;
        let mut text = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let cipher = self.cipher(key)?;
        let value = cipher.open_in_place(nonce, associated_data(key), &mut text);
        serde_json::from_slice(value.ok()?).ok()
    }

    /// Returns the cipher of one entry. Each entry has its own key below that of its scope, so
    /// random nonces of one key do not meet.
    fn cipher(&self, key: RecordKey) -> Option<LessSafeKey> {
        let of_scope = blake3::keyed_hash(&self.cipher_key, &key.scope().0);
        let of_entry = blake3::keyed_hash(of_scope.as_bytes(), &key.to_bytes());
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, of_entry.as_bytes());
        unbound.ok().map(LessSafeKey::new)
    }

    /// Returns the name of a model's note, which has the same length for every model name.
    pub(super) fn note_name(&self, model: &str) -> NoteName {
        let hash = blake3::keyed_hash(&self.name_key, model.as_bytes());
        NoteName(hash.as_bytes().first_chunk().copied().unwrap_or_default())
    }
}

/// Reads the seal tag of sealed bytes without verifying it.
pub(super) fn read_tag(sealed: &[u8]) -> Option<SealTag> {
    let tag = sealed.get(VERSION_BYTES + NONCE_LEN..)?.last_chunk()?;
    Some(SealTag(*tag))
}

/// Returns what the tag covers in addition to the value: the versions, and the key of the entry.
fn associated_data(key: RecordKey) -> Aad<Vec<u8>> {
    Aad::from([&version()[..], &key.to_bytes()].concat())
}

/// Returns the first [`VERSION_BYTES`] of every sealed value.
fn version() -> Vec<u8> {
    [&MAGIC[..], &[FORMAT], &FORM_VERSION.to_le_bytes()].concat()
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
            clips: vec![Clip { message: 6, head: Tokens::new(2_000), tail: Tokens::new(1) }],
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
            assert_eq!(seal(1).open::<CompactionRecord>(key("k"), &sealed), Some(record));
        }
    }

    #[test]
    fn sealed_bytes_hold_no_word_of_their_value_and_never_repeat() {
        let record = CompactionRecord {
            text: Some("the vault opens with 7341".into()),
            ..CompactionRecord::default()
        };
        let sealed = [(); 2].map(|()| seal(1).seal(key("k"), &record).unwrap());
        assert_ne!(sealed[0], sealed[1]);
        for sealed in sealed {
            for word in ["vault", "7341", "text", "history_from"] {
                let found = sealed.windows(word.len()).any(|it| it == word.as_bytes());
                assert!(!found, "{word}");
            }
        }
    }

    #[test]
    fn another_key_another_secret_and_another_kind_are_misses() {
        let sealed = seal(1).seal(key("k"), &record()).unwrap();
        assert_eq!(seal(1).open::<CompactionRecord>(key("other"), &sealed), None);
        assert_eq!(seal(2).open::<CompactionRecord>(key("k"), &sealed), None);
        assert_eq!(seal(1).open::<u32>(key("k"), &sealed), None);
    }

    #[test]
    fn any_byte_changed_or_cut_off_is_a_miss() {
        let sealed = seal(1).seal(key("k"), &record()).unwrap();
        for at in 0..sealed.len() {
            assert_eq!(seal(1).open::<CompactionRecord>(key("k"), &sealed[..at]), None, "{at}");
            for bit in 0..8 {
                let mut wrong = sealed.to_vec();
                wrong[at] ^= 1 << bit;
                assert_eq!(seal(1).open::<CompactionRecord>(key("k"), &wrong), None, "{at} {bit}");
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
            if !less.as_object_mut().unwrap().remove(name).unwrap().is_null() {
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
