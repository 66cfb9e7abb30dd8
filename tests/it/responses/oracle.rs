//! The oracle: an input as a tree, written down as the chat completion that says the same.
//!
//! The oracle of chat completions then reads and clears that chat. What the model made in one step is one
//! message of the chat, and each output is a message.

use serde_json::{Value, json};

/// First words of the user messages in which Codex describes the workspace.
const CONTEXT: [&str; 4] = [
    "# AGENTS.md instructions",
    "<environment_context>",
    "<recommended_plugins>",
    "<user_instructions>",
];

/// A chat that says the same as a request of the Responses API.
pub(super) struct SameChat {
    pub(super) body: Value,
    /// For each message of the chat, the item that begins it.
    pub(super) places: Vec<usize>,
}

impl SameChat {
    pub(super) fn of(body: &Value) -> Self {
        let items = body["input"].as_array().unwrap();
        let compaction = items.iter().rposition(|item| item["type"] == "compaction");
        let pinned = compaction.map_or(0, |at| at + 1);
        let mut messages: Vec<Value> = Vec::new();
        let mut places = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let message = match kind(item) {
                _ if at < pinned => written_before_compaction(item),
                "message" => said(item),
                "function_call_output" | "custom_tool_call_output" => json!({"role": "tool",
                    "tool_call_id": item["call_id"], "content": content(&item["output"])}),
                "tool_search_output" => {
                    json!({"role": "tool", "tool_call_id": item["call_id"], "content": null})
                }
                _ => json!({"role": "assistant", "content": [], "tool_calls": calls(item)}),
            };
            // What the client inserts between a call and its output belongs to the step.
            let has_calls =
                |it: &Value| it["tool_calls"].as_array().is_some_and(|it| !it.is_empty());
            let is_inserted = at > pinned
                && is_instruction(item)
                && messages.last().is_some_and(has_calls)
                && (items[at..].iter().find(|it| !is_instruction(it)))
                    .is_some_and(|it| it.get("output").is_some());
            if is_inserted {
                continue;
            }
            let is_step = |it: &Value| it["role"] == "assistant";
            let last = messages.last_mut().filter(|it| at > pinned && is_step(it));
            if let Some(last) = last.filter(|_| is_step(&message)) {
                join(last, &message);
            } else {
                messages.push(message);
                places.push(at);
            }
        }
        Self { body: json!({"model": body["model"], "messages": messages}), places }
    }
}

fn is_instruction(item: &Value) -> bool {
    kind(item) == "message" && (item["role"] == "developer" || item["role"] == "system")
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or("message")
}

/// Writes an item that no rewrite touches, without what pairs it with others.
fn written_before_compaction(item: &Value) -> Value {
    match kind(item) {
        "message" => said(item),
        "reasoning" => json!({"role": "assistant", "content": null}),
        "compaction" => json!({"role": "?", "content": null}),
        // The text of an output counts, and the output is not a result any more.
        _ if item.get("output").is_some() => {
            json!({"role": "?", "tool_call_id": item["call_id"], "content": content(&item["output"])})
        }
        _ if calls(item).as_array().unwrap().is_empty() => {
            json!({"role": "assistant", "content": null})
        }
        _ => json!({"role": "?", "content": null}),
    }
}

fn said(item: &Value) -> Value {
    let content = content(&item["content"]);
    let texts = content.as_array().into_iter().flatten();
    let mut texts = texts.map(|part| part["text"].as_str().unwrap_or_default().trim_start());
    let begins = |text: &str| CONTEXT.iter().any(|words| text.starts_with(words));
    let is_context = item["role"] == "user" && content.is_array() && texts.all(begins);
    let role = if is_context { json!("developer") } else { item["role"].clone() };
    json!({"role": role, "content": content})
}

/// Returns a content or an output with the names of parts that chat completions have.
fn content(value: &Value) -> Value {
    let Some(parts) = value.as_array() else {
        return value.clone();
    };
    let rename = |part: &Value| match part["type"].as_str() {
        Some("input_text" | "output_text") => json!({"type": "text", "text": part["text"]}),
        _ => json!({"type": "image_url", "image_url": part["image_url"]}),
    };
    parts.iter().map(rename).collect()
}

fn calls(item: &Value) -> Value {
    let arguments = match kind(item) {
        "function_call" => &item["arguments"],
        "custom_tool_call" => &item["input"],
        "tool_search_call" => &Value::Null,
        _ => return json!([]),
    };
    json!([{"id": item["call_id"], "type": "function",
        "function": {"name": item["name"], "arguments": arguments}}])
}

/// Adds what a further item of a step says and calls.
fn join(step: &mut Value, item: &Value) {
    for (key, value) in item.as_object().unwrap() {
        if let Some(more) = value.as_array() {
            let known = step[key].as_array().cloned().unwrap_or_default();
            step[key] = known.iter().chain(more).cloned().collect();
        }
    }
}
