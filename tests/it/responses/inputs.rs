//! Random inputs of every kind of item.

use proptest::prelude::*;
use serde_json::{Value, json};

/// A random mix of events in a history; each number selects an event.
#[derive(Clone, Debug)]
pub(super) struct RandomInput(pub(super) Vec<u32>);

pub(super) fn random_input() -> impl Strategy<Value = RandomInput> {
    prop::collection::vec(any::<u32>(), 4..60).prop_map(RandomInput)
}

impl RandomInput {
    pub(super) fn items(&self) -> Vec<Value> {
        let mut items = vec![
            json!({"type": "message", "role": "developer", "content": "be brief"}),
            json!({"role": "user", "content": "Begin."}),
        ];
        for (at, &draw) in self.0.iter().enumerate() {
            let words = format!("{at} said {draw}. ").repeat((draw / 64 % 200) as usize + 1);
            match draw % 12 {
                0 => items.push(json!({"role": "user", "content": words})),
                1 => items.push(json!({"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": words},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]})),
                2 => items.push(json!({"type": "message", "role": "developer", "content": words})),
                3 => items.extend([reasoning(at), said(at, &words)]),
                4 => items.push(said(at, &words)),
                5 => items.push(json!({"type": "web_search_call", "id": format!("ws_{at}"),
                    "status": "completed", "action": {"type": "search", "query": words}})),
                6 if draw.is_multiple_of(5) => items.push(json!({"type": "compaction",
                    "id": format!("cmp_{at}"), "encrypted_content": "gAAA"})),
                7 => items.push(json!({"type": "dream", "id": format!("d_{at}"), "text": words})),
                _ => items.extend(step(at, draw, &words)),
            }
        }
        items.push(json!({"role": "user", "content": "And now?"}));
        items
    }

    pub(super) fn body(&self) -> Vec<u8> {
        let tools =
            json!([{"type": "function", "name": "read"}, {"type": "custom", "name": "patch"}]);
        json!({"model": "m", "instructions": "You are an agent.", "tools": tools,
            "input": self.items()})
        .to_string()
        .into()
    }
}

fn reasoning(at: usize) -> Value {
    json!({"type": "reasoning", "id": format!("rs_{at}"), "summary": [],
        "encrypted_content": "gAAAA"})
}

fn said(at: usize, words: &str) -> Value {
    json!({"type": "message", "id": format!("msg_{at}"), "role": "assistant",
        "content": [{"type": "output_text", "text": words}]})
}

/// Builds a step of one to three calls. Its outputs follow together or each after its call, with or
/// without reasoning, and perhaps with an instruction between a call and its output.
fn step(at: usize, draw: u32, words: &str) -> Vec<Value> {
    let mut items = Vec::new();
    if !(draw / 12).is_multiple_of(3) {
        items.push(reasoning(at));
    }
    let mut outputs = Vec::new();
    for number in 0..=draw / 36 % 3 {
        let id = format!("call_{at}_{number}");
        let (call, output) = match draw / 108 % 4 {
            0 => (
                json!({"type": "function_call", "id": format!("fc_{at}_{number}"), "call_id": id,
                    "name": "read", "arguments": "{\"path\":\"a.rs\"}"}),
                json!({"type": "function_call_output", "call_id": id, "output": words}),
            ),
            1 => (
                json!({"type": "custom_tool_call", "call_id": id, "name": "patch", "input": words}),
                json!({"type": "custom_tool_call_output", "call_id": id,
                    "output": [{"type": "input_text", "text": words}]}),
            ),
            2 => local_shell(at, number, draw, words),
            _ => (
                json!({"type": "shell_call", "call_id": id, "action": {"commands": ["ls"]}}),
                json!({"type": "shell_call_output", "call_id": id, "output":
                    [{"stdout": words, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
            ),
        };
        items.push(call);
        if (draw / 324).is_multiple_of(5) {
            items.push(json!({"type": "message", "role": "developer", "content": "approved"}));
        }
        if (draw / 1_620).is_multiple_of(2) {
            items.push(output);
        } else {
            outputs.push(output);
        }
    }
    items.extend(outputs);
    items
}

/// Builds a call of a local shell, and its output, which names the call by either id.
fn local_shell(at: usize, number: u32, draw: u32, words: &str) -> (Value, Value) {
    let (own, id) = (format!("lsh_{at}_{number}"), format!("call_{at}_{number}"));
    let call = json!({"type": "local_shell_call", "id": own, "call_id": id, "status": "completed",
        "action": {"type": "exec", "command": ["ls"]}});
    let mut output =
        json!({"type": "local_shell_call_output", "output": json!({"output": words}).to_string()});
    match draw / 3_240 % 3 {
        0 => output["call_id"] = json!(id),
        1 => output["id"] = json!(id),
        _ => output["id"] = json!(own),
    }
    (call, output)
}
