//! Scopes of callers, and the keys that records are stored under.

use crate::FORM_VERSION;
use std::hash::{Hash, Hasher};

/// Room for the usual parts of a caller: an upstream, a path and one key.
const SCOPE_TEXT_BYTES: usize = 512;

/// The hash of a prefix.
pub(crate) type PrefixHash = [u8; 32];

/// The scope of one caller's conversations. No scope has access to another scope's records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Scope {
    key: [u8; 32],
    /// Computed once: a request uses the tag about ten times.
    tag: ScopeTag,
}

impl Scope {
    /// Derives the scope of a caller from a secret and everything that distinguishes callers.
    pub fn new(secret: &[u8; 32], caller: &[&[u8]]) -> Self {
        // One buffer: the hasher of a stream costs more than such a short text.
        let mut text = Vec::with_capacity(SCOPE_TEXT_BYTES);
        for part in caller {
            text.extend_from_slice(&length_bytes(part.len()));
            text.extend_from_slice(part);
        }
        let key = blake3::keyed_hash(secret, &text).into();
        let tag_hash = blake3::keyed_hash(&key, b"tag");
        Self { key, tag: ScopeTag(first_bytes(tag_hash.as_bytes())) }
    }

    /// Derives the scope of one part of the caller's conversations, such as a path.
    #[must_use]
    pub fn of_part(&self, name: &str) -> Self {
        Self::new(&self.key, &[name.as_bytes()])
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.key
    }

    /// Returns the public tag of the scope.
    pub fn tag(self) -> ScopeTag {
        self.tag
    }

    /// Returns the key of data stored for this scope under a name rather than for a conversation.
    pub fn named_key(self, name: &str) -> RecordKey {
        let length = length_bytes(name.len());
        let text = [&FORM_VERSION.to_le_bytes()[..], b"m", &length, name.as_bytes()].concat();
        RecordKey::new(self.tag(), blake3::keyed_hash(&self.key, &text).into())
    }
}

impl Hash for Scope {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag.hash(state);
    }
}

/// Public tag of a scope, for listings: enough to distinguish callers, and useless for deriving
/// keys.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ScopeTag(pub [u8; 8]);

/// One word for a hasher: a slice would be its length and its bytes.
impl Hash for ScopeTag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from_ne_bytes(self.0));
    }
}

/// The key of one prefix of one caller's conversation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordKey {
    scope: ScopeTag,
    prefix_hash: PrefixHash,
}

impl RecordKey {
    /// Length of the stored form, in bytes.
    pub const BYTES: usize = 40;

    pub(crate) fn new(scope: ScopeTag, prefix_hash: PrefixHash) -> Self {
        Self { scope, prefix_hash }
    }

    /// Returns the key of the same prefix after the leading messages with this hash.
    pub(crate) fn with_head(self, head: &[u8; 32]) -> Self {
        // Longer than any block that extends a prefix by a message.
        let block = [head.as_slice(), b"leading messages"].concat();
        Self { prefix_hash: blake3::keyed_hash(&self.prefix_hash, &block).into(), ..self }
    }

    /// Returns the tag of the scope that the key belongs to.
    pub fn scope(self) -> ScopeTag {
        self.scope
    }

    /// Returns the stored form, which begins with the scope's tag.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (scope, prefix_hash) = bytes.split_at_mut(size_of::<ScopeTag>());
        scope.copy_from_slice(&self.scope.0);
        prefix_hash.copy_from_slice(&self.prefix_hash);
        bytes
    }

    /// Parses the stored form; `None` if `bytes` has the wrong length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (scope, prefix_hash) = bytes.split_at_checked(size_of::<ScopeTag>())?;
        Some(Self {
            scope: ScopeTag(scope.try_into().ok()?),
            prefix_hash: prefix_hash.try_into().ok()?,
        })
    }
}

/// The first word of the prefix hash, which the scope's secret keys: no caller chooses its bits.
impl Hash for RecordKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from_ne_bytes(first_bytes(&self.prefix_hash)));
    }
}

/// Returns the first eight bytes of a hash.
pub(crate) fn first_bytes(hash: &[u8; 32]) -> [u8; 8] {
    hash.first_chunk().copied().unwrap_or_default()
}

pub(crate) fn length_bytes(bytes: usize) -> [u8; 8] {
    (bytes as u64).to_le_bytes()
}

/// Hashes a field with a tag and its length, so that adjacent fields cannot be confused.
pub(crate) fn hash_field(hasher: &mut blake3::Hasher, tag: u8, bytes: &str) {
    hasher.update(&[tag]);
    hasher.update(&length_bytes(bytes.len()));
    hasher.update(bytes.as_bytes());
}
