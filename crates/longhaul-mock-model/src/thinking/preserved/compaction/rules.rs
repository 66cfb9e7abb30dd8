//! Rules for compactions on demand and their orders.

use serde_json::{Value, json};

use super::{ON_DEMAND, THRESHOLD, edit, is_ordered};
use crate::refusal::RefusalReply;
use crate::request::{ChatBody, list, member, role};
use crate::thinking::preserved::seal::{self, BlockSeal};

const MISPLACED: &str = "`compaction` block must be sent first, in place of the messages it summarizes; remove those messages";
const TWO: &str = "messages: at most one `compaction` block is allowed";
const UNSIGNED: &str = "`compaction` block has an invalid `signature`";
const OTHER_CONTENT: &str = "`compaction` block `content` does not match its `signature`";
const OPEN_CALL: &str =
    "compaction: the last assistant turn has a `tool_use` without a `tool_result`";
const NOTHING: &str = "compaction: there is nothing to summarize";
const BUDGET: &str = "output_config.task_budget.remaining: not supported with a `compaction` block";
const STRATEGY: &str =
    "context_management: `compact_20260112` is not supported with a signed `compaction` block";

/// The members of a block. `cache_control` moves freely.
const BLOCK_MEMBERS: [&str; 4] = ["cache_control", "content", "signature", "type"];

/// A rule and the refusal of a request that breaks it.
type Broken = (&'static str, RefusalReply);

/// Returns the rule that a request under the feature breaks, and the refusal.
pub(super) fn refuse(chat: &ChatBody) -> Option<Broken> {
    if !chat.has_beta(ON_DEMAND) {
        return None;
    }
    let ordered = is_ordered(chat).then(|| refuse_order(chat)).flatten();
    ordered.or_else(|| refuse_blocks(chat))
}

/// nc-a-excludes and nc-a-open.
fn refuse_order(chat: &ChatBody) -> Option<Broken> {
    let sent = chat.original();
    let choice = member(member(sent, "tool_choice"), "type");
    let output = member(sent, "output_config");
    let excluded = [
        ("context_management", !member(sent, "context_management").is_null()),
        ("stop_sequences", !member(sent, "stop_sequences").is_null()),
        ("output_config.format", !member(output, "format").is_null()),
        ("tool_choice", choice == "any" || choice == "tool"),
        ("output_config.task_budget.remaining", has_budget(chat)),
    ];
    if let Some((name, _)) = excluded.into_iter().find(|(_, is_there)| *is_there) {
        let message = format!("{name}: not supported with `compaction`");
        return Some(("nc-a-excludes", refusal(&message, None)));
    }
    let last = chat.messages().last();
    let calls = last.filter(|last| role(last) == "assistant").into_iter();
    let mut blocks = calls.flat_map(|last| list(member(last, "content")));
    if blocks.any(|block| member(block, "type") == "tool_use") {
        return Some(("nc-a-open", refusal(OPEN_CALL, None)));
    }
    let is_said = |message: &Value| matches!(role(message), "assistant" | "user");
    let has_said = chat.messages().iter().any(is_said);
    let nothing = || refusal(NOTHING, Some("compaction_nothing_to_summarize"));
    (!has_said).then(|| ("nc-a-open", nothing()))
}

/// nc-a-first, nc-a-one, nc-a-seal and nc-a-excludes.
fn refuse_blocks(chat: &ChatBody) -> Option<Broken> {
    let messages = list(member(chat.original(), "messages")).iter().enumerate();
    let blocks = messages.flat_map(|(at, message)| {
        let blocks = list(member(message, "content")).iter().enumerate();
        blocks.map(move |(block, value)| ((at, block), value))
    });
    let signed = blocks.filter(|(_, block)| {
        member(block, "type") == "compaction" && member(block, "signature").is_string()
    });
    let signed: Vec<_> = signed.collect();
    let &(place, value) = signed.first()?;
    if signed.len() > 1 {
        return Some(("nc-a-one", refusal(TWO, None)));
    }
    if place != (0, 0) {
        let code = Some("compaction_block_misplaced");
        return Some(("nc-a-first", refusal(MISPLACED, code)));
    }
    let mut names = value.as_object().into_iter().flat_map(|members| members.keys());
    if let Some(name) = names.find(|name| !BLOCK_MEMBERS.contains(&name.as_str())) {
        let message =
            format!("messages.0.content.0.compaction.{name}: Extra inputs are not permitted");
        return Some(("nc-a-seal", refusal(&message, None)));
    }
    let text = |name: &str| member(value, name).as_str().unwrap_or_default();
    match seal::judge_block(text("signature"), text("content")) {
        BlockSeal::Intact => {}
        BlockSeal::OtherContent => {
            let code = Some("compaction_content_mismatch");
            return Some(("nc-a-seal", refusal(OTHER_CONTENT, code)));
        }
        BlockSeal::Unknown => {
            let code = Some("compaction_signature_invalid");
            return Some(("nc-a-seal", refusal(UNSIGNED, code)));
        }
    }
    if has_budget(chat) {
        return Some(("nc-a-excludes", refusal(BUDGET, None)));
    }
    let orders_both = chat.has_beta(THRESHOLD) && edit(chat).is_some();
    orders_both.then(|| ("nc-a-excludes", refusal(STRATEGY, None)))
}

fn has_budget(chat: &ChatBody) -> bool {
    let output = member(chat.original(), "output_config");
    !member(member(output, "task_budget"), "remaining").is_null()
}

/// Returns a refusal with this text, and with the API's code in its details.
fn refusal(message: &str, code: Option<&str>) -> RefusalReply {
    let mut error = json!({"type": "invalid_request_error", "message": message});
    if let (Some(code), Some(members)) = (code, error.as_object_mut()) {
        members.insert("details".to_owned(), json!({"error_code": code}));
    }
    let body = json!({"type": "error", "error": error}).to_string();
    RefusalReply::new(400, "application/json", body)
}
