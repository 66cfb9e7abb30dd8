//! Conversations of which what we made was refused, and nobody knows why.

use super::InModel;
use crate::lock::Mutex;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::generations::Generations;

/// Conversations remembered at the least, and twice as many at the most.
const CONVERSATIONS: usize = 512;

/// What is thought of them.
pub(in crate::proxy) struct Doubts(Mutex<Generations<InModel, Doubt>>);

/// What is thought of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Doubt {
    /// It was refused as it came, too: the fault is its own.
    Excused,
    /// What we made of it was refused once, which may have been chance: so far had it come.
    Once(RecordKey),
    /// What we made of it was answered since.
    Settled,
}

impl Default for Doubts {
    fn default() -> Self {
        Self(Mutex::new(Generations::new(CONVERSATIONS)))
    }
}

impl Doubts {
    /// What we made of it was refused, and it was answered as it came. It has come as far as `now`, by
    /// way of `prefixes`. Says whether for the second time with no answer to the former between them: then
    /// it was no chance. What began alike and went another way is not the same.
    pub(in crate::proxy) fn again(
        &self,
        conversation: InModel,
        now: RecordKey,
        mut prefixes: impl Iterator<Item = RecordKey>,
    ) -> bool {
        let mut kept = self.0.lock();
        let again = matches!(
            kept.get(&conversation),
            Some(Doubt::Once(then)) if prefixes.any(|prefix| prefix == then)
        );
        let doubt = if again {
            Doubt::Settled
        } else {
            Doubt::Once(now)
        };
        kept.insert(conversation, doubt);
        again
    }

    /// It was refused as it came, too.
    pub(in crate::proxy) fn excuse(&self, conversation: InModel) {
        self.0.lock().insert(conversation, Doubt::Excused);
    }

    /// Whether its refusals are its own fault.
    pub(in crate::proxy) fn is_excused(&self, conversation: &InModel) -> bool {
        self.0.lock().get(conversation) == Some(Doubt::Excused)
    }

    /// Whether an answer to what we make of it would be news.
    pub(in crate::proxy) fn is_open(&self, conversation: &InModel) -> bool {
        let doubt = self.0.lock().get(conversation);
        doubt.is_some_and(|doubt| doubt != Doubt::Settled)
    }

    /// What we made of it was answered.
    pub(in crate::proxy) fn settle(&self, conversation: InModel) {
        self.0.lock().insert(conversation, Doubt::Settled);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::conversation as key;
    use super::*;

    fn one() -> InModel {
        InModel::new(key(1), "m")
    }

    /// Conversation 1, which has come by way of `prefixes` to the last of them.
    fn again(doubts: &Doubts, prefixes: &[u8]) -> bool {
        let now = key(*prefixes.last().unwrap());
        doubts.again(one(), now, prefixes.iter().copied().map(key))
    }

    #[test]
    fn what_is_refused_once_may_be_chance_and_twice_in_a_row_is_none() {
        let doubts = Doubts::default();
        assert!(!again(&doubts, &[1, 2]));
        doubts.settle(one());
        assert!(!again(&doubts, &[1, 2, 3]));
        assert!(again(&doubts, &[1, 2, 3, 4]));
        assert!(
            !again(&doubts, &[1, 2, 3, 4]),
            "another form has a chance of its own"
        );
    }

    #[test]
    fn two_conversations_that_began_alike_have_each_a_chance_of_their_own() {
        let doubts = Doubts::default();
        assert!(!again(&doubts, &[1, 2]));
        assert!(!again(&doubts, &[1, 3]));
        assert!(again(&doubts, &[1, 3]), "the same request once more");
    }

    #[test]
    fn what_is_refused_as_it_came_is_excused_until_what_we_make_of_it_is_answered() {
        let (doubts, one) = (Doubts::default(), one());
        assert!(!doubts.is_excused(&one) && !doubts.is_open(&one));
        doubts.excuse(one.clone());
        let other = InModel::new(key(1), "other");
        assert!(!doubts.is_excused(&other), "it is another model's");
        assert!(doubts.is_excused(&one) && doubts.is_open(&one));
        doubts.settle(one.clone());
        assert!(!doubts.is_excused(&one) && !doubts.is_open(&one));
    }
}
