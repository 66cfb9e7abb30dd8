//! Thinking blocks, and the settings that demand them.

use crate::messages::body::{MessagesBody, Turn, kind, string};
use crate::request::member;

fn is_thinking(name: &str) -> bool {
    matches!(name, "redacted_thinking" | "thinking")
}

fn setting<'b>(body: &MessagesBody<'b>) -> &'b str {
    kind(body.field("thinking"))
}

/// The turns of the open tool loop: all after the last turn with the user's own words.
fn open_loop<'t, 'b>(body: &'t MessagesBody<'b>) -> &'t [Turn<'b>] {
    let is_words = |turn: &Turn<'_>| {
        let mut blocks = turn.blocks.iter();
        turn.role == "user" && blocks.any(|block| kind(block) != "tool_result")
    };
    let words = body.turns.iter().rposition(is_words);
    let first = words.map_or(0, |at| at + 1);
    body.turns.get(first..).unwrap_or_default()
}

/// In manual mode, the open tool loop has thinking, but does not begin with it.
pub(super) fn loop_without_thinking(body: &MessagesBody<'_>) -> bool {
    if setting(body) != "enabled" {
        return false;
    }
    let assistant = |turn: &&Turn<'_>| turn.role == "assistant";
    let mut turns = open_loop(body).iter().filter(assistant);
    let first = turns.clone().next().and_then(|turn| turn.blocks.first());
    let has_thinking = turns.any(|turn| {
        let mut blocks = turn.blocks.iter();
        blocks.any(|block| is_thinking(kind(block)))
    });
    has_thinking && first.is_some_and(|block| !is_thinking(kind(block)))
}

pub(super) fn unsigned(body: &MessagesBody<'_>) -> bool {
    body.blocks().any(|(_, block)| match kind(block) {
        "redacted_thinking" => string(block, "data").is_empty(),
        "thinking" => string(block, "signature").is_empty(),
        _ => false,
    })
}

/// The last block of a turn is thinking.
pub(super) fn last(body: &MessagesBody<'_>) -> bool {
    body.turns.iter().any(|turn| {
        let block = turn.blocks.last();
        turn.role == "assistant" && block.is_some_and(|block| is_thinking(kind(block)))
    })
}

/// The final assistant's turn has thinking, and thinking is off.
pub(super) fn final_but_off(body: &MessagesBody<'_>) -> bool {
    let last = body.turns.last().filter(|turn| turn.role == "assistant");
    let mut blocks = last.into_iter().flat_map(|turn| &turn.blocks);
    setting(body) == "disabled" && blocks.any(|block| is_thinking(kind(block)))
}

pub(super) fn budget(body: &MessagesBody<'_>) -> bool {
    let budget = member(body.field("thinking"), "budget_tokens").as_u64();
    let output = body.field("max_tokens").as_u64();
    setting(body) == "enabled"
        && budget.zip(output).is_some_and(|(budget, output)| output <= budget)
}

pub(super) fn forced_tool(body: &MessagesBody<'_>) -> bool {
    let is_on = matches!(setting(body), "adaptive" | "enabled");
    is_on && matches!(kind(body.field("tool_choice")), "any" | "tool")
}
