//! The order of turns, and blocks with a place of their own.

use crate::messages::body::{MessagesBody, kind};

/// Maximum messages of a request.
const MAX_MESSAGES: usize = 100_000;

pub(super) fn unknown_role(body: &MessagesBody<'_>) -> bool {
    let mut turns = body.turns.iter();
    turns.any(|turn| !matches!(turn.role, "assistant" | "system" | "user"))
}

/// A system message stands first, after an assistant's turn, or not before one.
pub(super) fn misplaced_system(body: &MessagesBody<'_>) -> bool {
    body.turns.iter().enumerate().any(|(at, turn)| {
        if turn.role != "system" {
            return false;
        }
        let before = at.checked_sub(1).and_then(|at| body.turns.get(at));
        let is_behind = before.is_some_and(|before| {
            let last = before.blocks.last().map(|block| kind(block));
            let is_server_result = last.is_some_and(|name| name.ends_with("_tool_result"));
            before.role == "user" || before.role == "assistant" && is_server_result
        });
        let next = body.turns.get(at + 1);
        !is_behind || next.is_some_and(|next| next.role != "assistant")
    })
}

/// A system message holds anything but text and changes of the tools.
pub(super) fn odd_system(body: &MessagesBody<'_>) -> bool {
    body.blocks().any(|(role, block)| {
        role == "system" && !matches!(kind(block), "text" | "tool_addition" | "tool_removal")
    })
}

pub(super) fn first_not_user(body: &MessagesBody<'_>) -> bool {
    let first = body.turns.first();
    let is_compaction = first.is_some_and(|turn| turn.of_type("compaction").next().is_some());
    first.is_some_and(|turn| turn.role != "user") && !is_compaction
}

pub(super) fn too_many_messages(body: &MessagesBody<'_>) -> bool {
    body.messages().len() > MAX_MESSAGES
}

/// The list ends with the assistant's words. A paused turn may end with a provider's tool.
pub(super) fn prefilled(body: &MessagesBody<'_>) -> bool {
    let last = body.turns.last();
    let is_open = |name: &str| name == "server_tool_use" || name.ends_with("_tool_result");
    last.is_some_and(|turn| {
        let block = turn.blocks.last();
        turn.role == "assistant" && block.is_none_or(|block| !is_open(kind(block)))
    })
}

/// A compaction block stands after other messages, or a signed one does not stand first.
pub(super) fn misplaced_compaction(body: &MessagesBody<'_>) -> bool {
    let is_compaction = |block: &serde_json::Value| kind(block) == "compaction";
    let count = body.blocks().filter(|(_, block)| is_compaction(block)).count();
    let signed = body
        .blocks()
        .position(|(_, block)| is_compaction(block) && block.get("signature").is_some());
    signed.is_some_and(|at| at > 0 || count > 1)
}

/// A block that only an assistant writes stands elsewhere.
pub(super) fn assistants_block_elsewhere(body: &MessagesBody<'_>) -> bool {
    const OWN: [&str; 5] =
        ["fallback", "mcp_tool_use", "redacted_thinking", "server_tool_use", "thinking"];
    body.blocks().any(|(role, block)| role != "assistant" && OWN.contains(&kind(block)))
}

pub(super) fn misplaced_mcp_result(body: &MessagesBody<'_>) -> bool {
    body.blocks().any(|(role, block)| role != "assistant" && kind(block) == "mcp_tool_result")
}
