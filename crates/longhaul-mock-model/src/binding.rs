//! The binding of reasoning to everything that a provider rendered before it, whatever the API.
//!
//! An API turns a request into a [`Prompt`]. [`ReasoningBook::judge`] walks it. An accepted request goes into
//! the book with [`ReasoningBook::commit`], and so does the reasoning of its reply.

mod book;
mod learned;
pub(crate) mod models;
mod prefix;
#[cfg(test)]
mod tests;

use crate::record::DroppedReasoning;
pub(crate) use book::ReasoningBook;
use book::{Bound, Covered};
pub(crate) use prefix::{Prefix, hash, link};

/// The part that a unit plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A compaction, named by its sealed content. A compaction without a seal has no name.
    Compaction(Option<String>),
    Other,
    /// Reasoning, named by its sealed content or by its id.
    Reasoning(String),
}

/// An item or a block of a request.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) part: Part,
    pub(crate) hash: u64,
    /// Whether the model made the unit.
    pub(crate) is_made: bool,
    /// The role of the message around the unit; empty for other items.
    pub(crate) role: String,
    /// The place of the unit: its item or message, and its block.
    pub(crate) place: (usize, usize),
    pub(crate) id: Option<String>,
}

/// A request as the provider renders it.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    /// The hash of everything before the units.
    pub(crate) start: u64,
    pub(crate) caller: u64,
    pub(crate) model: String,
    pub(crate) units: Vec<Unit>,
}

impl Prompt {
    /// Returns the number of the conversation: its first words of a user, and its caller.
    fn conversation(&self) -> u64 {
        let first = self.units.iter().find(|unit| unit.role == "user");
        link(self.caller, first.map_or(0, |unit| unit.hash))
    }
}

/// Rules of an API and a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindingRules {
    /// Whether each item of reasoning names its predecessor.
    pub(crate) is_chained: bool,
    /// Whether the first mismatch takes all later reasoning with it, also what was made since.
    pub(crate) takes_all_later: bool,
    /// Whether reasoning is a part of the prefix of later reasoning.
    pub(crate) counts_reasoning: bool,
    /// Whether the model reads reasoning in spite of a mismatch, so that new reasoning names it.
    pub(crate) reads_failing: bool,
    /// Whether reasoning is bound to its caller.
    pub(crate) is_bound_to_caller: bool,
    /// Whether the second model reads the reasoning of the first.
    pub(crate) reads: fn(&str, &str) -> bool,
}

/// The reason for which reasoning does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// Another caller received the reasoning.
    Caller,
    /// The predecessor is missing, or another stands in its place.
    Gap,
    /// A model made the reasoning that this model does not read.
    Model,
    /// Something before the reasoning differs.
    Prefix,
}

/// A judged prompt.
#[derive(Debug, Default)]
pub(crate) struct JudgedPrompt {
    /// Units of reasoning that do not hold.
    pub(crate) breaches: Vec<(Unit, Mismatch)>,
    prefix: Prefix,
    /// The exact hash before each unit.
    exacts: Vec<u64>,
    /// The newest reasoning that holds.
    newest: Option<String>,
    bound: Vec<(String, Bound)>,
    covers: Vec<(String, Covered)>,
}

impl JudgedPrompt {
    /// Begins the prefix of the reply anew, at a compaction that the reply starts with.
    pub(crate) fn restart(&mut self, prompt: &Prompt, compaction: u64) {
        self.prefix.restart(link(prompt.start, compaction), Vec::new());
        self.newest = None;
    }

    /// Returns the breaches as records of requests show them.
    pub(crate) fn dropped(&self, reason: fn(Mismatch) -> &'static str) -> Vec<DroppedReasoning> {
        let dropped = self.breaches.iter().map(|(unit, mismatch)| {
            let key =
                if let Part::Reasoning(key) = &unit.part { key.clone() } else { String::new() };
            DroppedReasoning {
                key,
                id: unit.id.clone(),
                place: unit.place,
                reason: reason(*mismatch),
            }
        });
        dropped.collect()
    }
}
