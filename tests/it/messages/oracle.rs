//! The oracle: a Messages body as a tree, written down as the chat completion that says the same.
//!
//! The oracle of chat completions then reads and clears that chat. Message for message, both bodies
//! hold the same.

use serde_json::{Value, json};

/// Name of the tools whose results must stay as they are.
pub(crate) const FIXED: &str = "result-that-stays";

/// A chat that says the same as a Messages body.
pub(crate) struct SameChat {
    pub(crate) body: Value,
    /// For each message of the chat: the wire message, and the block if it is one block's content.
    pub(crate) places: Vec<(usize, Option<usize>)>,
}

impl SameChat {
    pub(crate) fn of(body: &Value) -> Self {
        let mut messages: Vec<Value> = Vec::new();
        let mut places = Vec::new();
        for (at, message) in body["messages"].as_array().unwrap().iter().enumerate() {
            let role = message["role"].as_str().unwrap();
            let blocks = message["content"].as_array();
            let is_split = |block: &Value| block["type"] == "tool_result" || is_reminder(block);
            let splits = role == "user" && blocks.is_some_and(|blocks| blocks.iter().any(is_split));
            if !splits {
                messages.push(whole(message));
                places.push((at, None));
                continue;
            }
            let mut own: Vec<Value> = Vec::new();
            for (block_at, block) in blocks.unwrap().iter().enumerate() {
                if !is_split(block) {
                    own.push(block.clone());
                    continue;
                }
                if !own.is_empty() {
                    messages.push(json!({"role": "user", "content": own}));
                    places.push((at, None));
                    own = Vec::new();
                }
                let place = (at, Some(block_at));
                if is_reminder(block) {
                    messages.push(json!({"role": "system", "content": [block]}));
                } else {
                    let mut result = json!({"role": "tool", "tool_call_id": block["tool_use_id"]});
                    if !block["content"].is_null() {
                        result["content"] = block["content"].clone();
                    }
                    if is_fixed(block) {
                        rename(&mut messages, block["tool_use_id"].as_str().unwrap());
                    }
                    messages.push(result);
                }
                places.push(place);
            }
            if !own.is_empty() {
                messages.push(json!({"role": "user", "content": own}));
                places.push((at, None));
            }
        }
        Self { body: json!({"model": body["model"], "messages": messages}), places }
    }
}

/// Whether a block is a text that the agent's program wrote.
fn is_reminder(block: &Value) -> bool {
    let Some(text) = block["text"].as_str().filter(|_| block["type"] == "text") else {
        return false;
    };
    let mut rest = text.trim();
    let begins = rest.starts_with("<system-reminder>");
    while let Some(reminder) = rest.strip_prefix("<system-reminder>") {
        let Some((inside, behind)) = reminder.split_once("</system-reminder>") else {
            return false;
        };
        // Claude Code puts its notifications below the same words.
        let is_notification = inside.contains(":\n<task-notification>");
        if inside.trim().starts_with("The user sent ") && !is_notification {
            return false;
        }
        rest = behind.trim();
    }
    begins && rest.is_empty()
}

/// Whether a result holds anything that the provider needs as it is.
fn is_fixed(block: &Value) -> bool {
    let known = ["text", "image", "document", "search_result"];
    let parts = block["content"].as_array();
    parts.is_some_and(|parts| {
        let mut kinds = parts.iter().map(|part| part["type"].as_str().unwrap());
        kinds.any(|kind| !known.contains(&kind))
    })
}

/// Gives the newest call with this id the name of a tool that is exempt.
fn rename(messages: &mut [Value], id: &str) {
    let asks = messages.iter_mut().rev().find(|it| it["role"] == "assistant");
    for call in asks.unwrap()["tool_calls"].as_array_mut().unwrap() {
        if call["id"] == id {
            call["function"]["name"] = json!(FIXED);
        }
    }
}

/// Writes a wire message as one message.
fn whole(message: &Value) -> Value {
    let Some(blocks) = message["content"].as_array() else {
        return message.clone();
    };
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    let calls: Vec<Value> = calls
        .map(|call| {
            let arguments = call["input"].to_string();
            json!({"id": call["id"], "type": "function",
                "function": {"name": call["name"], "arguments": arguments}})
        })
        .collect();
    let texts = blocks.iter().filter(|block| block["type"] == "text");
    let mut written = json!({"role": message["role"], "content": texts.collect::<Vec<_>>()});
    if !calls.is_empty() {
        written["tool_calls"] = json!(calls);
    }
    written
}
