//! Calls and their results.

use std::collections::HashSet;

use crate::messages::body::{MessagesBody, Turn, kind, string};
use crate::request::{list, member};

/// Calls of the client's tools in a turn.
fn calls<'t>(turn: &'t Turn<'_>) -> impl Iterator<Item = &'t str> {
    turn.of_type("tool_use").map(|call| string(call, "id"))
}

/// Results of the client's tools in a turn.
fn results<'t>(turn: &'t Turn<'_>) -> impl Iterator<Item = &'t str> {
    let results = turn.of_type("tool_result");
    results.map(|result| string(result, "tool_use_id"))
}

/// A call of a turn has no result in the next turn. The last turn may wait for its results.
pub(super) fn unanswered(body: &MessagesBody<'_>) -> bool {
    body.turns.iter().enumerate().any(|(at, turn)| {
        let Some(next) = body.turns.get(at + 1) else {
            return false;
        };
        let answered: HashSet<&str> = results(next).collect();
        turn.role == "assistant" && calls(turn).any(|call| !answered.contains(call))
    })
}

/// A result stands in a later turn than the one after its call.
pub(super) fn separated(body: &MessagesBody<'_>) -> bool {
    let mut asked = HashSet::new();
    body.turns.iter().enumerate().any(|(at, turn)| {
        let before = body.turn(at.checked_sub(1), "assistant");
        let near: HashSet<&str> = before.into_iter().flat_map(calls).collect();
        let is_far = results(turn).any(|id| asked.contains(id) && !near.contains(id));
        asked.extend(calls(turn));
        is_far
    })
}

/// A result answers no call of the turn before it.
pub(super) fn orphaned(body: &MessagesBody<'_>) -> bool {
    body.turns.iter().enumerate().any(|(at, turn)| {
        let before = body.turn(at.checked_sub(1), "assistant");
        let asked: HashSet<&str> = before.into_iter().flat_map(calls).collect();
        results(turn).any(|result| !asked.contains(result))
    })
}

/// A block other than a result precedes a result within its turn.
pub(super) fn results_not_first(body: &MessagesBody<'_>) -> bool {
    body.turns.iter().any(|turn| {
        let mut blocks = turn.blocks.iter();
        let is_result = |name: &str| matches!(name, "cache_edits" | "tool_result");
        blocks.by_ref().any(|block| !is_result(kind(block)))
            && blocks.any(|block| kind(block) == "tool_result")
    })
}

/// A result stands in a turn of another role, or a call does.
pub(super) fn wrong_role(body: &MessagesBody<'_>) -> bool {
    body.blocks().any(|(role, block)| match kind(block) {
        "tool_result" => role != "user",
        "tool_use" => role != "assistant",
        _ => false,
    })
}

pub(super) fn repeated_call(body: &MessagesBody<'_>) -> bool {
    let mut met = HashSet::new();
    body.turns.iter().flat_map(calls).any(|id| !met.insert(id))
}

pub(super) fn repeated_result(body: &MessagesBody<'_>) -> bool {
    let mut met = HashSet::new();
    body.turns.iter().flat_map(results).any(|id| !met.insert(id))
}

pub(super) fn odd_id(body: &MessagesBody<'_>) -> bool {
    let is_odd = |id: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        id.is_empty() || !id.bytes().all(is_allowed)
    };
    let ids = |turn| calls(turn).chain(results(turn)).any(is_odd);
    body.turns.iter().any(ids)
}

pub(super) fn input_no_object(body: &MessagesBody<'_>) -> bool {
    body.blocks().any(|(_, block)| kind(block) == "tool_use" && !member(block, "input").is_object())
}

pub(super) fn no_tools(body: &MessagesBody<'_>) -> bool {
    let has_blocks =
        body.blocks().any(|(_, block)| matches!(kind(block), "tool_use" | "tool_result"));
    has_blocks && list(body.field("tools")).is_empty()
}

/// A reference names a tool that the request does not declare.
pub(super) fn unknown_reference(body: &MessagesBody<'_>) -> bool {
    let tools = list(body.field("tools")).iter();
    let names: HashSet<&str> = tools.map(|tool| string(tool, "name")).collect();
    body.blocks().any(|(_, block)| {
        let content = list(member(block, "content")).iter();
        let mut references = content.filter(|part| kind(part) == "tool_reference");
        kind(block) == "tool_result"
            && references.any(|part| !names.contains(string(part, "tool_name")))
    })
}

/// A use of a provider's tool has no result. The last turn may wait for it. If the tool called a tool of
/// the client, the result stands in a later turn.
pub(super) fn unanswered_server_tool(body: &MessagesBody<'_>) -> bool {
    let last = body.turns.len().saturating_sub(1);
    let mut turns = body.turns.iter().enumerate();
    turns.any(|(at, turn)| {
        let has_open_call = calls(turn).next().is_some();
        let later = body.turns.get(at + 1..).unwrap_or_default().iter();
        let later = later.filter(|_| has_open_call);
        let turns = std::iter::once(turn).chain(later);
        let answered: HashSet<&str> = turns.flat_map(server_results).collect();
        at != last && server_uses(turn).any(|id| !answered.contains(id))
    })
}

/// A result of a provider's tool has no use before it.
pub(super) fn orphaned_server_result(body: &MessagesBody<'_>) -> bool {
    let mut asked = HashSet::new();
    body.turns.iter().any(|turn| {
        asked.extend(server_uses(turn));
        server_results(turn).any(|id| !asked.contains(id))
    })
}

/// Anything but results answers a turn with an open use of a provider's tool.
pub(super) fn words_beside_open_server_tool(body: &MessagesBody<'_>) -> bool {
    body.turns.iter().enumerate().any(|(at, turn)| {
        let answered: HashSet<&str> = server_results(turn).collect();
        let is_open = server_uses(turn).any(|id| !answered.contains(id));
        let next = body.turn(Some(at + 1), "user");
        let has_words = next.is_some_and(|next| {
            let mut blocks = next.blocks.iter();
            blocks.any(|block| kind(block) != "tool_result")
        });
        is_open && calls(turn).next().is_some() && has_words
    })
}

fn server_uses<'t>(turn: &'t Turn<'_>) -> impl Iterator<Item = &'t str> {
    let uses = turn.of_type("server_tool_use");
    let uses = uses.chain(turn.of_type("mcp_tool_use"));
    uses.map(|block| string(block, "id"))
}

fn server_results<'t>(turn: &'t Turn<'_>) -> impl Iterator<Item = &'t str> {
    let blocks = turn.blocks.iter();
    let is_result = |name: &str| name.ends_with("_tool_result") && name != "tool_result";
    let results = blocks.filter(move |block| is_result(kind(block)));
    results.map(|block| string(block, "tool_use_id"))
}
