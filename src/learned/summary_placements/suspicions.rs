//! Conversations with rewrites that were refused for an unknown reason.

use crate::learned::CONVERSATIONS_PER_CALLER;
use crate::learned::summary_placements::ConversationModelKey;
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::units::scope::RecordKey;

/// Unexplained refusals, by conversation and model.
#[derive(Default)]
pub(crate) struct RefusalSuspicions(
    LockedCache<ConversationModelKey, SuspicionState, CONVERSATIONS_PER_CALLER>,
);

/// State of one conversation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SuspicionState {
    /// The original was refused too, so the conversation itself is at fault.
    OriginalRefused,
    /// A rewrite was refused once, possibly by chance, when the conversation ended at this prefix.
    RefusedOnce(RecordKey),
    /// No refusal is unresolved: a rewrite was accepted since, or a second refusal was attributed
    /// to the placement.
    Resolved,
}

impl RefusalSuspicions {
    /// Records a refused rewrite whose original was accepted. `now` is the current prefix, and
    /// `prefixes` are all prefixes of the conversation.
    ///
    /// Returns whether this is the second refusal in a row, which rules out chance. A refusal in
    /// another branch of the conversation does not count.
    pub(crate) fn record_refusal(
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

    /// Records that the original was refused too.
    pub(crate) fn record_original_refused(&self, conversation: ConversationModelKey) {
        self.0
            .lock()
            .insert(conversation, SuspicionState::OriginalRefused);
    }

    /// Whether the conversation itself caused its refusals.
    pub(crate) fn was_original_refused(&self, conversation: &ConversationModelKey) -> bool {
        self.0.lock().get(conversation) == Some(SuspicionState::OriginalRefused)
    }

    /// Whether an accepted rewrite would change the state.
    pub(crate) fn is_unresolved(&self, conversation: &ConversationModelKey) -> bool {
        let doubt = self.0.lock().get(conversation);
        doubt.is_some_and(|doubt| doubt != SuspicionState::Resolved)
    }

    /// Records that a rewrite was accepted.
    pub(crate) fn resolve(&self, conversation: ConversationModelKey) {
        self.0.lock().insert(conversation, SuspicionState::Resolved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::summary_placements::tests::conversation as key;

    fn one() -> ConversationModelKey {
        ConversationModelKey::new(key(1), "m")
    }

    /// Records a refusal of conversation 1 at the last of `prefixes`.
    fn again(doubts: &RefusalSuspicions, prefixes: &[u8]) -> bool {
        let now = key(*prefixes.last().unwrap());
        doubts.record_refusal(one(), now, prefixes.iter().copied().map(key))
    }

    #[test]
    fn suspects_a_placement_only_at_the_second_refusal_in_a_row() {
        let doubts = RefusalSuspicions::default();
        assert!(!again(&doubts, &[1, 2]));
        doubts.resolve(one());
        assert!(!again(&doubts, &[1, 2, 3]));
        assert!(again(&doubts, &[1, 2, 3, 4]));
        assert!(
            !again(&doubts, &[1, 2, 3, 4]),
            "another placement starts without refusals"
        );
    }

    #[test]
    fn conversations_with_a_common_start_have_separate_suspicions() {
        let doubts = RefusalSuspicions::default();
        assert!(!again(&doubts, &[1, 2]));
        assert!(!again(&doubts, &[1, 3]));
        assert!(again(&doubts, &[1, 3]), "the same request repeated");
    }

    #[test]
    fn refused_original_stays_unresolved_until_a_rewrite_is_accepted() {
        let (doubts, one) = (RefusalSuspicions::default(), one());
        assert!(!doubts.was_original_refused(&one) && !doubts.is_unresolved(&one));
        doubts.record_original_refused(one.clone());
        let other = ConversationModelKey::new(key(1), "other");
        assert!(
            !doubts.was_original_refused(&other),
            "the original was refused by another model"
        );
        assert!(doubts.was_original_refused(&one) && doubts.is_unresolved(&one));
        doubts.resolve(one.clone());
        assert!(!doubts.was_original_refused(&one) && !doubts.is_unresolved(&one));
    }
}
