//! Conversations of which what we made was refused, and nobody knows why.

use super::ConversationModelKey;
use crate::lock::Mutex;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::generations::TwoGenerationCache;

/// Conversations remembered at the least, and twice as many at the most.
const CONVERSATIONS: usize = 512;

/// What is thought of them.
pub(in crate::proxy) struct RefusalSuspicions(
    Mutex<TwoGenerationCache<ConversationModelKey, SuspicionState>>,
);

/// What is thought of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SuspicionState {
    /// It was refused as it came, too: the fault is its own.
    OriginalRefused,
    /// What we made of it was refused once, which may have been chance: so far had it come.
    RefusedOnce(RecordKey),
    /// What we made of it was answered since.
    Resolved,
}

impl Default for RefusalSuspicions {
    fn default() -> Self {
        Self(Mutex::new(TwoGenerationCache::new(CONVERSATIONS)))
    }
}

impl RefusalSuspicions {
    /// What we made of it was refused, and it was answered as it came. It has come as far as `now`, by
    /// way of `prefixes`. Says whether for the second time with no answer to the former between them: then
    /// it was no chance. What began alike and went another way is not the same.
    pub(in crate::proxy) fn record_refusal(
        &self,
        conversation: ConversationModelKey,
        now: RecordKey,
        mut prefixes: impl Iterator<Item = RecordKey>,
    ) -> bool {
        let mut kept = self.0.lock();
        let again = matches!(
            kept.get(&conversation),
            Some(SuspicionState::RefusedOnce(then)) if prefixes.any(|prefix| prefix == then)
        );
        let doubt = if again {
            SuspicionState::Resolved
        } else {
            SuspicionState::RefusedOnce(now)
        };
        kept.insert(conversation, doubt);
        again
    }

    /// It was refused as it came, too.
    pub(in crate::proxy) fn record_original_refused(&self, conversation: ConversationModelKey) {
        self.0
            .lock()
            .insert(conversation, SuspicionState::OriginalRefused);
    }

    /// Whether its refusals are its own fault.
    pub(in crate::proxy) fn was_original_refused(
        &self,
        conversation: &ConversationModelKey,
    ) -> bool {
        self.0.lock().get(conversation) == Some(SuspicionState::OriginalRefused)
    }

    /// Whether an answer to what we make of it would be news.
    pub(in crate::proxy) fn is_unresolved(&self, conversation: &ConversationModelKey) -> bool {
        let doubt = self.0.lock().get(conversation);
        doubt.is_some_and(|doubt| doubt != SuspicionState::Resolved)
    }

    /// What we made of it was answered.
    pub(in crate::proxy) fn resolve(&self, conversation: ConversationModelKey) {
        self.0.lock().insert(conversation, SuspicionState::Resolved);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::conversation as key;
    use super::*;

    fn one() -> ConversationModelKey {
        ConversationModelKey::new(key(1), "m")
    }

    /// Conversation 1, which has come by way of `prefixes` to the last of them.
    fn again(doubts: &RefusalSuspicions, prefixes: &[u8]) -> bool {
        let now = key(*prefixes.last().unwrap());
        doubts.record_refusal(one(), now, prefixes.iter().copied().map(key))
    }

    #[test]
    fn what_is_refused_once_may_be_chance_and_twice_in_a_row_is_none() {
        let doubts = RefusalSuspicions::default();
        assert!(!again(&doubts, &[1, 2]));
        doubts.resolve(one());
        assert!(!again(&doubts, &[1, 2, 3]));
        assert!(again(&doubts, &[1, 2, 3, 4]));
        assert!(
            !again(&doubts, &[1, 2, 3, 4]),
            "another form has a chance of its own"
        );
    }

    #[test]
    fn two_conversations_that_began_alike_have_each_a_chance_of_their_own() {
        let doubts = RefusalSuspicions::default();
        assert!(!again(&doubts, &[1, 2]));
        assert!(!again(&doubts, &[1, 3]));
        assert!(again(&doubts, &[1, 3]), "the same request once more");
    }

    #[test]
    fn what_is_refused_as_it_came_is_excused_until_what_we_make_of_it_is_answered() {
        let (doubts, one) = (RefusalSuspicions::default(), one());
        assert!(!doubts.was_original_refused(&one) && !doubts.is_unresolved(&one));
        doubts.record_original_refused(one.clone());
        let other = ConversationModelKey::new(key(1), "other");
        assert!(
            !doubts.was_original_refused(&other),
            "it is another model's"
        );
        assert!(doubts.was_original_refused(&one) && doubts.is_unresolved(&one));
        doubts.resolve(one.clone());
        assert!(!doubts.was_original_refused(&one) && !doubts.is_unresolved(&one));
    }
}
