//! Ties between messages, and the cuts that they forbid.

use crate::json::scanner::values_after;

/// A tie between a message and its neighbours, which a cut must respect. Only dialects that
/// map each item to a message use variants other than [`NeighbourLink::Free`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum NeighbourLink {
    /// The provider's own summary of everything before it.
    Compaction,
    /// The order to the provider to write such a summary.
    CompactionOrder,
    /// No tie except that of a call to its result.
    #[default]
    Free,
    /// The model's reasoning: the provider refuses it without the item after it, and that item
    /// without the reasoning.
    Reasoning,
    /// A reference to an item that only the provider has. It may be tied to either neighbour.
    Reference,
    /// Definitions of tools that later calls use.
    Tools,
    /// An item of an unknown kind, which may be tied to either neighbour.
    Unknown,
}

/// Restrictions on cuts that follow from a dialect's own kinds of messages.
#[derive(Debug, Default)]
pub(crate) struct CutRules {
    /// Number of messages at the start that no rewrite touches. Leading instructions need no rule.
    pub(crate) pinned: usize,
    /// For each message, whether the upstream refuses it without the message before it. Empty if
    /// every unit stands alone.
    pub(crate) joined: Vec<bool>,
}

/// Ties between messages that stand apart.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    /// Number of ties that begin or end at each message.
    changes: Vec<i32>,
}

impl Ties {
    /// Forbids every cut between the messages `first` and `last`.
    pub(crate) fn join(&mut self, first: usize, last: usize) {
        if first >= last {
            return;
        }
        self.changes.resize(self.changes.len().max(last + 2), 0);
        for (at, change) in [(first + 1, 1), (last + 1, -1)] {
            if let Some(sum) = self.changes.get_mut(at) {
                *sum += change;
            }
        }
    }

    /// Returns, for each of `messages` messages, whether a tie forbids a cut before it. Empty without a tie.
    pub(crate) fn joined(&self, messages: usize) -> Vec<bool> {
        let mut open = 0;
        let joined = self.changes.iter().take(messages).map(|change| {
            open += change;
            open > 0
        });
        joined.collect()
    }
}

/// Key of the program that made a call.
const CALLER: &str = r#""caller""#;

/// Returns the strings of the `caller` in each call of an object, the id of the program among them. Text
/// cannot hold the key, because its quotation marks are escaped.
pub(crate) fn callers(object: &str) -> impl Iterator<Item = &str> {
    let values = values_after(object, CALLER);
    let callers = values.filter_map(|value| value.strip_prefix('{')?.split('}').next());
    callers.flat_map(|members| members.split('"').skip(1).step_by(2))
}
