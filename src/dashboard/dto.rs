//! Conversation data in the JSON format of the dashboard.

use std::sync::Arc;

use serde::Serialize;

use crate::costs::RequestCost;
use longhaul_core::units::usd::Usd;

/// List entry of a conversation.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ConversationDto {
    /// Identifier in the URL of the details.
    pub(crate) id: String,
    /// Title by a model, or the beginning of the first user message.
    pub(crate) title: String,
    /// Description by a model, or the beginning of the last user message.
    pub(crate) body: String,
    pub(crate) model: String,
    /// Context window assumed for the model, in tokens.
    pub(crate) window: u64,
    pub(crate) requests: u64,
    /// Tokens of all requests that reached the upstream.
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    /// Calls that fetch a cleared result again.
    pub(crate) rereads: u64,
    pub(crate) money: ConversationCosts,
    /// Time of the last request, in milliseconds since 1970, like all times here.
    pub(crate) last: u64,
    /// Time since which a summary is being made.
    pub(crate) compacting: Option<u64>,
}

/// Costs and savings of a conversation, in billionths of a dollar.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ConversationCosts {
    /// Known cost of the chats.
    pub(crate) cost: Usd,
    /// Number of chats whose cost is unknown.
    pub(crate) unknown: u64,
    /// Estimated cost of the tokens removed from the chats.
    pub(crate) saved: Usd,
    /// Removed tokens whose price is unknown.
    pub(crate) saved_unknown: u64,
    /// Extra cost of tokens that had to be paid in full after rewrites.
    pub(crate) rewrites: Usd,
    /// Known cost of summary calls.
    pub(crate) summaries: Usd,
    /// Known cost of title calls.
    pub(crate) titles: Usd,
    /// Number of summary and title calls whose cost is unknown.
    pub(crate) calls_unknown: u64,
}

/// Details of a conversation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConversationDetails {
    #[serde(flatten)]
    pub(crate) conversation: ConversationDto,
    pub(crate) files: Vec<FileDto>,
    pub(crate) points: Vec<RequestPoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Arc<str>>,
}

/// A file, with the number of accesses of each kind.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct FileDto {
    pub(crate) path: String,
    pub(crate) read: u32,
    pub(crate) modified: u32,
    pub(crate) created: u32,
    pub(crate) deleted: u32,
}

/// A request of the conversation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RequestPoint {
    /// Time of the request's end.
    pub(crate) at: u64,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) window: u64,
    pub(crate) status: Option<u16>,
    /// Actions applied to the request.
    pub(crate) acts: Vec<&'static str>,
    /// Whether longhaul removed more from this request than from the one before.
    pub(crate) rewritten: bool,
}

impl ConversationCosts {
    /// Adds the cost of one chat.
    pub(super) fn add(&mut self, spent: &RequestCost) {
        match spent.cost.amount() {
            Some(usd) => self.cost += usd,
            None => self.unknown += 1,
        }
        self.saved += spent.comparison.saved.unwrap_or_default();
        self.saved_unknown += u64::from(spent.unpriced_tokens().get());
        self.rewrites += spent.comparison.rewrite_cost.unwrap_or_default();
    }
}
