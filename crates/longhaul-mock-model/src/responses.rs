//! The Responses API of the strict model.

mod answer;
pub(crate) mod bound;
pub(crate) mod compaction;
mod issued;
mod stored;
#[cfg(feature = "validity")]
pub(crate) mod validity;

use serde_json::{Map, Value, json};

use crate::refusal::RefusalReply;
use crate::request::{list, member};

pub(crate) use answer::{issued_names, pieces};
pub(crate) use stored::StoredResponses;

/// Members of an item that a tokenizer never processes as text.
const NOT_TEXT: [&str; 7] = [
    "call_id",
    "encrypted_content",
    "internal_chat_message_metadata_passthrough",
    "logprobs",
    "phase",
    "status",
    "annotations",
];

/// The refusal of an input that exceeds the window, as `OpenAI` words it: without numbers.
const OVERFLOW: &str = r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#;

/// Returns the refusal of an input that exceeds the window.
pub(crate) fn overflow() -> RefusalReply {
    RefusalReply::new(400, "application/json", OVERFLOW)
}

/// Returns the body as a chat: instructions and items as messages.
pub(crate) fn as_chat(body: &Value) -> Value {
    let instructions = member(body, "instructions").as_str();
    let system = instructions.map(|text| json!({"role": "system", "content": text}));
    let input = member(body, "input");
    let asked = input.as_str().map(|text| json!({"role": "user", "content": text}));
    let items = list(input).iter().map(countable);
    let messages: Vec<Value> = system.into_iter().chain(asked).chain(items).collect();
    json!({
        "model": member(body, "model"),
        "messages": messages,
        "tools": member(body, "tools"),
        "stream": member(body, "stream"),
        "max_tokens": member(body, "max_output_tokens"),
    })
}

/// Returns an item without members that are not text.
fn countable(item: &Value) -> Value {
    let mut members = Map::new();
    for (name, value) in item.as_object().into_iter().flatten() {
        if !NOT_TEXT.contains(&name.as_str()) {
            members.insert(name.clone(), value.clone());
        }
    }
    Value::Object(members)
}
