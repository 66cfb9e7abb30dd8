//! Sessions of an agent that reads files, in each API.

use longhaul_mock_model::FOLLOWED_MARK;
use serde_json::{Value, json};

/// Tool results of a session.
const RESULTS: usize = 9;
/// Characters of a result: some 400 tokens, and some 3,000 in a long session.
const RESULT_CHARS: usize = 1_600;
const LONG_RESULT_CHARS: usize = 12_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum Api {
    Chat,
    Messages,
    Responses,
}

/// A text that lets the model read `path`.
pub(super) fn mark(path: &str) -> String {
    format!("{FOLLOWED_MARK}{path}")
}

/// Returns the last request of a session that begins with the user's words `first`. The first tool result,
/// which is cleared before any other, begins with `result`.
pub(super) fn session(api: Api, first: &str, result: &str) -> Value {
    session_of(api, first, result, RESULT_CHARS)
}

/// Like [`session`], with results that fill a window of 16,000 tokens.
pub(super) fn long_session(api: Api, first: &str, result: &str) -> Value {
    session_of(api, first, result, LONG_RESULT_CHARS)
}

fn session_of(api: Api, first: &str, result: &str, chars: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": first})];
    for at in 0..RESULTS {
        let begin = if at == 0 { result } else { "text" };
        let line = format!("line of part {at} ");
        let text = format!("{begin}\n{}", line.repeat(chars / line.len()));
        let (id, input) = (format!("call_{at}"), json!({"path": format!("part-{at}.txt")}));
        messages.extend(match api {
            Api::Chat => [
                json!({"role": "assistant", "content": null, "tool_calls": [{"id": id,
                    "type": "function",
                    "function": {"name": "read_file", "arguments": input.to_string()}}]}),
                json!({"role": "tool", "tool_call_id": id, "content": text}),
            ],
            Api::Messages => [
                json!({"role": "assistant", "content": [
                    {"type": "tool_use", "id": id, "name": "read_file", "input": input}]}),
                json!({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": id, "content": text}]}),
            ],
            Api::Responses => [
                json!({"type": "function_call", "call_id": id, "name": "read_file",
                    "arguments": input.to_string()}),
                json!({"type": "function_call_output", "call_id": id, "output": text}),
            ],
        });
    }
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    match api {
        Api::Chat => json!({"model": "recorded", "stream": true, "messages": messages,
            "tools": [{"type": "function", "function": {"name": "read_file", "parameters": schema}}]}),
        Api::Messages => json!({"model": "recorded", "max_tokens": 8_000, "stream": true,
            "messages": messages, "tools": [{"name": "read_file", "input_schema": schema}]}),
        Api::Responses => json!({"model": "recorded", "stream": true, "input": messages,
            "tools": [{"type": "function", "name": "read_file", "parameters": schema}]}),
    }
}
