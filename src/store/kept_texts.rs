//! Texts that a caller or the agent wants to stay in one conversation.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::FairCache;
use crate::limits::MAX_KEPT_CHARS;
use longhaul_core::policy::KeptText;
use longhaul_core::units::scope::RecordKey;

/// Maximum texts of a conversation, and the bytes of all of them: more than a small window has room for.
const MAX_TEXTS: usize = 32;
const MAX_TEXT_BYTES: usize = 8 << 10;
/// Bytes of the lists of all conversations. The owner of a conversation has an equal share.
const MAX_BYTES: u64 = 16 << 20;
/// Bytes of a list without its texts: the key, and the bookkeeping of the cache.
const ENTRY_OVERHEAD_BYTES: u64 = 256;

/// The texts of one conversation, oldest first.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptTexts {
    /// Number of changes so far. Of two lists, the one with more is newer.
    changes: u64,
    texts: Vec<KeptText>,
}

/// A text that a list does not take: empty, too long, with control characters, or beyond the bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NotKept;

impl KeptTexts {
    pub(crate) fn texts(&self) -> &[KeptText] {
        &self.texts
    }

    /// Adds a text, unless the list has it. A text of the agent becomes a person's if a person adds the
    /// text too.
    ///
    /// # Errors
    /// [`NotKept`] if the text is not valid, or exceeds a bound of the conversation.
    pub(crate) fn keep(&mut self, text: &str, by_agent: bool) -> Result<(), NotKept> {
        let text = text.trim();
        let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if text.is_empty() || text.chars().count() > MAX_KEPT_CHARS || text.contains(is_odd) {
            return Err(NotKept);
        }
        let known = self.texts.iter_mut().find(|kept| kept.text == text);
        if let Some(known) = known {
            self.changes += u64::from(known.by_agent && !by_agent);
            known.by_agent &= by_agent;
            return Ok(());
        }
        let bytes: usize = self.texts.iter().map(|kept| kept.text.len()).sum();
        if self.texts.len() == MAX_TEXTS || bytes + text.len() > MAX_TEXT_BYTES {
            return Err(NotKept);
        }
        let text = text.to_owned();
        self.texts.push(KeptText { text, by_agent });
        self.changes += 1;
        Ok(())
    }

    /// Removes a text. The agent removes only texts that it added. Returns whether the text was removed.
    pub(crate) fn take_back(&mut self, text: &str, by_agent: bool) -> bool {
        let before = self.texts.len();
        let is_meant = |kept: &KeptText| kept.text == text.trim() && (kept.by_agent || !by_agent);
        self.texts.retain(|kept| !is_meant(kept));
        let is_removed = self.texts.len() < before;
        self.changes += u64::from(is_removed);
        is_removed
    }
}

pub(super) struct KeptCache(FairCache<RecordKey, Arc<KeptTexts>>);

impl KeptCache {
    /// Creates an empty cache that keeps lists for `idle` after their last use.
    pub(super) fn new(idle: Duration, accepted: &Arc<AcceptedCallers>) -> Self {
        Self(FairCache::new(MAX_BYTES, idle, |it| weight(it), accepted))
    }

    /// Whether no conversation has a list.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the list under the first of `keys` that has one.
    pub(super) fn get(&self, keys: &[RecordKey]) -> Option<Arc<KeptTexts>> {
        keys.iter().find_map(|key| self.0.get(key))
    }

    /// Changes the list under the first of `keys`, which begins as that of the next key. Returns the list
    /// if it is new or changed.
    pub(super) fn change(
        &self,
        keys: &[RecordKey],
        change: impl FnOnce(&mut KeptTexts),
    ) -> Option<(RecordKey, Arc<KeptTexts>)> {
        let key = *keys.first()?;
        let before = self.get(keys);
        let mut changed = None;
        self.0.update(key, |own| {
            let is_inherited = own.is_none() && before.is_some();
            let before = own.or(before).unwrap_or_default();
            let mut list = KeptTexts::clone(&before);
            change(&mut list);
            changed = (is_inherited || list != *before).then(|| Arc::new(list));
            changed.clone()
        });
        Some((key, changed?))
    }

    /// Adds a list that another process stored, unless the list here is newer.
    pub(super) fn merge(&self, key: RecordKey, stored: KeptTexts) {
        self.0.update(key, |own| {
            let is_newer = own.is_none_or(|own| own.changes < stored.changes);
            is_newer.then(|| Arc::new(stored))
        });
    }
}

fn weight(list: &KeptTexts) -> u64 {
    let bytes = |kept: &KeptText| kept.text.len() + size_of::<KeptText>();
    let bytes: usize = list.texts.iter().map(bytes).sum();
    ENTRY_OVERHEAD_BYTES + u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::units::scope::Scope;

    fn list(texts: &[(&str, bool)]) -> KeptTexts {
        let mut list = KeptTexts::default();
        for (text, by_agent) in texts {
            list.keep(text, *by_agent).unwrap();
        }
        list
    }

    #[test]
    fn the_agent_takes_back_only_its_own_wishes() {
        let mut kept = list(&[("a", true), ("b", false), (" a\n", false), ("c", true)]);
        assert!(!kept.take_back("a", true), "a person wants it by now");
        assert!(!kept.take_back("b", true) && kept.take_back(" c ", true));
        assert!(kept.take_back("b", false) && !kept.take_back("b", false));
        assert_eq!(kept.texts(), list(&[("a", false)]).texts(), "one text, by a person");
    }

    #[test]
    fn every_bound_holds() {
        let mut kept = KeptTexts::default();
        for wrong in ["", " \n", "a\0b", &"é".repeat(MAX_KEPT_CHARS + 1)] {
            assert_eq!(kept.keep(wrong, false), Err(NotKept));
        }
        for at in 0..MAX_TEXTS {
            assert_eq!(kept.keep(&at.to_string(), false), Ok(()));
        }
        assert_eq!(kept.keep("one more", false), Err(NotKept));
        assert_eq!(kept.keep("7", true), Ok(()), "an old one");
        let mut kept = list(&[(&"é".repeat(MAX_KEPT_CHARS), false)]);
        assert_eq!(kept.keep(&"x".repeat(193), false), Err(NotKept));
        assert_eq!(kept.keep(&"x".repeat(192), false), Ok(()));
    }

    #[test]
    fn a_conversation_begins_with_the_list_of_its_first_request() {
        let cache = KeptCache::new(Duration::from_hours(1), &Arc::default());
        let scope = Scope::new(&[0; 32], &[]);
        let [own, first] = ["own", "first"].map(|name| scope.named_key(name));
        assert!(cache.change(&[own, first], |_| {}).is_none());
        let keep = |text: &'static str| move |list: &mut KeptTexts| list.keep(text, false).unwrap();
        assert!(cache.change(&[first, first], keep("a")).is_some());
        let (key, copied) = cache.change(&[own, first], |_| {}).unwrap();
        assert_eq!((key, &*copied), (own, &list(&[("a", false)])));
        assert!(cache.change(&[own, first], |_| {}).is_none());
        cache.change(&[own, first], |list| assert!(list.take_back("a", false)));
        assert!(cache.get(&[own, first]).unwrap().texts().is_empty());
        cache.merge(own, list(&[("a", false)]));
        assert!(cache.get(&[own]).unwrap().texts().is_empty(), "newer here");
        let later = list(&[("a", false), ("b", false), ("c", true)]);
        cache.merge(own, later.clone());
        assert_eq!(*cache.get(&[own]).unwrap(), later);
    }
}
