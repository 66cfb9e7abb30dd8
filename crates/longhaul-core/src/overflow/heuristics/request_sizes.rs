//! Sizes of the refused request, by which the numbers of a statement are measured.

use std::cell::OnceCell;

use crate::overflow::heuristics::RequestFacts;

/// Sizes of the request by longhaul's own counts.
pub(super) struct RefusedRequestSizes<'a> {
    pub(super) facts: &'a RequestFacts<'a>,
    /// Counted once per refusal: the count reads the whole body.
    characters: OnceCell<u64>,
}

impl<'a> RefusedRequestSizes<'a> {
    pub(super) fn new(facts: &'a RequestFacts<'a>) -> Self {
        Self {
            facts,
            characters: OnceCell::new(),
        }
    }

    /// Returns the characters that were sent.
    pub(super) fn characters(&self) -> u64 {
        *self
            .characters
            .get_or_init(|| self.sent_share(self.facts.text.characters()))
    }

    /// Returns the bytes that were sent.
    pub(super) fn bytes(&self) -> u64 {
        self.sent_share(self.facts.text.bytes())
    }

    /// Returns the sent part of a size of the body in the facts. A rewritten request is shorter by the share
    /// of its tokens.
    fn sent_share(&self, size: u64) -> u64 {
        let sent = size.saturating_mul(u64::from(self.facts.tokens));
        sent.checked_div(u64::from(self.facts.body_tokens))
            .unwrap_or(size)
    }
}
