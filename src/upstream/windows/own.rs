//! What a second refusal shows to the conversation that met it, whatever was accepted of others: an
//! error without a proof is believed by nobody else.

use std::sync::atomic::{AtomicBool, Ordering};

use super::BELIEVED_FOR;
use crate::lock::Mutex;
use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::generations::Generations;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::lesson::Lesson;
use crate::wall_clock;

/// Conversations remembered at the least, and twice as many at the most.
const CONVERSATIONS: usize = 512;

/// What conversations were shown, by the prefix that they had then.
pub(super) struct Own {
    /// Whether there was ever one: most processes meet none, and each prefix would be looked for.
    any: AtomicBool,
    shown: Mutex<Generations<RecordKey, Shown>>,
}

/// What one was shown.
#[derive(Clone)]
struct Shown {
    model: String,
    /// The window; none where that was wrong.
    window: Lesson<Option<Tokens>>,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            any: AtomicBool::default(),
            shown: Mutex::new(Generations::new(CONVERSATIONS)),
        }
    }
}

impl Own {
    /// The window that a conversation was shown, for a day.
    pub(super) fn of(&self, chains: &Chains) -> Option<Tokens> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut shown = self.shown.lock();
        let mut prefixes = chains.newest_first();
        let found = prefixes.find_map(|(_, key)| {
            let found = shown.get(&key);
            found.filter(|found| found.model == chains.model())
        })?;
        let since = wall_clock::millis().saturating_sub(BELIEVED_FOR);
        found.window.what.filter(|_| found.window.is_since(since))
    }

    /// A conversation is shown a window.
    pub(super) fn refused(&self, chains: &Chains, window: Tokens) {
        self.any.store(true, Ordering::Release);
        self.keep(chains, Some(window));
    }

    /// A request of that size was accepted of a conversation: a smaller window was shown wrongly.
    pub(super) fn accepted(&self, chains: &Chains, request: Tokens) {
        if self.of(chains).is_some_and(|window| request > window) {
            self.keep(chains, None);
        }
    }

    fn keep(&self, chains: &Chains, window: Option<Tokens>) {
        if let Some((_, key)) = chains.lasting() {
            let shown = Shown {
                model: chains.model().to_owned(),
                window: Lesson::over(None, wall_clock::millis(), window),
            };
            self.shown.lock().insert(key, shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::chain::Scope;
    use crate::rewrite::chat_completions::read;

    /// A conversation that has come as far as `words`, asked of `model`.
    fn conversation(model: &str, words: &[&str]) -> Chains {
        let turn = |word: &&str| {
            format!(
                r#"{{"role":"user","content":"{word}"}},{{"role":"assistant","content":"{word}"}}"#
            )
        };
        let turns: Vec<String> = words.iter().map(turn).collect();
        let body = format!(r#"{{"model":"{model}","messages":[{}]}}"#, turns.join(","));
        let conversation = read(body.as_bytes()).unwrap();
        Chains::of(&conversation, Scope::new(&[7; 32], &[]))
    }

    #[test]
    fn what_one_conversation_was_shown_of_a_model_is_known_as_it_grows_and_of_no_other() {
        let own = Own::default();
        let of = |model, words: &[&str]| own.of(&conversation(model, words));
        assert_eq!(of("m", &["a", "b"]), None);
        own.refused(&conversation("m", &["a", "b"]), Tokens::new(10));
        assert_eq!(of("m", &["a", "b"]), Some(Tokens::new(10)));
        assert_eq!(of("m", &["a", "b", "c", "d"]), Some(Tokens::new(10)));
        assert_eq!(of("m", &["x", "b"]), None);
        assert_eq!(of("n", &["a", "b"]), None);
    }

    #[test]
    fn what_is_larger_and_accepted_ends_it() {
        let own = Own::default();
        let accepted = |words: &[&str], request| {
            let chains = conversation("m", words);
            own.accepted(&chains, Tokens::new(request));
            own.of(&chains)
        };
        own.refused(&conversation("m", &["a"]), Tokens::new(10));
        assert_eq!(accepted(&["a", "b"], 10), Some(Tokens::new(10)));
        assert_eq!(accepted(&["a", "b"], 11), None);
        assert_eq!(accepted(&["a", "b", "c"], 5), None);
    }
}
