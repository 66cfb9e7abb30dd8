//! Each rule of the list is checked, or has a reason for no check; each check finds its breach.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::request::Caller;
use crate::rewrite_rules::rewrite_rule_ids;
use crate::server_rules::server_rule_ids;

/// Rules that permit something, each with an input that uses the permission.
const PERMITTED: [(&str, &str); 6] = [
    (
        "r-pair-chain",
        r#"{"previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"c","output":"a"}]}"#,
    ),
    (
        "r-hosted-one-item",
        r#"{"input":[{"type":"web_search_call","id":"ws_1","status":"completed","action":{}}]}"#,
    ),
    (
        "r-reasoning-by-id",
        r#"{"input":[{"type":"reasoning","summary":[]},{"role":"user","content":"a"}]}"#,
    ),
    (
        "r-reasoning-store-false",
        r#"{"store":false,"input":[{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c","output":"a"}]}"#,
    ),
    (
        "r-compaction-prune",
        r#"{"input":[{"type":"compaction","encrypted_content":"e"},{"role":"user","content":"a"}]}"#,
    ),
    (
        "r-extra-keys",
        r#"{"client_metadata":{"a":1},"input":[{"role":"user","content":"a","namespace":"n","agent":{}}]}"#,
    ),
];

#[test]
fn what_a_rule_permits_breaks_no_other() {
    for (id, body) in PERMITTED {
        assert_eq!(broken_input_rules(body.as_bytes()), [""; 0], "{id}");
    }
}

#[test]
fn every_kind_of_call_is_paired_with_its_kind_of_output() {
    for name in [
        "custom_tool_call",
        "shell_call",
        "computer_call",
        "tool_search_call",
        "multi_agent_call",
        "later_call",
        "program",
    ] {
        let call = json!({"type": name, "call_id": "c"});
        check(&json!([call]), &["r-pair-fwd"]);
        let output = match name {
            "tool_search_call" => {
                json!({"type": "tool_search_output", "call_id": "c", "tools": []})
            }
            _ => json!({"type": format!("{name}_output"), "call_id": "c"}),
        };
        let orphan = broken_input_rules(json!({"input": [output]}).to_string().as_bytes());
        assert!(orphan.contains(&"r-pair-back"), "{name}: {orphan:?}");
        let pair = broken_input_rules(json!({"input": [call, output]}).to_string().as_bytes());
        assert!(!pair.iter().any(|rule| rule.starts_with("r-pair")), "{name}: {pair:?}");
    }
}

#[test]
fn encrypted_reasoning_belongs_to_its_caller() {
    let content = crate::responses::issued::encrypted("strict", "one", 7);
    let body = json!({"model": "strict", "input": [
        {"type": "reasoning", "summary": [], "encrypted_content": content}]});
    for (credential, expect) in [("one", None), ("other", Some(ENCRYPTED_CALLER))] {
        let chat = ChatBody::parse_as(crate::request::Api::Responses, body.to_string().as_bytes());
        let chat = chat
            .unwrap()
            .with_caller(Caller { credential: credential.to_owned(), ..Caller::default() });
        assert_eq!(judge_caller(&chat).map(|(rule, _)| rule), expect);
    }
}

#[test]
fn every_listed_rule_is_checked_or_excused() {
    let list: Value = serde_json::from_str(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/responses_validity.json"
    )))
    .unwrap();
    let listed = list["rules"].as_array().unwrap().iter();
    let listed: BTreeSet<&str> = listed.map(|rule| rule["id"].as_str().unwrap()).collect();
    let others = server_rule_ids().chain(rewrite_rule_ids());
    let checked: Vec<&str> = input_rule_ids()
        .chain(others.filter(|id| id.starts_with("r-")))
        .chain(["r-pair-kinds"])
        .chain(PERMITTED.iter().map(|(id, _)| *id))
        .chain(UNCHECKED_INPUT_RULES.iter().map(|(id, _)| *id))
        .collect();
    assert_eq!(checked.len(), listed.len());
    assert_eq!(checked.into_iter().collect::<BTreeSet<_>>(), listed);
}

fn check(input: &Value, expect: &[&str]) {
    let body = json!({"input": input, "tools": [{"type": "function", "name": "read"}]});
    assert_eq!(broken_input_rules(body.to_string().as_bytes()), expect, "{input}");
}

#[test]
fn a_step_is_valid_only_with_its_reasoning_and_pairs() {
    let user = json!({"role": "user", "content": "go"});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "read",
        "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "12"});
    check(&json!([user, reasoning, call, output]), &[]);
    check(&json!([user, reasoning, output]), &["r-pair-back", "r-reasoning-follow"]);
    check(&json!([user, reasoning, call]), &["r-pair-fwd"]);
    check(&json!([output, call]), &["r-pair-back"]);
    check(&json!([call, call, output]), &["r-duplicate"]);
    check(&json!([user, reasoning]), &["r-reasoning-follow"]);
    check(&json!([]), &["r-not-empty"]);
}

#[test]
fn each_invalid_shape_breaks_its_rule() {
    for (item, rule) in [
        (json!({"role": "tool", "content": "a"}), "r-roles"),
        (
            json!({"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}),
            "r-assistant-parts",
        ),
        (json!({"role": "user", "id": "x_1", "content": "a"}), "r-id-prefix"),
        (json!({"type": "reasoning"}), "r-reasoning-shape"),
    ] {
        check(&json!([item]), &[rule]);
    }
    let paired = |kind: &str, output: Value| {
        let name = kind.trim_end_matches("_output");
        let call = json!({"type": name, "call_id": "c", "name": "read"});
        let mut answer = json!({"type": kind, "call_id": "c"});
        answer["output"] = output;
        json!([call, answer])
    };
    check(&paired("function_call_output", Value::Null), &["r-output-shape"]);
    check(&paired("shell_call_output", json!([{"stdout": "a"}])), &["r-shell-output"]);
    check(&paired("apply_patch_call_output", json!("a")), &["r-apply-patch-output"]);
    let other = json!([{"type": "function_call", "call_id": "c", "name": "write"},
        {"type": "function_call_output", "call_id": "c", "output": "a"}]);
    check(&other, &["r-tool-search"]);
    let trigger = json!([{"type": "compaction_trigger"}, {"role": "user", "content": "a"}]);
    check(&trigger, &["r-compaction-trigger"]);
    let long = "c".repeat(65);
    let call = json!([{"type": "function_call", "call_id": long, "name": "read"},
        {"type": "function_call_output", "call_id": long, "output": "a"}]);
    check(&call, &["r-call-id"]);
    let body = json!({"input": "a", "max_output_tokens": 8, "conversation": "c",
        "previous_response_id": "r"});
    assert_eq!(broken_input_rules(body.to_string().as_bytes()), ["r-max-output", "r-conversation"]);
    let text = "a".repeat(10_485_761);
    let call = json!([{"type": "function_call", "call_id": "c", "name": "read"},
        {"type": "function_call_output", "call_id": "c", "output": text}]);
    let body = json!({"input": call});
    assert_eq!(broken_input_rules(body.to_string().as_bytes()), ["r-string-limit"]);
}

#[test]
fn items_torn_from_their_reasoning_are_found() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
    let body = |items: Value| json!({"input": items});
    let whole = body(json!([reasoning, message]));
    let torn = |sent: &Value| torn_from_reasoning(&whole, sent);
    assert_eq!(torn(&whole), None);
    assert_eq!(torn(&body(json!([message]))).as_deref(), Some("msg_1"));
    assert_eq!(torn(&body(json!([]))), None);
}

/// An input of one step that the strict model made, and a change of it.
fn issued(change: impl FnOnce(&mut Value)) -> Vec<&'static str> {
    let mut body = json!({"model": "strict", "store": false, "input": [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_strict7", "summary": [],
            "encrypted_content": crate::responses::issued::encrypted("strict", "", 7)},
        {"type": "function_call", "id": "fc_strict7", "call_id": "c", "name": "read",
            "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "12"}]});
    change(&mut body);
    broken_input_rules(body.to_string().as_bytes())
}

#[test]
fn a_step_of_the_model_keeps_its_reasoning_byte_for_byte() {
    assert_eq!(issued(|_| {}), [""; 0]);
    let remove = |body: &mut Value| {
        body["input"].as_array_mut().unwrap().remove(1);
    };
    assert_eq!(issued(remove), ["r-reasoning-precede"]);
    let without_ids = |body: &mut Value| {
        remove(body);
        body["input"][1].as_object_mut().unwrap().remove("id");
    };
    assert_eq!(issued(without_ids), [""; 0]);
    let damage = |body: &mut Value| {
        let content = body["input"][1]["encrypted_content"].as_str().unwrap();
        body["input"][1]["encrypted_content"] = json!(format!("{}B", &content[..399]));
    };
    assert_eq!(issued(damage), ["r-encrypted"]);
    assert_eq!(issued(|body| body["model"] = json!("other")), ["r-encrypted"]);
    let empty = |body: &mut Value| body["input"][1]["encrypted_content"] = Value::Null;
    assert_eq!(issued(empty), ["r-store-ids"]);
}

#[test]
fn an_output_of_a_local_shell_names_its_call_by_either_id() {
    let call = json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "c"});
    let output =
        |key: &str, id: &str| json!({"type": "local_shell_call_output", key: id, "output": "{}"});
    for (key, id) in [("call_id", "c"), ("id", "c"), ("id", "lsh_1")] {
        check(&json!([call, output(key, id)]), &[]);
    }
    let stray = output("id", "lsh_2");
    check(&json!([call, stray]), &["r-pair-fwd", "r-pair-back"]);
    check(&json!([stray]), &["r-pair-back"]);
}

#[test]
fn items_of_the_provider_keep_their_shape_and_partners() {
    let call = |kind: &str, output: Value| {
        let mut answer = json!({"type": format!("{kind}_output"), "call_id": "c"});
        answer["output"] = output;
        json!([{"type": kind, "call_id": "c"}, answer])
    };
    check(&call("local_shell_call", json!([])), &["r-local-shell"]);
    check(&call("computer_call", json!("cleared")), &["r-computer-output"]);
    let shot = |url: &str| json!({"type": "computer_screenshot", "image_url": url});
    check(&call("computer_call", shot("cleared")), &["r-computer-output"]);
    check(&call("computer_call", shot("data:image/png;base64,iVBOR")), &[]);
    let approval = json!({"type": "mcp_approval_response", "approval_request_id": "m"});
    check(&json!([approval]), &["r-mcp-one-item"]);
    check(&json!([{"type": "mcp_approval_request", "id": "m"}, approval]), &[]);
    let caller = json!({"type": "program", "caller_id": "p"});
    let made = json!([{"type": "custom_tool_call", "call_id": "c", "name": "read", "caller": caller},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "a"}]);
    check(&made, &["r-program"]);
    check(&json!([{"type": "compaction"}]), &["r-compaction-item"]);
    let marked = json!([{"role": "user", "content": [{"type": "input_text", "text": "a",
        "prompt_cache_breakpoint": {"mode": "implicit"}}]}]);
    check(&marked, &["r-breakpoint"]);
    let body = json!({"input": "a", "instructions": [], "context_management":
        [{"type": "compaction", "compact_threshold": 10}]});
    assert_eq!(
        broken_input_rules(body.to_string().as_bytes()),
        ["r-context-management", "r-instructions"]
    );
}
