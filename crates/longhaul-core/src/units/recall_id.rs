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

    /// Returns an ID of nothing, for its length.
    pub(crate) fn sample() -> Self {
        Self([0; Self::BYTES])
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

    /// Returns the bytes of the ID.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// Takes the bytes of [`Self::to_bytes`].
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for RecallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(Self::DIGITS);
        let (mut bits, mut held) = (0_u32, 0);
        for byte in self.0 {
            bits = bits << 8 | u32::from(byte);
            held += 8;
            while held >= BITS_PER_DIGIT {
                held -= BITS_PER_DIGIT;
                text.push(digit(bits >> held));
            }
        }
        if held > 0 {
            text.push(digit(bits << (BITS_PER_DIGIT - held)));
        }
        f.write_str(&text)
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
#[error("an ID has {} letters and digits from 2 to 7", RecallId::DIGITS)]
pub struct NoRecallId;

impl FromStr for RecallId {
    type Err = NoRecallId;

    /// Parses an ID in either case.
    fn from_str(text: &str) -> Result<Self, NoRecallId> {
        if text.len() != Self::DIGITS {
            return Err(NoRecallId);
        }
        let mut bytes = [0; Self::BYTES];
        let mut places = bytes.iter_mut();
        let (mut bits, mut held) = (0_u32, 0);
        for letter in text.bytes() {
            let letter = letter.to_ascii_lowercase();
            let value = DIGITS.iter().position(|digit| *digit == letter);
            let value = value.and_then(|value| u32::try_from(value).ok());
            bits = (bits << BITS_PER_DIGIT | value.ok_or(NoRecallId)?) & 0xffff;
            held += BITS_PER_DIGIT;
            if held >= 8 {
                held -= 8;
                let byte = u8::try_from(bits >> held & 0xff).map_err(|_| NoRecallId)?;
                *places.next().ok_or(NoRecallId)? = byte;
            }
        }
        // The last digit carries bits that no byte has: another spelling would be another name.
        if bits & ((1 << held) - 1) != 0 {
            return Err(NoRecallId);
        }
        Ok(Self(bytes))
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

fn digit(bits: u32) -> char {
    let value = usize::try_from(bits & 31).unwrap_or_default();
    DIGITS.get(value).copied().map_or('a', char::from)
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
