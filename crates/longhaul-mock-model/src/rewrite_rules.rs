//! Rules for a rewrite: they compare a forwarded body with the client's own.

use serde_json::Value;

use crate::request::{list, member};

/// A rule for a rewrite.
struct RewriteRule {
    /// The rule's name in the lists of the fixtures.
    id: &'static str,
    is_broken: fn(&Value, &Value) -> bool,
}

const RULES: [RewriteRule; 10] = [
    RewriteRule { id: "r-compaction-one", is_broken: loses_trigger },
    RewriteRule { id: "r-encrypted-include", is_broken: asks_for_another_reply },
    RewriteRule { id: "r-item-reference", is_broken: torn_from_reference },
    RewriteRule { id: "r-last-item", is_broken: ends_otherwise },
    RewriteRule { id: "r-phase", is_broken: rewords_the_model },
    RewriteRule { id: "r-store", is_broken: edits_stored_history },
    RewriteRule { id: "r-summary-form", is_broken: inserts_another_form },
    RewriteRule { id: "m-bound-round", is_broken: changes_open_round },
    RewriteRule { id: "m-encrypted", is_broken: forges_encrypted },
    RewriteRule { id: "m-result-cache-edits", is_broken: edits_beside_cache_edits },
];

/// Returns the ids of the rules that the rewrite of `original` to `sent` breaks.
pub fn broken_by_rewrite(original: &Value, sent: &Value) -> Vec<&'static str> {
    let broken = RULES.iter().filter(|rule| (rule.is_broken)(original, sent));
    broken.map(|rule| rule.id).collect()
}

/// Returns the ids of the rules for a rewrite.
pub fn rewrite_rule_ids() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.id)
}

fn items(body: &Value) -> &[Value] {
    list(member(body, "input"))
}

fn kind(item: &Value) -> &str {
    member(item, "type").as_str().unwrap_or_default()
}

fn is_reference(item: &Value) -> bool {
    let has_role = member(item, "role").is_string();
    kind(item) == "item_reference" || kind(item).is_empty() && !has_role
}

fn is_user(item: &Value) -> bool {
    member(item, "role") == "user"
}

fn is_output(item: &Value) -> bool {
    kind(item).ends_with("_output")
}

/// Items of `sent` that are neither the client's own, nor outputs, nor own calls with shorter arguments.
fn inserted<'s>(original: &Value, sent: &'s Value) -> impl Iterator<Item = (usize, &'s Value)> {
    let (own, sent) = (items(original), items(sent));
    let removed = own.len().saturating_sub(sent.len());
    // Most items stand as far from the end as they stood.
    let is_own =
        move |at: usize, item: &Value| own.get(at + removed) == Some(item) || own.contains(item);
    let all = sent.iter().enumerate();
    let all = all.filter(move |(at, item)| !is_output(item) && !is_own(*at, item));
    all.filter(|(_, item)| !own.iter().any(|own| is_shortened_call(own, item)))
}

/// Whether `item` is the call `own` with shorter arguments, still JSON if they were.
pub fn is_shortened_call(own: &Value, item: &Value) -> bool {
    ["arguments", "input"].iter().any(|key| {
        let (Some(before), Some(after)) = (member(own, key).as_str(), member(item, key).as_str())
        else {
            return false;
        };
        let mut restored = item.clone();
        if let Some(own) = restored.get_mut(key) {
            *own = before.into();
        }
        let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
        after.len() < before.len() && is_json(before) == is_json(after) && restored == *own
    })
}

/// History ends next to a reference, whose own items may belong to what follows.
fn torn_from_reference(original: &Value, sent: &Value) -> bool {
    inserted(original, sent).any(|(at, _)| {
        let Some(next) = items(sent).get(at + 1) else {
            return false;
        };
        let place = items(original).iter().position(|item| item == next);
        let before = place.and_then(|at| at.checked_sub(1)).and_then(|at| items(original).get(at));
        is_reference(next) || before.is_some_and(is_reference) && !is_user(next)
    })
}

/// Another item than the client's is the last. The text of an output may differ.
fn ends_otherwise(original: &Value, sent: &Value) -> bool {
    let (own, last) = (items(original).last(), items(sent).last());
    let call = |item: &Value| member(item, "call_id").clone();
    own != last
        && !own
            .zip(last)
            .is_some_and(|(own, last)| is_output(own) && is_output(last) && call(own) == call(last))
}

/// An order to compact became an ordinary request, whose reply holds no compaction.
fn loses_trigger(original: &Value, sent: &Value) -> bool {
    let triggers = |body: &Value| {
        let orders = items(body).iter();
        orders.filter(|item| kind(item) == "compaction_trigger").count()
    };
    triggers(original) != triggers(sent)
}

/// The reply lacks members that a client without stored responses has to send again.
fn asks_for_another_reply(original: &Value, sent: &Value) -> bool {
    ["include", "store", "stream"].iter().any(|key| member(original, key) != member(sent, key))
}

/// The provider would keep the changed input as part of the client's history.
fn edits_stored_history(original: &Value, sent: &Value) -> bool {
    let keys = ["conversation", "previous_response_id"];
    keys.iter().any(|key| !member(original, key).is_null()) && original != sent
}

/// An item of the model differs from every item of the client's list.
fn rewords_the_model(original: &Value, sent: &Value) -> bool {
    inserted(original, sent).any(|(_, item)| !is_user(item))
}

fn inserts_another_form(original: &Value, sent: &Value) -> bool {
    inserted(original, sent).any(|(_, item)| {
        let parts = list(member(item, "content"));
        let members = item.as_object().map_or(0, serde_json::Map::len);
        let is_form = kind(item) == "message" && is_user(item) && members == 3;
        !is_form || parts.is_empty() || parts.iter().any(|part| kind(part) != "input_text")
    })
}

fn messages(body: &Value) -> &[Value] {
    list(member(body, "messages"))
}

/// The assistant's message before the newest results differs, or is gone.
fn changes_open_round(original: &Value, sent: &Value) -> bool {
    let own = messages(original);
    let is_round = own.last().is_some_and(|last| {
        let blocks = list(member(last, "content"));
        blocks.iter().any(|block| kind(block) == "tool_result")
    });
    let calls = own.len().checked_sub(2).and_then(|at| own.get(at));
    let calls = calls.filter(|it| is_round && member(it, "role") == "assistant");
    calls.is_some_and(|calls| {
        let blocks = |message: &Value| without_marks(member(message, "content"));
        let calls = blocks(calls);
        !messages(sent).iter().rev().any(|message| blocks(message) == calls)
    })
}

/// Returns a content without its cache marks, which may move.
fn without_marks(content: &Value) -> Value {
    let mut content = content.clone();
    for block in content.as_array_mut().into_iter().flatten() {
        if let Some(members) = block.as_object_mut() {
            members.remove("cache_control");
        }
    }
    content
}

/// Encrypted text that the client did not send.
fn forges_encrypted(original: &Value, sent: &Value) -> bool {
    let (mut own, mut found) = (Vec::new(), Vec::new());
    encrypted(member(original, "messages"), &mut own);
    encrypted(member(sent, "messages"), &mut found);
    // Most texts stand where they stood, seen from the end.
    found.iter().rev().any(|text| !own.iter().rev().any(|own| own == text))
}

fn encrypted<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| encrypted(value, found)),
        Value::Object(members) => {
            for (key, value) in members {
                if matches!(&**key, "encrypted_content" | "encrypted_index") {
                    found.push(value);
                } else {
                    encrypted(value, found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The provider deletes results itself, and the body differs.
fn edits_beside_cache_edits(original: &Value, sent: &Value) -> bool {
    let mut blocks = messages(original).iter().flat_map(|message| list(member(message, "content")));
    let is_edited =
        |block: &Value| kind(block) == "cache_edits" || block.get("cache_reference").is_some();
    blocks.any(is_edited) && original != sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(original: &Value, sent: &Value, expect: &[&str]) {
        assert_eq!(broken_by_rewrite(original, sent), expect, "{sent}");
        assert_eq!(broken_by_rewrite(original, original), [""; 0]);
    }

    #[test]
    fn a_rewrite_of_items_keeps_the_models_and_ends_as_the_client_does() {
        let user = json!({"role": "user", "content": "go"});
        let said = json!({"type": "message", "role": "assistant", "phase": "commentary",
            "content": [{"type": "output_text", "text": "so"}]});
        let reference = json!({"type": "item_reference", "id": "msg_1"});
        let call = json!({"type": "function_call", "call_id": "c", "name": "f"});
        let output = json!({"type": "function_call_output", "call_id": "c", "output": "long"});
        let short = json!({"type": "function_call_output", "call_id": "c", "output": "-"});
        let summary = json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "s"}]});
        let body = |items: &[&Value]| json!({"input": items});
        let own = body(&[&user, &said, &reference, &call, &output]);
        check(&own, &body(&[&user, &said, &reference, &call, &short]), &[]);
        let with = |arguments: &str| {
            let mut call = call.clone();
            call["arguments"] = arguments.into();
            body(&[&user, &said, &reference, &call, &output])
        };
        check(&with(r#"{"content":"long"}"#), &with(r#"{"content":"l"}"#), &[]);
        check(
            &with(r#"{"content":"long"}"#),
            &with(r#"{"content":"l"#),
            &["r-phase", "r-summary-form"],
        );
        check(&own, &body(&[&user, &summary, &reference, &call, &output]), &["r-item-reference"]);
        check(&own, &body(&[&user, &summary, &call, &output]), &["r-item-reference"]);
        check(&own, &body(&[&user, &said]), &["r-last-item"]);
        let mut reworded = said.clone();
        reworded.as_object_mut().unwrap().remove("phase");
        check(
            &own,
            &body(&[&user, &reworded, &reference, &call, &output]),
            &["r-item-reference", "r-phase", "r-summary-form"],
        );
        let bare = json!({"role": "user", "content": "s"});
        let own = body(&[&user, &said, &user, &call, &output]);
        check(&own, &body(&[&user, &summary, &user, &call, &output]), &[]);
        check(&own, &body(&[&user, &bare, &user, &call, &output]), &["r-summary-form"]);
    }

    #[test]
    fn a_rewrite_leaves_the_reply_and_the_providers_history_as_the_client_wants_them() {
        let user = json!({"role": "user", "content": "go"});
        let short = json!({"type": "function_call_output", "call_id": "c", "output": "-"});
        let long = json!({"type": "function_call_output", "call_id": "c", "output": "long"});
        let trigger = json!({"type": "compaction_trigger"});
        let own = json!({"input": [user, long, trigger], "store": false,
            "include": ["reasoning.encrypted_content"]});
        let mut sent = own.clone();
        sent["input"][1] = short.clone();
        check(&own, &sent, &[]);
        sent["include"] = json!([]);
        check(&own, &sent, &["r-encrypted-include"]);
        sent["include"] = own["include"].clone();
        sent["input"].as_array_mut().unwrap().pop();
        check(&own, &sent, &["r-compaction-one", "r-last-item"]);
        let own = json!({"previous_response_id": "resp_1", "input": [long]});
        let sent = json!({"previous_response_id": "resp_1", "input": [short]});
        check(&own, &sent, &["r-store"]);
    }

    #[test]
    fn a_rewrite_of_messages_keeps_the_open_round_and_what_the_provider_holds() {
        let round = |block: Value, more: Value| {
            json!({"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": [block,
                {"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": more}]}]})
        };
        let thought = json!({"type": "thinking", "thinking": "t", "signature": "s"});
        let other = json!({"type": "text", "text": "t"});
        let own = round(thought.clone(), json!("r"));
        check(&own, &round(thought, json!("-")), &[]);
        check(&own, &round(other.clone(), json!("r")), &["m-bound-round"]);
        let found = |text: &str| json!([{"type": "search_result", "encrypted_content": text}]);
        let own = round(other.clone(), found("e"));
        check(&own, &round(other.clone(), json!([])), &[]);
        check(&own, &round(other, found("f")), &["m-encrypted"]);
        let edits = json!({"type": "cache_edits", "edits": []});
        let own = json!({"messages": [{"role": "user", "content": [edits]}]});
        check(&own, &json!({"messages": []}), &["m-result-cache-edits"]);
    }
}
