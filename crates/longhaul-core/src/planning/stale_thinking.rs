//! Rule for the bound thinking that an edit makes stale.
//!
//! - An edit that was never sent before removes the bound thinking after it, up to the end of the
//!   request.
//! - The removals of earlier requests apply as they are: thinking made since then stays.
//! - If no removal of an edited conversation is known, all bound thinking after the first edit is
//!   removed once more.
//! - An edit with no bound thinking after it is noted, so that thinking made over it stays.
//!
//! Bound thinking that stays is always an unbroken run: a removal reaches to the end of its request.

use crate::conversation::{Conversation, Message};
use crate::planning::plan::{Replacement, RequestPlan};
use crate::planning::view::ForwardedView;
use crate::policy::placement::Placement;
use crate::policy::thinking_removal::{
    EditChain, PriorRemovals, PriorThinking, StaleThinking, ThinkingRemoval, merge_ranges,
};
use crate::units::scope::first_bytes;
use crate::units::tokens::Tokens;

impl RequestPlan {
    /// Removes the thinking that the edits of the plan make stale. Idempotent.
    #[must_use]
    pub fn without_stale_thinking(
        mut self,
        conversation: &Conversation<'_>,
        prior: &PriorThinking,
    ) -> Self {
        if !conversation.has_bound_thinking() && prior.stale != StaleThinking::Removed {
            return self;
        }
        self.removal = match prior.stale {
            StaleThinking::Ignored | StaleThinking::Kept => None,
            StaleThinking::Removed => {
                let edits = Edits::new(conversation, &self.view);
                let from = edits.first_new(&prior.removals);
                from.map(|from| edits.removal_from(conversation, &prior.removals, from))
            }
        };
        let removed = self.removal.as_ref();
        let ranges = removed.map_or_else(
            || prior.removed().to_vec(),
            |it| it.ranges(conversation.head_len()).collect(),
        );
        self.view.remove_thinking(ranges);
        self
    }

    /// Returns the plan without the bound thinking after its first edit, or after the first edit of
    /// an earlier request. If there is no edit, removes all bound thinking. Returns `None` if nothing
    /// more would be removed.
    #[must_use]
    pub fn without_thinking_behind_edits(
        &self,
        conversation: &Conversation<'_>,
        prior: &PriorThinking,
    ) -> Option<Self> {
        let (prior, edits) = (&prior.removals, Edits::new(conversation, &self.view));
        let from = edits.first_of_all(prior);
        let from = from.unwrap_or_else(|| conversation.head_len());
        let removal = edits.removal_from(conversation, prior, from);
        let mut plan = self.clone();
        plan.view.remove_thinking(removal.ranges(conversation.head_len()).collect());
        plan.removal = Some(removal);
        let left = |plan: &Self| plan.view.thinking_removals(conversation);
        (left(&plan) > left(self)).then_some(plan)
    }

    /// Returns the size of the thinking that the plan removes beyond earlier removals.
    pub(crate) fn newly_stale(
        &self,
        conversation: &Conversation<'_>,
        prior: &PriorThinking,
    ) -> Tokens {
        if self.removal.is_none() {
            return Tokens::ZERO;
        }
        let mut before = self.view.clone();
        before.remove_thinking(prior.removed().to_vec());
        before.tokens(conversation) - self.view.tokens(conversation)
    }

    /// Returns a note of the plan's edits, if some are new and no bound thinking follows these. Later
    /// requests then keep the thinking made over the edits.
    pub fn note_without_stale_thinking(
        &self,
        conversation: &Conversation<'_>,
        prior: &PriorThinking,
    ) -> Option<ThinkingRemoval> {
        let edits = Edits::new(conversation, &self.view);
        let from = edits.first_new(&prior.removals)?;
        let mut behind = conversation.messages().iter().skip(from);
        let is_bound = behind.any(|message| message.bound_thinking.is_some());
        (!is_bound).then(|| edits.removal_from(conversation, &prior.removals, from))
    }

    /// Counts the reasoning behind the new edits of an accepted plan: removed by longhaul, or dropped by a
    /// provider that may do so. Returns the count to store in the second case.
    pub fn lost_reasoning(
        &self,
        conversation: &Conversation<'_>,
        prior: &PriorThinking,
    ) -> (usize, Option<ThinkingRemoval>) {
        let (earlier, removal) = match (&self.removal, &prior.counted) {
            (Some(removal), _) => (&prior.removals, removal.clone()),
            (None, Some(counted)) => {
                let edits = Edits::new(conversation, &self.view);
                let Some(from) = edits.first_uncounted(counted) else {
                    return (0, None);
                };
                let removal = edits.removal_from(conversation, counted, from);
                let chain = edits.chained.iter().map(|(_, chain)| chain.hash);
                (counted, removal.as_count(chain.collect()))
            }
            (None, None) => return (0, None),
        };
        let lost = removal.ranges(conversation.head_len()).flatten();
        let lost = lost.filter(|at| {
            self.view.shows(*at) && !earlier.ranges.iter().any(|range| range.contains(at))
        });
        let count = lost.map(|at| conversation.reasoning_items(at)).sum();
        (count, removal.is_count().then_some(removal))
    }

    /// Whether the plan changes a byte that thinking may be bound to.
    pub fn has_edits(&self, conversation: &Conversation<'_>) -> bool {
        Edits::new(conversation, &self.view).first().is_some()
    }
}

/// Edits of a view in the order of the messages.
struct Edits {
    /// Message of each edit, with the chain up to and including it.
    chained: Vec<(usize, EditChain)>,
}

impl Edits {
    fn new(conversation: &Conversation<'_>, view: &ForwardedView) -> Self {
        let replacements = view.replacements(conversation);
        let mut chained = Vec::new();
        let mut hash = [0; 32];
        for cut in replacements.iter().flatten() {
            let mut hasher = blake3::Hasher::new_keyed(&hash);
            if let Some(at) = hash_edit(&mut hasher, cut, conversation) {
                hash = hasher.finalize().into();
                let chain = EditChain {
                    count: chained.len() + 1,
                    hash: u64::from_le_bytes(first_bytes(&hash)),
                };
                chained.push((at, chain));
            }
        }
        Self { chained }
    }

    /// Returns the message of the first edit.
    fn first(&self) -> Option<usize> {
        self.chained.first().map(|(at, _)| *at)
    }

    /// Returns the message of the first edit, or of the first removal of an earlier request.
    fn first_of_all(&self, prior: &PriorRemovals) -> Option<usize> {
        let removed = prior.ranges.first().map(|range| range.start);
        self.first().into_iter().chain(removed).min()
    }

    /// Returns the chain of the first `count` edits; `None` if there are fewer.
    fn chain(&self, count: usize) -> Option<EditChain> {
        match count.checked_sub(1) {
            None => Some(EditChain::default()),
            Some(last) => self.chained.get(last).map(|(_, chain)| *chain),
        }
    }

    /// Returns the message of the first edit that no earlier request had. If an earlier edit is
    /// gone or has changed, that is the first edit of all. Returns `None` without a new edit.
    fn first_new(&self, prior: &PriorRemovals) -> Option<usize> {
        let is_known = |it: &&EditChain| self.chain(it.count) == Some(**it);
        let known = prior.newest_edits.iter().filter(is_known);
        match known.map(|it| it.count).max() {
            Some(count) => self.chained.get(count).map(|(at, _)| *at),
            None => self.first_of_all(prior),
        }
    }

    /// Returns the message of the first edit with which these edits differ from those of every earlier count.
    fn first_uncounted(&self, prior: &PriorRemovals) -> Option<usize> {
        let hashes = || self.chained.iter().map(|(_, chain)| chain.hash);
        let common =
            |chain: &Vec<u64>| hashes().zip(chain).take_while(|(one, other)| one == *other).count();
        let known = prior.chains.iter().map(common).max().unwrap_or_default();
        self.chained.get(known).map(|(at, _)| *at)
    }

    /// Returns the removal from message `from` to the end of the conversation.
    fn removal_from(
        &self,
        conversation: &Conversation<'_>,
        prior: &PriorRemovals,
        from: usize,
    ) -> ThinkingRemoval {
        let messages = conversation.messages();
        let is_lost = |it: &Message| it.bound_thinking.is_some() || it.has_reasoning;
        let last = messages.iter().rposition(is_lost);
        let own = from..last.map_or(0, |last| last + 1).max(from);
        let ranges = prior.ranges.iter().cloned().chain([own]).collect();
        ThinkingRemoval::new(
            merge_ranges(ranges),
            self.chain(self.chained.len()).unwrap_or_default(),
            conversation.head_len(),
        )
    }
}

/// Adds an edit to a hash, with positions counted from the end of the leading messages. Returns its
/// message, or `None` if the provider binds no thinking to it.
fn hash_edit(
    hasher: &mut blake3::Hasher,
    cut: &Replacement,
    conversation: &Conversation<'_>,
) -> Option<usize> {
    let mut add = |tag: u8, numbers: &[usize], text: &str| {
        hasher.update(&[tag]);
        for number in numbers {
            hasher.update(&(*number as u64).to_le_bytes());
        }
        hasher.update(text.as_bytes());
    };
    let moved = |at: &usize| at.saturating_sub(conversation.head_len());
    match cut {
        Replacement::Arguments { result } => {
            add(b'a', &[moved(result)], "");
            conversation.batch_of(*result)?.results.start.checked_sub(1)
        }
        Replacement::History { from, to, text, placement } => {
            let tag = match placement {
                Placement::Merged => b'm',
                Placement::Separate => b's',
            };
            add(tag, &[moved(from), moved(to)], text);
            Some(*from)
        }
        Replacement::Image { at, part } => {
            add(b'i', &[moved(at), *part], "");
            Some(*at)
        }
        Replacement::Result { at, text, .. } => {
            add(b'r', &[moved(at)], text);
            Some(*at)
        }
        // Thinking behind the provider's own item stays valid.
        Replacement::Output { .. }
        | Replacement::Provider { .. }
        | Replacement::Thinking { .. }
        | Replacement::Words { .. } => None,
    }
}

#[cfg(test)]
mod tests;
