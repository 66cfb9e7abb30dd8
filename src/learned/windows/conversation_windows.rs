//! Windows of single conversations, learned from a second refusal. An error without proof affects
//! no other conversation, and accepted requests of others do not matter here.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::learned::CONVERSATIONS_PER_CALLER;
use crate::learned::windows::REFUSAL_TTL_MS;
use crate::wall_clock;
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::Timestamped;

/// Windows of single conversations, by the prefix that the next request shared at the time of the refusal.
#[derive(Default)]
pub(crate) struct ConversationWindows {
    /// Whether a window was ever stored. Most processes store none, and the flag saves them a
    /// look-up for each prefix.
    has_entries: AtomicBool,
    by_prefix: LockedCache<RecordKey, ConversationWindow, CONVERSATIONS_PER_CALLER>,
}

#[derive(Clone)]
struct ConversationWindow {
    model: String,
    /// The window; the inner `None` once disproved.
    window: Timestamped<Option<Tokens>>,
}

impl ConversationWindows {
    /// Returns the policy window of a conversation alone, for a day after the refusal.
    pub(crate) fn get(&self, prefix_keys: &PrefixKeys) -> Option<Tokens> {
        if !self.has_entries.load(Ordering::Acquire) {
            return None;
        }
        let mut shown = self.by_prefix.lock();
        let mut prefixes = prefix_keys.newest_first();
        let found = prefixes.find_map(|(_, key)| {
            let found = shown.get(&key);
            found.filter(|found| found.model == prefix_keys.model())
        })?;
        let since = wall_clock::unix_millis().saturating_sub(REFUSAL_TTL_MS);
        let window = found.window;
        window.value.filter(|_| window.is_at_or_after(since))
    }

    pub(super) fn learn(&self, prefix_keys: &PrefixKeys, window: Tokens) {
        self.has_entries.store(true, Ordering::Release);
        self.insert(prefix_keys, Some(window));
    }

    /// Discards the conversation's window if it is smaller than this accepted request.
    pub(crate) fn record_accepted(&self, prefix_keys: &PrefixKeys, request: Tokens) {
        if self.get(prefix_keys).is_some_and(|window| request > window) {
            self.insert(prefix_keys, None);
        }
    }

    pub(super) fn clear(&self) {
        self.by_prefix.lock().clear();
    }

    fn insert(&self, prefix_keys: &PrefixKeys, window: Option<Tokens>) {
        if let Some((_, key)) = prefix_keys.shared_prefix() {
            let shown = ConversationWindow {
                model: prefix_keys.model().to_owned(),
                window: Timestamped::superseding(None, wall_clock::unix_millis(), window),
            };
            self.by_prefix.lock().insert(key, shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::dialect::chat_completions::read;
    use longhaul_core::units::scope::Scope;

    /// Builds a conversation of `model` with one turn for each of `words`.
    fn conversation(model: &str, words: &[&str]) -> PrefixKeys {
        let turn = |word: &&str| {
            format!(
                r#"{{"role":"user","content":"{word}"}},{{"role":"assistant","content":"{word}"}}"#
            )
        };
        let turns: Vec<String> = words.iter().map(turn).collect();
        let body = format!(r#"{{"model":"{model}","messages":[{}]}}"#, turns.join(","));
        let conversation = read(body.as_bytes()).unwrap();
        PrefixKeys::new(&conversation, Scope::new(&[7; 32], &[]))
    }

    #[test]
    fn learned_window_applies_as_its_conversation_grows_and_to_no_other() {
        let own = ConversationWindows::default();
        let of = |model, words: &[&str]| own.get(&conversation(model, words));
        assert_eq!(of("m", &["a", "b"]), None);
        own.learn(&conversation("m", &["a", "b"]), Tokens::new(10));
        assert_eq!(of("m", &["a", "b"]), Some(Tokens::new(10)));
        assert_eq!(of("m", &["a", "b", "c", "d"]), Some(Tokens::new(10)));
        assert_eq!(of("m", &["x", "b"]), None);
        assert_eq!(of("n", &["a", "b"]), None);
    }

    #[test]
    fn larger_accepted_request_removes_the_conversation_window() {
        let own = ConversationWindows::default();
        let accepted = |words: &[&str], request| {
            let prefix_keys = conversation("m", words);
            own.record_accepted(&prefix_keys, Tokens::new(request));
            own.get(&prefix_keys)
        };
        own.learn(&conversation("m", &["a"]), Tokens::new(10));
        assert_eq!(accepted(&["a", "b"], 10), Some(Tokens::new(10)));
        assert_eq!(accepted(&["a", "b"], 11), None);
        assert_eq!(accepted(&["a", "b", "c"], 5), None);
    }
}
