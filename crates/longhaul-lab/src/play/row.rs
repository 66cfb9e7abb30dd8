//! The outcome of one request for the agent and the model.

use serde::Serialize;

use longhaul_mock_model::{RequestKind, SeenRequest, Verdict};

use super::agent_reply::AgentReply;
use crate::recorded_session::SessionRequest;

/// A request of a play. The model counts all tokens.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PlayRow {
    /// The position in the session, from 1.
    pub(crate) request: usize,
    /// Messages that the agent sent.
    pub(crate) messages_sent: usize,
    /// Messages that the model received, 0 if no request reached it.
    pub(crate) messages_forwarded: usize,
    /// Tokens of the agent's request.
    pub(crate) tokens_sent: u64,
    /// Tokens of the request that the model accepted, 0 if it accepted none.
    pub(crate) tokens_forwarded: u64,
    /// Accepted tokens that were in the model's prompt cache.
    pub(crate) tokens_cached: u64,
    /// The number of times the model refused the request for its size.
    pub(crate) refused: usize,
    /// Whether the model received other bytes than the agent sent.
    pub(crate) rewritten: bool,
    /// Whether the request did not begin with all of the previous one.
    pub(crate) prefix_changed: bool,
    /// The actions that longhaul reported.
    pub(crate) action: Vec<String>,
    /// Summaries requested from the model for this request.
    pub(crate) summaries: usize,
    /// Tokens that the model read for those summaries.
    pub(crate) tokens_for_summaries: u64,
    /// The status that the agent received, 0 without a reply.
    pub(crate) status: u16,
    /// The error that the agent saw.
    pub(crate) error: Option<String>,
}

impl PlayRow {
    /// Builds the row of a request from the requests that the model received since the previous row.
    pub(super) fn new(
        request: usize,
        sent: &SessionRequest,
        tokens: u64,
        reply: AgentReply,
        seen: &[SeenRequest],
    ) -> Self {
        let of_kind = |kind| seen.iter().filter(move |seen| seen.kind == kind);
        let overflowed = |seen: &&SeenRequest| seen.verdict == Verdict::Overflowed;
        let last = of_kind(RequestKind::Chat).next_back();
        let accepted = last.filter(|seen| seen.verdict == Verdict::Accepted);
        Self {
            request,
            messages_sent: sent.messages,
            messages_forwarded: last.map_or(0, |seen| seen.messages),
            tokens_sent: tokens,
            tokens_forwarded: accepted.map_or(0, |seen| seen.prompt_tokens),
            tokens_cached: accepted.map_or(0, |seen| seen.cached_tokens),
            refused: of_kind(RequestKind::Chat).filter(overflowed).count(),
            rewritten: last.is_some_and(|seen| seen.body != sent.body),
            prefix_changed: accepted.is_some_and(|seen| !seen.keeps_prefix()),
            action: reply.action,
            summaries: of_kind(RequestKind::Summary).count(),
            tokens_for_summaries: of_kind(RequestKind::Summary)
                .map(|seen| seen.prompt_tokens)
                .sum(),
            status: reply.status,
            error: reply.error,
        }
    }

    /// Whether something happened that the previous row does not show.
    pub(crate) fn is_notable_after(&self, before: Option<&Self>) -> bool {
        let same =
            |before: &Self| before.rewritten == self.rewritten && self.has_same_actions(before);
        self.refused > 0
            || self.prefix_changed
            || self.summaries > 0
            || self.error.is_some()
            || before.is_some_and(|before| !same(before))
    }

    /// Whether the actions equal those of the previous row, apart from retries.
    pub(crate) fn has_same_actions(&self, before: &Self) -> bool {
        let lasting = |row: &Self| -> Vec<String> {
            let words = row.action.iter();
            words.filter(|word| *word != "retry").cloned().collect()
        };
        lasting(self) == lasting(before)
    }
}
