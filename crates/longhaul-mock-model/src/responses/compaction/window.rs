//! nc-o-compact-window: the path that compacts a whole window.

use serde_json::{Value, json};

use crate::answer::{CREATED, ModelAnswer};
use crate::refusal::RefusalReply;
use crate::request::{ChatBody, list, member, role};
use crate::responses::answer::{response_id, usage};

const UPDATES: &str = r#"{"error":{"message":"Items of type 'configuration_update' are not supported by this endpoint.","type":"invalid_request_error","param":"input","code":null}}"#;

/// Refuses a history with updates of the configuration.
pub(crate) fn refuse(chat: &ChatBody, takes_updates: bool) -> Option<RefusalReply> {
    let mut items = list(member(chat.original(), "input")).iter();
    let has_update = items.any(|item| member(item, "type") == "configuration_update");
    (has_update && !takes_updates).then(|| RefusalReply::new(400, "application/json", UPDATES))
}

/// Returns the compacted window, which holds all messages of the user and one compaction.
pub(crate) fn reply(answer: &ModelAnswer<'_>, item: &Value) -> RefusalReply {
    let items = list(member(answer.chat.original(), "input")).iter();
    let said = items.filter(|item| role(item) == "user");
    let output: Vec<&Value> = said.chain([item]).collect();
    let body = json!({"id": response_id(answer), "object": "response.compaction",
        "created_at": CREATED, "output": output, "usage": usage(answer)});
    RefusalReply::new(200, "application/json", body.to_string())
}
