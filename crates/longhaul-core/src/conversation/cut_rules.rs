//! Ties between messages, and the cuts that they forbid.

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
