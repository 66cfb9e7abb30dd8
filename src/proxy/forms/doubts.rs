//! Conversations of which what we made was refused, and nobody knows why.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::rewrite::chain::RecordKey;
use crate::rewrite::generations::Generations;

/// Conversations remembered at the least, and twice as many at the most.
const CONVERSATIONS: usize = 512;

/// What is thought of them.
pub(in crate::proxy) struct Doubts(Mutex<Generations<RecordKey, Doubt>>);

/// What is thought of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Doubt {
    /// It was refused as it came, too: the fault is its own.
    Excused,
    /// What we made of it was refused once, which may have been chance.
    Once,
    /// What we made of it was answered since.
    Settled,
}

impl Default for Doubts {
    fn default() -> Self {
        Self(Mutex::new(Generations::new(CONVERSATIONS)))
    }
}

impl Doubts {
    /// What we made of it was refused, and it was answered as it came. Says whether for the second time
    /// with no answer to the former between them: then it was no chance.
    pub(in crate::proxy) fn again(&self, conversation: RecordKey) -> bool {
        let mut kept = self.kept();
        let again = kept.get(&conversation) == Some(Doubt::Once);
        let doubt = if again { Doubt::Settled } else { Doubt::Once };
        kept.insert(conversation, doubt);
        again
    }

    /// It was refused as it came, too.
    pub(in crate::proxy) fn excuse(&self, conversation: RecordKey) {
        self.kept().insert(conversation, Doubt::Excused);
    }

    /// Whether its refusals are its own fault.
    pub(in crate::proxy) fn is_excused(&self, conversation: RecordKey) -> bool {
        self.kept().get(&conversation) == Some(Doubt::Excused)
    }

    /// Whether an answer to what we make of it would be news.
    pub(in crate::proxy) fn is_open(&self, conversation: RecordKey) -> bool {
        let doubt = self.kept().get(&conversation);
        doubt.is_some_and(|doubt| doubt != Doubt::Settled)
    }

    /// What we made of it was answered.
    pub(in crate::proxy) fn settle(&self, conversation: RecordKey) {
        self.kept().insert(conversation, Doubt::Settled);
    }

    /// What it holds is whole after every statement, so a panic elsewhere does not spoil it.
    fn kept(&self) -> MutexGuard<'_, Generations<RecordKey, Doubt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::conversation as key;
    use super::*;

    #[test]
    fn what_is_refused_once_may_be_chance_and_twice_in_a_row_is_none() {
        let (doubts, one) = (Doubts::default(), key(1));
        assert!(!doubts.again(one));
        doubts.settle(one);
        assert!(!doubts.again(one));
        assert!(!doubts.again(key(2)));
        assert!(doubts.again(one));
        assert!(!doubts.again(one), "another form has a chance of its own");
    }

    #[test]
    fn what_is_refused_as_it_came_is_excused_until_what_we_make_of_it_is_answered() {
        let (doubts, one) = (Doubts::default(), key(1));
        assert!(!doubts.is_excused(one) && !doubts.is_open(one));
        doubts.excuse(one);
        assert!(doubts.is_excused(one) && doubts.is_open(one));
        doubts.settle(one);
        assert!(!doubts.is_excused(one) && !doubts.is_open(one));
    }
}
