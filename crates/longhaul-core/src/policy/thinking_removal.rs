//! Removals of bound thinking: stored so that later requests leave out the same thinking as earlier ones.
//!
//! A provider may bind thinking to every byte before it. An edit at message p, first sent in a
//! request of N messages, invalidates the thinking from p up to N. Thinking
//! produced later was signed over the edited request. That thinking stays valid only if later requests
//! leave out the same thinking.

use crate::prefix::keys::PrefixKeys;
use crate::units::scope::RecordKey;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Maximum ranges of one removal. Each new edit after the newest range adds one; an edit of older
/// bytes merges all after it.
const MAX_RANGES: usize = 64;
/// Maximum hashes of a chain. Later edits count again with the next new edit.
const MAX_CHAIN: usize = 256;

/// Fingerprint of the edits of a request, in the order of the messages.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EditChain {
    /// Number of edits.
    pub count: usize,
    /// Chained hash of the edits.
    pub hash: u64,
}

/// Removal of bound thinking from a conversation, as of one request.
///
/// Field names are those of the stored format.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ThinkingRemoval {
    /// Messages without bound thinking: ascending, disjoint, counted from the end of the leading
    /// system and developer messages, whose number changes from request to request.
    removed: Vec<Range<usize>>,
    /// Edits of the request.
    pub edits: EditChain,
    /// Hashes of the chain up to each edit, at most [`MAX_CHAIN`], if the ranges are only counted. The
    /// provider may have dropped their thinking, and longhaul sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted: Option<Vec<u64>>,
}

impl ThinkingRemoval {
    /// Creates the removal of `ranges` in a conversation with `head` leading messages. Past
    /// `MAX_RANGES`, one range replaces all: thinking may go missing at the end of the
    /// conversation, never in between.
    pub fn new(mut ranges: Vec<Range<usize>>, edits: EditChain, head: usize) -> Self {
        let end = ranges.last().map(|range| range.end);
        if ranges.len() > MAX_RANGES
            && let (Some(first), Some(end)) = (ranges.first_mut(), end)
        {
            first.end = end;
            ranges.truncate(1);
        }
        let from_head = |at: usize| at.saturating_sub(head);
        Self {
            removed: ranges
                .into_iter()
                .map(|range| from_head(range.start)..from_head(range.end))
                .collect(),
            edits,
            counted: None,
        }
    }

    /// Returns the same as a count, with the hashes of the chain up to each edit.
    #[must_use]
    pub fn as_count(self, mut chain: Vec<u64>) -> Self {
        chain.truncate(MAX_CHAIN);
        Self { counted: Some(chain), ..self }
    }

    /// Whether the thinking is only counted.
    pub fn is_count(&self) -> bool {
        self.counted.is_some()
    }

    /// Returns the end of the last range in a conversation with `head` leading messages; zero
    /// without a range.
    pub fn end(&self, head: usize) -> usize {
        self.ranges(head).last().map_or(0, |range| range.end)
    }

    /// Returns the ranges in a conversation with `head` leading messages.
    pub(crate) fn ranges(&self, head: usize) -> impl Iterator<Item = Range<usize>> {
        let removed = self.removed.iter();
        removed.map(move |range| range.start + head..range.end + head)
    }
}

/// Handling of the bound thinking after an edit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum StaleThinking {
    /// No thinking is removed: the provider drops it without an error, or the operator switched removal
    /// off.
    Ignored,
    /// Thinking after a new edit is sent, because the provider may not bind it. Earlier removals
    /// apply.
    #[default]
    Kept,
    /// Thinking after a new edit is removed: the provider is known to bind it.
    Removed,
}

/// Facts about the thinking of a conversation, looked up before its request is planned.
#[derive(Clone, Debug, Default)]
pub struct PriorThinking {
    /// Handling of the thinking after a new edit.
    pub stale: StaleThinking,
    /// Removals of earlier requests.
    pub removals: PriorRemovals,
    /// Thinking that earlier requests counted as lost, if the provider may drop any.
    pub counted: Option<PriorRemovals>,
}

impl PriorThinking {
    /// Returns the ranges of messages whose bound thinking earlier requests left out.
    pub fn removed(&self) -> &[Range<usize>] {
        match self.stale {
            StaleThinking::Ignored => &[],
            StaleThinking::Kept | StaleThinking::Removed => &self.removals.ranges,
        }
    }
}

/// Removals found for a conversation and its model.
#[derive(Clone, Debug, Default)]
pub struct PriorRemovals {
    /// Messages whose bound thinking was removed, ascending and disjoint.
    pub ranges: Vec<Range<usize>>,
    /// Edits of the removals at the longest prefix. Several processes may have stored one each.
    pub newest_edits: Vec<EditChain>,
    /// Chains of the counts at all prefixes.
    pub(crate) chains: Vec<Vec<u64>>,
    /// Prefix under which the removals must be stored again before they are too far back to be found.
    renewal: Option<RecordKey>,
}

impl PriorRemovals {
    /// Looks up the removals of all prefixes in a store, or the counts alone.
    pub fn look_up<L>(
        prefix_keys: &PrefixKeys,
        counts: bool,
        mut look: impl FnMut(RecordKey) -> L,
    ) -> Self
    where
        L: IntoIterator<Item = Arc<ThinkingRemoval>>,
    {
        let head = prefix_keys.head_len();
        let mut found = Self::default();
        let mut ranges = Vec::new();
        let mut newest = None;
        for (at, key) in prefix_keys.newest_first() {
            for removal in look(key).into_iter().filter(|it| it.is_count() == counts) {
                if *newest.get_or_insert(at) == at {
                    found.newest_edits.push(removal.edits);
                    found.renewal = prefix_keys.renewal_key(at);
                }
                ranges.extend(removal.ranges(head));
                found.chains.extend(removal.counted.clone());
            }
        }
        found.ranges = merge_ranges(ranges);
        found
    }

    /// Whether nothing was removed yet.
    pub fn is_empty(&self) -> bool {
        self.newest_edits.is_empty()
    }

    /// Returns the removal to store again, and the prefix for it, if it would soon be out of reach.
    pub fn renewed(&self, head: usize) -> Option<(RecordKey, ThinkingRemoval)> {
        let edits = *self.newest_edits.first()?;
        let removal = ThinkingRemoval {
            counted: self.chains.first().cloned(),
            ..ThinkingRemoval::new(self.ranges.clone(), edits, head)
        };
        Some((self.renewal?, removal))
    }
}

/// Sorts ranges and joins those that touch.
pub fn merge_ranges(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ if range.is_empty() => {}
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
