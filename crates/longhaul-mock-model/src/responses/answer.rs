//! An answer as a response object, or as the events of a stream in the order of the API.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::answer::{AnswerContent, CREATED, ModelAnswer, split};
use crate::request::{list, member};
use crate::responses::issued;

/// Returns the pieces of the body: a single JSON text, or the events of a stream.
pub(crate) fn pieces(answer: &ModelAnswer<'_>) -> Vec<Bytes> {
    if answer.chat.wants_stream() {
        events(answer)
    } else {
        let (status, output) = (status(answer), output(answer));
        vec![response(answer, status, &output, &usage(answer)).to_string().into()]
    }
}

/// Numbers the events of a stream.
#[derive(Default)]
struct EventWriter {
    events: Vec<Bytes>,
}

impl EventWriter {
    fn push(&mut self, name: &str, mut members: Value) {
        if let Some(object) = members.as_object_mut() {
            object.insert("sequence_number".to_owned(), json!(self.events.len()));
            object.insert("type".to_owned(), json!(name));
        }
        let event = format!("event: {name}\ndata: {members}\n\n");
        self.events.push(event.into());
    }
}

fn events(answer: &ModelAnswer<'_>) -> Vec<Bytes> {
    let mut writer = EventWriter::default();
    let begun = response(answer, "in_progress", &json!([]), &Value::Null);
    writer.push("response.created", json!({"response": begun}));
    writer.push("response.in_progress", json!({"response": begun}));
    let output = output(answer);
    for (at, item) in output.as_array().into_iter().flatten().enumerate() {
        writer.push("response.output_item.added", json!({"output_index": at, "item": item}));
        let place = |members: Value| {
            let mut members = members;
            if let Some(object) = members.as_object_mut() {
                object.insert("item_id".to_owned(), member(item, "id").clone());
                object.insert("output_index".to_owned(), json!(at));
            }
            members
        };
        match &answer.content {
            AnswerContent::Text(text) | AnswerContent::TextCut(text)
                if member(item, "type") == "message" =>
            {
                for piece in split(text) {
                    let delta = json!({"content_index": 0, "delta": piece});
                    writer.push("response.output_text.delta", place(delta));
                }
                let done = json!({"content_index": 0, "text": text});
                writer.push("response.output_text.done", place(done));
            }
            AnswerContent::Call(_, arguments) if member(item, "type") == "function_call" => {
                let arguments = arguments.to_string();
                let delta = json!({"delta": arguments});
                writer.push("response.function_call_arguments.delta", place(delta));
                let done = json!({"arguments": arguments});
                writer.push("response.function_call_arguments.done", place(done));
            }
            AnswerContent::Call(..) | AnswerContent::Text(_) | AnswerContent::TextCut(_) => {}
        }
        writer.push("response.output_item.done", json!({"output_index": at, "item": item}));
    }
    let status = status(answer);
    let closed = response(answer, status, &output, &usage(answer));
    writer.push(&format!("response.{status}"), json!({"response": closed}));
    writer.events
}

/// Returns the output: reasoning, and the item that it is tied to.
pub(super) fn output(answer: &ModelAnswer<'_>) -> Value {
    if let Some(compaction) = &answer.compaction {
        return json!([compaction.block]);
    }
    let ordinal = answer.ordinal;
    let model = answer.chat.model();
    let encrypted = reveals_reasoning(answer.chat.original());
    let encrypted = encrypted.then(|| issued::encrypted(model, answer.chat.credential(), ordinal));
    let reasoning = json!({"type": "reasoning", "id": issued::id("rs", ordinal), "summary": [],
        "encrypted_content": encrypted});
    let item = match &answer.content {
        AnswerContent::Call(name, arguments) => json!({"type": "function_call",
            "id": issued::id("fc", ordinal), "call_id": format!("call_{ordinal}"), "name": name,
            "arguments": arguments.to_string(), "status": "completed"}),
        AnswerContent::Text(text) | AnswerContent::TextCut(text) => json!({"type": "message",
            "id": issued::id("msg", ordinal), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}),
    };
    json!([reasoning, item])
}

/// Returns the names of the reasoning in an answer: the sealed content and the id.
pub(crate) fn issued_names(answer: &ModelAnswer<'_>) -> Vec<String> {
    let output = output(answer);
    let reasoning = list(&output).iter().filter(|item| member(item, "type") == "reasoning");
    let names = reasoning.flat_map(|item| ["encrypted_content", "id"].map(|key| member(item, key)));
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Whether the client requested the encrypted reasoning.
fn reveals_reasoning(sent: &Value) -> bool {
    let included = list(member(sent, "include"));
    included.contains(&json!("reasoning.encrypted_content"))
}

/// Returns the id of the response.
pub(super) fn response_id(answer: &ModelAnswer<'_>) -> String {
    format!("resp_{}", answer.ordinal)
}

fn status(answer: &ModelAnswer<'_>) -> &'static str {
    match answer.content {
        AnswerContent::Call(..) | AnswerContent::Text(_) => "completed",
        AnswerContent::TextCut(_) => "incomplete",
    }
}

/// Returns the response object, which repeats the request as the API does.
fn response(answer: &ModelAnswer<'_>, status: &str, output: &Value, usage: &Value) -> Value {
    let sent = answer.chat.original();
    let details = match status {
        "incomplete" => json!({"reason": "max_output_tokens"}),
        _ => Value::Null,
    };
    let mut response = json!({
        "id": response_id(answer),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": details,
        "instructions": member(sent, "instructions"),
        "max_output_tokens": member(sent, "max_output_tokens"),
        "model": answer.chat.model(),
        "output": output,
        "store": member(sent, "store").as_bool().unwrap_or(true),
        "tools": member(sent, "tools"),
        "usage": usage,
        "metadata": {},
    });
    if let Some(members) = response.as_object_mut().filter(|_| !answer.transformations.is_null()) {
        members.insert("input_transformations".to_owned(), answer.transformations.clone());
    }
    response
}

pub(super) fn usage(answer: &ModelAnswer<'_>) -> Value {
    json!({"input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens},
        "output_tokens": answer.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.prompt_tokens + answer.completion_tokens})
}
