//! IDs of originals, as text and as keys of a store, and the ways to read an original by its ID.

use crate::units::scope::{RecordKey, ScopeTag};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The way of reading an original that a line names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RecallForm {
    /// A command in a shell: `longhaul recall ID`.
    Command,
    /// A call of the MCP tool `recall`.
    Tool,
    /// A GET request. The URL up to the ID.
    Url(Arc<str>),
}

/// Digits of an ID: base 32 of RFC 4648 in lower case. No digit is special in a shell or a URL, and none
/// looks like another.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const BITS_PER_DIGIT: usize = 5;
/// Bits behind a digit that begins a word of two bytes.
const WORD_SHIFT: usize = 16 - BITS_PER_DIGIT;

/// ID of an original: 256 bits. The first 64 are the tag of the scope, the others a hash under a key of
/// the scope. Whoever has the ID may read the original, so an ID is as secret as the original.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RecallId([u8; Self::BYTES]);

impl RecallId {
    /// Length in bytes.
    pub const BYTES: usize = 32;
    /// Length of the text, in digits.
    pub const DIGITS: usize = (Self::BYTES * 8).div_ceil(BITS_PER_DIGIT);

    /// Joins the tag of the scope and the first bytes of a keyed hash.
    pub(crate) fn new(scope: ScopeTag, hash: &[u8; 32]) -> Self {
        let mut bytes = [0; Self::BYTES];
        let from = scope.0.iter().chain(hash);
        bytes.iter_mut().zip(from).for_each(|(to, byte)| *to = *byte);
        Self(bytes)
    }

    /// Returns the tag of the scope that the ID belongs to.
    pub fn scope(self) -> ScopeTag {
        let mut tag = [0; 8];
        tag.iter_mut().zip(self.0).for_each(|(to, byte)| *to = byte);
        ScopeTag(tag)
    }

    /// Returns the key that the original is stored under. The key does not reveal the ID: a reader of a
    /// store's keys can read no original by them.
    pub fn record_key(self) -> RecordKey {
        let hash = blake3::derive_key("longhaul 2026 place of an original", &self.0);
        RecordKey::new(self.scope(), hash)
    }

    /// Returns the key under which the texts that stay in a conversation are stored. The ID is that of the
    /// conversation's outline.
    pub fn kept_key(self) -> RecordKey {
        let hash = blake3::derive_key("longhaul 2026 place of kept texts", &self.0);
        RecordKey::new(self.scope(), hash)
    }

    /// Takes the bytes of an ID.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for RecallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let byte = |at: usize| self.0.get(at).copied().unwrap_or_default();
        let digits = (0..Self::DIGITS).map(|at| {
            let bit = at * BITS_PER_DIGIT;
            let word = u16::from_be_bytes([byte(bit / 8), byte(bit / 8 + 1)]);
            let value = usize::from(word >> (WORD_SHIFT - bit % 8)) & (DIGITS.len() - 1);
            DIGITS.get(value).copied().map_or('a', char::from)
        });
        f.write_str(&digits.collect::<String>())
    }
}

// An ID opens its original, so no log may show an ID by accident.
impl fmt::Debug for RecallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecallId")
    }
}

/// A text that is not an ID.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an ID has {} characters: letters, and digits from 2 to 7", RecallId::DIGITS)]
pub struct NoRecallId;

impl FromStr for RecallId {
    type Err = NoRecallId;

    /// Parses an ID in either case.
    fn from_str(text: &str) -> Result<Self, NoRecallId> {
        let mut id = Self([0; Self::BYTES]);
        for (at, letter) in text.bytes().enumerate().take(Self::DIGITS) {
            let letter = letter.to_ascii_lowercase();
            let value = (0_u16..).zip(DIGITS).find(|(_, digit)| **digit == letter);
            let (value, _) = value.ok_or(NoRecallId)?;
            let bit = at * BITS_PER_DIGIT;
            let word = (value << (WORD_SHIFT - bit % 8)).to_be_bytes();
            id.0.iter_mut().skip(bit / 8).zip(word).for_each(|(byte, bits)| *byte |= bits);
        }
        // The last digit carries bits that no byte has: another spelling would be another name.
        let is_whole = id.to_string().eq_ignore_ascii_case(text);
        is_whole.then_some(id).ok_or(NoRecallId)
    }
}

impl Serialize for RecallId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RecallId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_is_parsed_from_its_own_text_in_either_case(bytes: [u8; 32]) {
            let id = RecallId(bytes);
            let text = id.to_string();
            prop_assert_eq!(text.len(), RecallId::DIGITS);
            prop_assert_eq!(text.parse(), Ok(id));
            prop_assert_eq!(text.to_uppercase().parse(), Ok(id));
        }

        #[test]
        fn any_other_text_is_no_id_or_the_text_of_one(text in "[a-z2-7]{50,54}|.{0,60}") {
            if let Ok(id) = text.parse::<RecallId>() {
                prop_assert_eq!(id.to_string(), text.to_lowercase());
            }
        }
    }

    #[test]
    fn the_key_of_a_store_names_the_scope_and_hides_the_id() {
        let id = RecallId([9; 32]);
        let key = id.record_key();
        assert_eq!(key.scope(), id.scope());
        let bytes = key.to_bytes();
        assert!(!bytes.windows(9).any(|it| it == [9; 9]));
        assert_eq!(format!("{id:?}"), "RecallId");
    }
}
