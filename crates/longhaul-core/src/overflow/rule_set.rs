//! The rules by which an error is classified.

use crate::overflow::error_details::ErrorDetails;
use crate::overflow::heuristics::FAILED;
use crate::overflow::vocabulary::matches;
use crate::overflow::{
    BODY_TOO_LARGE, ClassifierRules, Overflow, RequestFacts, Suspicion, Verdict, classify_by_table,
};

/// The rules of the table, and the facts by which evidence is weighed.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleSet<'a> {
    pub(super) table: &'a ClassifierRules,
    /// Facts about the request. `None` if the rules of the table decide alone.
    pub(super) facts: Option<RequestFacts<'a>>,
}

impl RuleSet<'_> {
    /// Whether an error states that the account does not include a long context, and the request has one.
    pub(super) fn refuses_long_context(self, status: u16, details: &ErrorDetails) -> bool {
        let is_longer = self.facts.is_some_and(|facts| facts.tokens > UNPAID_ESTIMATE);
        let mut texts = details.statements.iter().map(|text| text.to_lowercase());
        is_longer
            && matches!(status, 400..=403 | 429)
            && texts.any(|one| {
                matches("unpaid", &one) && !matches("allowance", &one) && !matches("veto", &one)
            })
    }

    pub(super) fn classify_by_table(self, status: u16, details: &ErrorDetails) -> Verdict {
        let verdict = classify_by_table(status, details, self.table);
        // A smaller request cures a byte limit, whatever allowance the status names.
        let is_cured = self.facts.is_some()
            && matches!(status, 402 | 429)
            && matches!(verdict, Verdict::BodyTooLarge(_));
        if self.table.is_vetoed_status(status) && !is_cured { Verdict::Fine } else { verdict }
    }

    /// Whether a reply with this status is never judged. Evidence may outweigh a refused credential:
    /// some upstreams refuse a long prompt like this.
    pub(super) fn rules_out(&self, status: u16) -> bool {
        let is_weighed = self.facts.is_some_and(|facts| {
            matches!(status, 401..=403 | 429) || facts.has_compaction && status >= 500
        });
        self.table.is_vetoed_status(status) && !is_weighed
    }
}

/// Word of the APIs for a provider's own summary of a history, in their requests, errors and codes.
pub(super) const COMPACTION: &[u8] = b"compaction";
#[cfg(test)]
impl<'a> RuleSet<'a> {
    pub(super) fn table_only(table: &'a ClassifierRules) -> Self {
        Self { table, facts: None }
    }
}

/// Classifies an error that states nothing but its status.
pub(super) fn classify_silence(status: u16) -> Verdict {
    match status {
        400 => Verdict::Overflow(Overflow::from_empty_reply()),
        413 => BODY_TOO_LARGE,
        422 | FAILED => Verdict::Unexplained(Some(Suspicion::Words(0))),
        _ => Verdict::Fine,
    }
}

/// Longest context of an Anthropic account without an allowance for more, in tokens.
pub(super) const PAID_CONTEXT: u32 = 200_000;
/// Minimum estimate of a longer context: newer tokenizers count 1.3 times the estimate, and some text more.
const UNPAID_ESTIMATE: u32 = PAID_CONTEXT * 10 / 14;
