//! What a second refusal shows to the conversation that met it, whatever was accepted of others: an
//! error without a proof is believed by nobody else.

use std::sync::atomic::{AtomicBool, Ordering};

use super::REFUSAL_TTL_MS;
use crate::lock::Mutex;
use crate::rewrite::chain::{PrefixKeys, RecordKey};
use crate::rewrite::generations::TwoGenerationCache;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::lesson::Timestamped;
use crate::wall_clock;

/// Conversations remembered at the least, and twice as many at the most.
const CONVERSATIONS_PER_GENERATION: usize = 512;

/// What conversations were shown, by the prefix that they had then.
pub(super) struct ConversationWindows {
    /// Whether there was ever one: most processes meet none, and each prefix would be looked for.
    has_entries: AtomicBool,
    by_prefix: Mutex<TwoGenerationCache<RecordKey, ConversationWindow>>,
}

/// What one was shown.
#[derive(Clone)]
struct ConversationWindow {
    model: String,
    /// The window; none where that was wrong.
    window: Timestamped<Option<Tokens>>,
}

impl Default for ConversationWindows {
    fn default() -> Self {
        Self {
            has_entries: AtomicBool::default(),
            by_prefix: Mutex::new(TwoGenerationCache::new(CONVERSATIONS_PER_GENERATION)),
        }
    }
}

impl ConversationWindows {
    /// The window that a conversation was shown, for a day.
    pub(super) fn get(&self, chains: &PrefixKeys) -> Option<Tokens> {
        if !self.has_entries.load(Ordering::Acquire) {
            return None;
        }
        let mut shown = self.by_prefix.lock();
        let mut prefixes = chains.newest_first();
        let found = prefixes.find_map(|(_, key)| {
            let found = shown.get(&key);
            found.filter(|found| found.model == chains.model())
        })?;
        let since = wall_clock::unix_millis().saturating_sub(REFUSAL_TTL_MS);
        found
            .window
            .what
            .filter(|_| found.window.is_at_or_after(since))
    }

    /// A conversation is shown a window.
    pub(super) fn learn(&self, chains: &PrefixKeys, window: Tokens) {
        self.has_entries.store(true, Ordering::Release);
        self.insert(chains, Some(window));
    }

    /// A request of that size was accepted of a conversation: a smaller window was shown wrongly.
    pub(super) fn record_accepted(&self, chains: &PrefixKeys, request: Tokens) {
        if self.get(chains).is_some_and(|window| request > window) {
            self.insert(chains, None);
        }
    }

    fn insert(&self, chains: &PrefixKeys, window: Option<Tokens>) {
        if let Some((_, key)) = chains.stable_prefix() {
            let shown = ConversationWindow {
                model: chains.model().to_owned(),
                window: Timestamped::superseding(None, wall_clock::unix_millis(), window),
            };
            self.by_prefix.lock().insert(key, shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::chain::Scope;
    use crate::rewrite::chat_completions::read;

    /// A conversation that has come as far as `words`, asked of `model`.
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
    fn what_one_conversation_was_shown_of_a_model_is_known_as_it_grows_and_of_no_other() {
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
    fn what_is_larger_and_accepted_ends_it() {
        let own = ConversationWindows::default();
        let accepted = |words: &[&str], request| {
            let chains = conversation("m", words);
            own.record_accepted(&chains, Tokens::new(request));
            own.get(&chains)
        };
        own.learn(&conversation("m", &["a"]), Tokens::new(10));
        assert_eq!(accepted(&["a", "b"], 10), Some(Tokens::new(10)));
        assert_eq!(accepted(&["a", "b"], 11), None);
        assert_eq!(accepted(&["a", "b", "c"], 5), None);
    }
}
