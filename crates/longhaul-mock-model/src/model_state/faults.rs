//! Faults of a provider at its own compaction, which a test switches on.

use serde_json::{Value, json};

use crate::judged_request::ModelReply;
use crate::options::CompactionFault;
use crate::record::Verdict;
use crate::refusal::RefusalReply;
use crate::request::{ChatBody, list, member};

const UNAVAILABLE: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Compaction is temporarily unavailable.","details":{"error_code":"compaction_unavailable"}}}"#;
const UNKNOWN_FIELD: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"compaction: Extra inputs are not permitted"}}"#;
const NOT_FOUND: &str =
    r#"{"error":{"message":"Not Found","type":"invalid_request_error","param":null,"code":null}}"#;

/// Returns the refusal of an order to compact, or of a request with a compaction. nc-a-529: the fault strikes
/// both.
pub(super) fn refuse(
    chat: &ChatBody,
    is_ordered: bool,
    fault: CompactionFault,
) -> Option<(Verdict, RefusalReply)> {
    let (status, is_hit) = match fault {
        CompactionFault::Order(status) => (status, is_ordered),
        CompactionFault::Item(status) => (status, !is_ordered && has_compaction(chat)),
        CompactionFault::Empty(_) | CompactionFault::None => return None,
    };
    let body = match status {
        404 => NOT_FOUND,
        529 => UNAVAILABLE,
        _ => UNKNOWN_FIELD,
    };
    let refusal = RefusalReply::new(status, "application/json", body);
    is_hit.then_some((Verdict::Broken("compaction-fault"), refusal))
}

/// nc-a-empty: returns a reply without a compaction. The iterations are billed.
pub(super) fn empty(chat: &ChatBody, tokens: u64, reason: &str) -> ModelReply {
    let body = if chat.is_messages() {
        let billed = json!({"type": "compaction", "input_tokens": tokens, "output_tokens": 40});
        json!({"id": "msg_empty", "type": "message", "role": "assistant", "content": [],
            "model": chat.model(), "stop_reason": reason, "stop_sequence": null,
            "usage": {"input_tokens": 0, "output_tokens": 0, "iterations": [billed]}})
    } else {
        json!({"id": "resp_empty", "object": "response", "status": "completed", "output": [],
            "usage": {"input_tokens": tokens, "output_tokens": 40, "total_tokens": tokens + 40}})
    };
    ModelReply::Refusal(RefusalReply::new(200, "application/json", body.to_string()))
}

fn has_compaction(chat: &ChatBody) -> bool {
    let is_compaction = |value: &Value| member(value, "type") == "compaction";
    let sent = chat.original();
    list(member(sent, "input")).iter().any(is_compaction)
        || list(member(sent, "messages"))
            .iter()
            .any(|message| list(member(message, "content")).iter().any(is_compaction))
}
