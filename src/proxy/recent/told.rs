//! What is told of a conversation, as the dashboard gets it.

use std::sync::Arc;

use serde::Serialize;

use super::super::bills::RequestCost;
use crate::rewrite::money::Usd;

/// What the list tells of a conversation.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ConversationDto {
    /// What it is asked for by.
    pub(crate) id: String,
    /// What a model calls it, or how its first user message begins.
    pub(crate) title: String,
    /// What a model says of it, or how its last user message begins.
    pub(crate) body: String,
    pub(crate) model: String,
    /// What the model is taken to hold, in tokens.
    pub(crate) window: u64,
    pub(crate) requests: u64,
    /// Of all its requests that reached the upstream.
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    /// Calls for what was cleared before.
    pub(crate) rereads: u64,
    pub(crate) money: ConversationCosts,
    /// When its last request came, in milliseconds since 1970, as everywhere here.
    pub(crate) last: u64,
    /// Since when a summary of it is being made.
    pub(crate) compacting: Option<u64>,
}

/// What a conversation cost and saved, in billionths of a dollar.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ConversationCosts {
    /// Its chats, as far as it is known.
    pub(crate) cost: Usd,
    /// Chats of which it is not.
    pub(crate) unknown: u64,
    /// What was taken out of them would have cost.
    pub(crate) saved: Usd,
    /// Tokens taken out whose price is not known.
    pub(crate) saved_unknown: u64,
    /// What was paid again after rewrites.
    pub(crate) rewrites: Usd,
    /// The calls for its summaries, as far as it is known.
    pub(crate) summaries: Usd,
    /// The calls for its titles, as far as it is known.
    pub(crate) titles: Usd,
    /// Calls of both kinds of which it is not.
    pub(crate) calls_unknown: u64,
}

/// All that is told of one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConversationDetails {
    #[serde(flatten)]
    pub(crate) conversation: ConversationDto,
    pub(crate) files: Vec<FileDto>,
    pub(crate) points: Vec<RequestPoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Arc<str>>,
}

/// A file, and how often it was touched in each way.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct FileDto {
    pub(crate) path: String,
    pub(crate) read: u32,
    pub(crate) modified: u32,
    pub(crate) created: u32,
    pub(crate) deleted: u32,
}

/// One request.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RequestPoint {
    /// When it ended.
    pub(crate) at: u64,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) window: u64,
    pub(crate) status: Option<u16>,
    /// What was done to it.
    pub(crate) acts: Vec<&'static str>,
    /// Whether something was done to it that was not done to the one before.
    pub(crate) rewritten: bool,
}

impl ConversationCosts {
    /// What one chat cost more.
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
