//! The dialect of `POST …/chat/completions`: the meaning of each key.

pub(super) mod bound_thinking;
mod keys;
mod reader;
pub(super) mod reply;
pub(super) mod summary_request;
pub(super) mod writer;

use serde_json::json;

use crate::dialect::facts::DialectFacts;
use crate::units::tokens::Tokens;
pub use reader::read;
pub(super) use reader::read_with;

pub(super) static FACTS: DialectFacts = DialectFacts {
    path: "/chat/completions",
    distinct_path: "/chat/completions",
    // Stored chats belong to the account.
    key_paths: &["chat/completions"],
    required_headers: &[],
    compaction_header: None,
    key_header: None,
    has_websocket: false,
    may_have_own_upstream: false,
    form: 0,
    list_key: "messages",
    output_limit_keys: &["max_tokens", "max_completion_tokens"],
    min_output: Tokens::new(1_024),
    may_keep_calls: false,
    allows_user_behind_instructions: true,
    cache_mark_key: "cache_control",
    allows_added_cache_marks: true,
    marks_results: false,
    text_part_start: r#"{"type":"text","text":"#,
    call_signature: Some("thought_signature"),
    answer_key: "choices",
    content_keys: "audio content function_call images reasoning reasoning_content refusal text tool_calls",
    counts_prompt_first: false,
    held_bytes: 64 * 1024,
    event_start_bytes: 0,
};

/// Formats the body of an error reply, with members in the order that the API uses.
pub(super) fn error_body(status: u16, code: &str, message: &str) -> Vec<u8> {
    let kind = if status < 500 { "invalid_request_error" } else { "proxy_error" };
    let error = json!({"message": message, "type": kind, "param": null, "code": code});
    json!({ "error": error }).to_string().into_bytes()
}
