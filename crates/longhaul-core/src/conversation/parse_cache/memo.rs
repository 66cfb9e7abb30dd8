//! Values derived from a cached message, stored with its parse.

use crate::conversation::parse_cache::cache_entry::JoinedMemo;
use crate::conversation::parse_cache::script_sample::ScriptSample;
use crate::units::scope::PrefixHash;
use crate::units::tokens::Tokens;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Maximum bytes of all indexes in one cache. Further indexes are computed for each request.
/// A result takes about a tenth of its size, so that 32 MiB stand for 320 MB of cleared results.
pub(super) const MAX_INDEX_BYTES: usize = 32 << 20;

/// Lazily computed values. Each depends only on the message, so any caller may fill it in.
#[derive(Debug, Default)]
pub(crate) struct MessageMemo {
    /// The last prefix-hash step that ended with this message.
    pub(crate) hash_step: OnceLock<PrefixHashStep>,
    /// Whether the message only refers to an earlier read.
    pub(crate) is_reference: OnceLock<bool>,
    pub(crate) text_hash: OnceLock<[u8; 32]>,
    /// Cache marks in the bytes of the message, up to the maximum of a request.
    pub(crate) cache_marks: OnceLock<u8>,
    /// Characters of the message in a summary's section of user messages. `None` if the section leaves the
    /// message out.
    pub(crate) request_chars: OnceLock<Option<u32>>,
    /// The script that the text is written in.
    pub(crate) script: OnceLock<ScriptSample>,
    /// The memo of the joined message that ends with this message.
    pub(super) joined: OnceLock<JoinedMemo>,
    /// Identifiers of the text, with the budget that they were chosen for.
    index: OnceLock<(Tokens, StoredIndex)>,
    free_index_bytes: FreeIndexBytes,
}

impl MessageMemo {
    pub(super) fn new(free_index_bytes: FreeIndexBytes) -> Self {
        Self {
            free_index_bytes,
            ..Self::default()
        }
    }

    /// Returns an empty memo that counts its index with the same cache.
    pub(super) fn empty_sibling(&self) -> Self {
        Self::new(self.free_index_bytes.clone())
    }

    /// Returns the identifiers of the text, chosen for `budget`. Calls `compute` unless they are
    /// stored.
    pub(crate) fn index(&self, budget: Tokens, compute: impl FnOnce() -> String) -> Arc<str> {
        if let Some((_, stored)) = self.index.get().filter(|(made_for, _)| *made_for == budget) {
            return Arc::clone(&stored.text);
        }
        let text: Arc<str> = compute().into();
        if self.free_index_bytes.take(text.len()) {
            let stored = StoredIndex {
                text: Arc::clone(&text),
                free: self.free_index_bytes.clone(),
            };
            // A rejected value returns its bytes when it is dropped.
            _ = self.index.set((budget, stored));
        }
        text
    }
}

/// Bytes that further indexes of a cache may take, over all of its messages.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeIndexBytes(Arc<AtomicUsize>);

impl FreeIndexBytes {
    /// Creates the count of a cache without indexes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes `bytes` if as many are free.
    fn take(&self, bytes: usize) -> bool {
        let left = |free: usize| free.checked_sub(bytes);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        taken.is_ok()
    }
}

/// Stored index, which gives its bytes back when it is dropped.
#[derive(Debug)]
struct StoredIndex {
    text: Arc<str>,
    free: FreeIndexBytes,
}

impl Drop for StoredIndex {
    fn drop(&mut self) {
        self.free.0.fetch_add(self.text.len(), Ordering::Relaxed);
    }
}

/// A step of a prefix hash. The message's own text is not included, because the memo belongs to
/// that message alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixHashStep {
    /// Hash of the prefix before the message.
    pub(crate) before: PrefixHash,
    /// Index of the call that the message answers, among those before it.
    pub(crate) call_index: Option<usize>,
    /// Hash of the prefix that ends with the message.
    pub(crate) after: PrefixHash,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_computed_once_per_budget_and_gives_its_bytes_back() {
        let bytes = FreeIndexBytes::new(100);
        let memo = MessageMemo::new(bytes.clone());
        let free = || bytes.0.load(Ordering::Relaxed);
        let (small, large) = (Tokens::new(10), Tokens::new(20));
        assert_eq!(&*memo.index(small, || "a.rs".into()), "a.rs");
        assert_eq!(&*memo.index(small, || "other".into()), "a.rs");
        assert_eq!(&*memo.index(large, || "a.rs b.rs".into()), "a.rs b.rs");
        assert_eq!(free(), 100 - "a.rs".len());
        drop(memo);
        assert_eq!(free(), 100);
    }

    #[test]
    fn beyond_its_bound_a_cache_stores_no_index() {
        let bytes = FreeIndexBytes::new("a.r".len());
        let memo = MessageMemo::new(bytes.clone());
        let budget = Tokens::new(10);
        assert_eq!(&*memo.index(budget, || "a.rs".into()), "a.rs");
        assert_eq!(&*memo.index(budget, || "other".into()), "other");
        assert_eq!(bytes.0.load(Ordering::Relaxed), "a.r".len());
    }
}
