//! What became of one request, as the agent and the model saw it.

use serde::Serialize;

use crate::demo::{RequestKind, SeenRequest, Verdict};

use super::client::AgentReply;
use super::session::SessionRequest;

/// One request of a play. All tokens are counted by the model.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::cli) struct PlayRow {
    /// Its place in the session, from 1.
    pub(in crate::cli) request: usize,
    /// How many messages the agent sent.
    pub(in crate::cli) messages_sent: usize,
    /// How many messages the model got, 0 if none did.
    pub(in crate::cli) messages_forwarded: usize,
    /// How large the agent's request was.
    pub(in crate::cli) tokens_sent: u64,
    /// How large the request was that the model accepted, 0 if none was.
    pub(in crate::cli) tokens_forwarded: u64,
    /// How much of that the model's prompt cache knew.
    pub(in crate::cli) tokens_cached: u64,
    /// How often the model refused it for its size.
    pub(in crate::cli) refused: usize,
    /// Whether the model got other bytes than the agent sent.
    pub(in crate::cli) rewritten: bool,
    /// Whether the request no longer began with all of the one before it.
    pub(in crate::cli) prefix_changed: bool,
    /// What longhaul says it did.
    pub(in crate::cli) action: Vec<String>,
    /// How many summaries the model was asked for on the way.
    pub(in crate::cli) summaries: usize,
    /// What the model read for them.
    pub(in crate::cli) tokens_for_summaries: u64,
    /// The status the agent got, 0 if none.
    pub(in crate::cli) status: u16,
    /// The error the agent saw.
    pub(in crate::cli) error: Option<String>,
}

impl PlayRow {
    /// The row of a request, from what the model saw since the row before.
    pub(super) fn new(
        request: usize,
        asked: &SessionRequest,
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
            messages_sent: asked.messages,
            messages_forwarded: last.map_or(0, |seen| seen.messages),
            tokens_sent: tokens,
            tokens_forwarded: accepted.map_or(0, |seen| seen.prompt_tokens),
            tokens_cached: accepted.map_or(0, |seen| seen.cached_tokens),
            refused: of_kind(RequestKind::Chat).filter(overflowed).count(),
            rewritten: last.is_some_and(|seen| seen.body != asked.body),
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

    /// Whether something happened here that the row before does not say already.
    pub(super) fn is_notable_after(&self, before: Option<&Self>) -> bool {
        let same =
            |before: &Self| before.rewritten == self.rewritten && self.has_same_actions(before);
        self.refused > 0
            || self.prefix_changed
            || self.summaries > 0
            || self.error.is_some()
            || before.is_some_and(|before| !same(before))
    }

    /// Whether no other thing was done than in the row before: sending again is done once.
    pub(super) fn has_same_actions(&self, before: &Self) -> bool {
        let lasting = |row: &Self| -> Vec<String> {
            let words = row.action.iter();
            words.filter(|word| *word != "retry").cloned().collect()
        };
        lasting(self) == lasting(before)
    }
}
