//! Compactions of the Messages API: on demand, and at a threshold.

mod rules;

use serde_json::{Value, json};

use super::rendered::compaction_hash;
use super::{edits, refusal, seal};
use crate::bound_request::BoundRequest;
use crate::options::SummaryBehaviour;
use crate::refusal::RefusalReply;
use crate::request::{Api, ChatBody, list, member};
use crate::responses::compaction::COMPACTION_TOKENS;
use crate::summary;

/// The beta value of a compaction on demand.
const ON_DEMAND: &str = "compact-2026-09-04";
/// The beta value of a compaction at a threshold.
const THRESHOLD: &str = "compact-2026-01-12";
/// The edit that orders a compaction at a threshold.
const EDIT: &str = "compact_20260112";
/// The default threshold in tokens.
const DEFAULT_TRIGGER: u64 = 150_000;
/// The maximum length of a summary in bytes.
const SUMMARY_BYTES: usize = 4_000;

const NO_BETA: &str = "compaction: this field requires anthropic-beta: compact-2026-09-04";
const UNKNOWN_TAG: &str = "messages.0.content.0: Input tag 'compaction' found using 'type' does not match any of the expected tags: 'document', 'image', 'redacted_thinking', 'search_result', 'text', 'thinking', 'tool_result', 'tool_use'";
const SIGNATURE_NEEDS_BETA: &str =
    "messages.0.content.0.compaction.signature requires anthropic-beta: compact-2026-09-04";
const NO_SIGNATURE: &str = "a `compaction` block with `content` requires its `signature`";
const NO_STRATEGY: &str =
    "`compaction` blocks require a `compact_20260112` strategy in `context_management.edits`.";

/// A compaction in an answer.
#[derive(Clone, Debug)]
pub(crate) struct CompactionAnswer {
    /// The item or the block.
    pub(crate) block: Value,
    /// Whether the answer has no other content.
    pub(crate) is_whole: bool,
    pub(crate) output_tokens: u64,
}

/// Returns the rule that a compaction or its order breaks, and the refusal for it.
pub(super) fn refuse(chat: &ChatBody) -> Option<(&'static str, RefusalReply)> {
    let on_demand = chat.has_beta(ON_DEMAND);
    let threshold = chat.has_beta(THRESHOLD);
    if !member(chat.original(), "compaction").is_null() && !on_demand {
        return Some(("nc-a-header", refusal(NO_BETA)));
    }
    let blocks = chat.messages().iter().flat_map(|message| list(member(message, "content")));
    let mut blocks = blocks.filter(|block| member(block, "type") == "compaction");
    let is_signed = |block: &Value| member(block, "signature").is_string();
    let of_feature = blocks.find_map(|block| match (is_signed(block), on_demand, threshold) {
        (_, false, false) => Some(("nc-a-header", refusal(UNKNOWN_TAG))),
        (true, false, true) => Some(("nc-a-header", refusal(SIGNATURE_NEEDS_BETA))),
        (false, true, false) => Some(("nc-a-threshold", refusal(NO_SIGNATURE))),
        (false, _, true) if edit(chat).is_none() => Some(("nc-a-threshold", refusal(NO_STRATEGY))),
        (true, true, _) | (false, _, true) => None,
    });
    of_feature.or_else(|| rules::refuse(chat))
}

/// Whether a request orders a compaction.
pub(crate) fn is_ordered(chat: &ChatBody) -> bool {
    let order = member(chat.original(), "compaction");
    chat.api() == Api::Messages && member(order, "type") == "summarize"
}

fn edit(chat: &ChatBody) -> Option<&Value> {
    edits(chat).iter().find(|edit| member(edit, "type") == EDIT)
}

fn summary(chat: &ChatBody) -> String {
    summary::write(chat, SummaryBehaviour::Faithful, SUMMARY_BYTES)
}

/// Returns the signed block that an order yields.
pub(crate) fn signed(chat: &ChatBody, ordinal: usize) -> Value {
    let content = summary(chat);
    let signature = seal::sealed_block(ordinal, &content);
    json!({"type": "compaction", "content": content, "signature": signature})
}

/// nc-a-usage: whether replies to a request list the iterations of the model.
pub(crate) fn counts_iterations(chat: &ChatBody) -> bool {
    chat.api() == Api::Messages && chat.has_beta(THRESHOLD)
}

/// nc-a-threshold: returns the block that a request of `tokens` tokens yields before its answer. Thinking of the
/// answer is bound to the block.
pub(crate) fn at_threshold(
    chat: &ChatBody,
    tokens: u64,
    bound: &mut BoundRequest,
) -> Option<CompactionAnswer> {
    let edit = edit(chat).filter(|_| chat.has_beta(THRESHOLD))?;
    let trigger = member(member(edit, "trigger"), "value").as_u64().unwrap_or(DEFAULT_TRIGGER);
    if tokens <= trigger {
        return None;
    }
    let block = json!({"type": "compaction", "content": summary(chat)});
    bound.judged.restart(&bound.prompt, compaction_hash(&block));
    let is_whole = member(edit, "pause_after_compaction").as_bool().unwrap_or(false);
    Some(CompactionAnswer { block, is_whole, output_tokens: COMPACTION_TOKENS })
}
