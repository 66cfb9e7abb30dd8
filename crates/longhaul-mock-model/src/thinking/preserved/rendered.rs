//! nc-a-bind: everything that thinking is bound to: system prompt, tools as a set, and the blocks of messages.

use serde_json::{Value, json};

use crate::binding::{Part, Prompt, Unit, hash, link};
use crate::request::{ChatBody, list, member, role};

/// Members that move without a change of the prompt.
const IGNORED: [&str; 1] = ["cache_control"];

/// Returns a request of the Messages API as the provider renders it.
pub(super) fn prompt(chat: &ChatBody) -> Prompt {
    let sent = chat.original();
    let messages = list(member(sent, "messages")).iter().enumerate();
    let units = messages.flat_map(|(at, message)| {
        let blocks = blocks(member(message, "content")).into_iter().enumerate();
        blocks.map(move |(block, value)| unit((at, block), role(message), &value))
    });
    Prompt {
        start: start(sent),
        caller: chat.caller_number(),
        model: chat.model().to_owned(),
        units: units.collect(),
    }
}

fn start(sent: &Value) -> u64 {
    let is_there = |tool: &&Value| member(tool, "defer_loading").as_bool() != Some(true);
    let tools = list(member(sent, "tools")).iter().filter(is_there);
    let mut tools: Vec<u64> = tools.map(|tool| hash(tool, &IGNORED)).collect();
    tools.sort_unstable();
    let system = hash(&json!(blocks(member(sent, "system"))), &IGNORED);
    tools.into_iter().fold(system, link)
}

/// Returns the blocks of a content. A string is one block of text.
fn blocks(content: &Value) -> Vec<Value> {
    match content.as_str() {
        Some(text) => vec![json!({"type": "text", "text": text})],
        None => list(content).to_vec(),
    }
}

fn unit(place: (usize, usize), role: &str, block: &Value) -> Unit {
    let string = |name: &str| member(block, name).as_str().map(str::to_owned);
    let part = match member(block, "type").as_str().unwrap_or_default() {
        "thinking" => string("signature").map_or(Part::Other, Part::Reasoning),
        "redacted_thinking" => string("data").map_or(Part::Other, Part::Reasoning),
        // A block without content holds no summary.
        "compaction" if string("content").is_some() => Part::Compaction(string("signature")),
        _ => Part::Other,
    };
    let role_hash = hash(&json!(role), &[]);
    Unit {
        part,
        hash: block_hash(role_hash, block),
        is_made: role == "assistant",
        role: role.to_owned(),
        place,
        id: None,
    }
}

fn block_hash(role: u64, block: &Value) -> u64 {
    link(role, hash(block, &IGNORED))
}

/// Returns the hash of a compaction that an assistant writes at a threshold.
pub(super) fn compaction_hash(block: &Value) -> u64 {
    block_hash(hash(&json!("assistant"), &[]), block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// nc-a-bind.
    #[test]
    fn tools_are_a_set_and_deferred_ones_left_out() {
        let [f, g] = ["f", "g"].map(|name| json!({"name": name}));
        let later = json!({"name": "h", "defer_loading": true});
        let expect = start(&json!({"system": "s", "tools": [f, g]}));
        for (other, is_same) in [
            (json!({"system": "s", "tools": [g, f]}), true),
            (json!({"system": "s", "tools": [f, g, later]}), true),
            (json!({"system": [{"type": "text", "text": "s"}], "tools": [f, g]}), true),
            (
                json!({"system": [{"text": "s", "type": "text", "cache_control": {"type": "ephemeral"}}],
                    "tools": [f, g]}),
                true,
            ),
            (json!({"system": "s", "tools": [f]}), false),
            (json!({"system": "t", "tools": [f, g]}), false),
        ] {
            assert_eq!(start(&other) == expect, is_same, "{other}");
        }
    }
}
