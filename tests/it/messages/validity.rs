//! The rules of `fixtures/messages/validity.json`.

use std::collections::BTreeSet;

use longhaul_mock_model::{
    MESSAGES_RULES, MESSAGES_RULES_BEYOND_BODIES, UNCHECKED_MESSAGES_RULES, broken_by_rewrite,
    broken_messages_rules, broken_server_rules, rewrite_rule_ids, server_rule_ids,
};
use serde_json::{Value, json};

use super::subject::sessions;

/// Returns the rules that `before` obeys and `after` breaks.
pub(crate) fn newly_broken(before: &[u8], after: &[u8]) -> Vec<&'static str> {
    let parse = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    let (before, after) = (parse(before), parse(after));
    let broken = |body: &Value| -> BTreeSet<&str> {
        let own = broken_messages_rules(body);
        let own = own.iter().map(|it| it.id);
        own.chain(broken_server_rules(body)).collect()
    };
    // Most bodies break nothing, and the client's own is the longer one.
    let found = broken(&after);
    let allowed = if found.is_empty() { BTreeSet::new() } else { broken(&before) };
    let rewritten = broken_by_rewrite(&before, &after);
    found.into_iter().filter(|id| !allowed.contains(id)).chain(rewritten).collect()
}

#[test]
fn every_listed_rule_is_checked_or_has_a_reason_not_to_be() {
    let list: Value =
        serde_json::from_str(include_str!("../../../fixtures/messages/validity.json")).unwrap();
    let list = list["rules"].as_array().unwrap();
    let listed: BTreeSet<&str> = list.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    let others = server_rule_ids().chain(rewrite_rule_ids());
    let known: Vec<&str> = MESSAGES_RULES
        .iter()
        .map(|rule| rule.id)
        .chain(MESSAGES_RULES_BEYOND_BODIES.iter().copied())
        .chain(others.filter(|id| id.starts_with("m-")))
        .chain(PERMITTED.iter().map(|(id, ..)| *id))
        .chain(UNCHECKED_MESSAGES_RULES.iter().map(|(id, _)| *id))
        .collect();
    assert_eq!(known.len(), 74);
    assert_eq!(known.into_iter().collect::<BTreeSet<_>>(), listed);
}

/// Sessions that refer to deferred tools, which the recorder did not log: their tools are derived from
/// the calls.
const WITHOUT_DEFERRED_TOOLS: [&str; 2] =
    ["oh-my-posh-03ce845f.json.gz", "skills-fe3ed705.json.gz"];

#[test]
fn every_session_obeys_every_rule() {
    for (name, body) in sessions() {
        let body: Value = serde_json::from_slice(&body).unwrap();
        let lacks_tools = WITHOUT_DEFERRED_TOOLS.contains(&&*name);
        let broken = broken_messages_rules(&body);
        let broken: Vec<&str> = broken.iter().map(|rule| rule.id).collect();
        let expect: &[&str] = if lacks_tools { &["m-result-reference"] } else { &[] };
        assert_eq!(broken, expect, "{name}");
    }
}

/// A body that obeys every rule.
fn valid() -> Value {
    json!({
        "model": "m", "max_tokens": 100, "system": "s", "tools": [{"name": "f", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "r"},
                {"type": "text", "text": "and"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            {"role": "user", "content": "more"}]
    })
}

/// A change of a valid body that breaks one rule, as the place and the value there.
const BREACHES: &[(&str, &str, &str)] = &[
    ("m-pair-fwd", "/messages/2/content", r#""x""#),
    ("m-pair-back", "/messages/1/content/2", r#"{"type":"text","text":"x"}"#),
    (
        "m-result-first",
        "/messages/2/content",
        r#"[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a","content":"r"}]"#,
    ),
    ("m-result-role", "/messages/3/content/0", r#"{"type":"tool_result","tool_use_id":"a"}"#),
    (
        "m-use-unique",
        "/messages/1/content/1",
        r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#,
    ),
    ("m-result-once", "/messages/2/content/1", r#"{"type":"tool_result","tool_use_id":"a"}"#),
    ("m-id-pattern", "/messages/1/content/2/id", r#""a.b""#),
    ("m-use-input-object", "/messages/1/content/2/input", r#""{}""#),
    ("m-tools-kept", "/tools", "[]"),
    ("m-result-content", "/messages/2/content/0/content", r#"[{"type":"later"}]"#),
    (
        "m-result-toolset",
        "/messages/1/content/2",
        r#"{"type":"tool_use","id":"a","name":"f","input":{},"toolset_name":"t"}"#,
    ),
    (
        "m-result-reference",
        "/messages/2/content/0/content",
        r#"[{"type":"tool_reference","tool_name":"g"}]"#,
    ),
    (
        "m-result-error",
        "/messages/2/content/0",
        r#"{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"image"}]}"#,
    ),
    ("m-roles", "/messages/4/role", r#""tool""#),
    ("m-system-place", "/messages/0", r#"{"role":"system","content":"x"}"#),
    ("m-system-blocks", "/messages/4", r#"{"role":"system","content":[{"type":"image"}]}"#),
    ("m-first-user", "/messages/0/role", r#""assistant""#),
    ("m-nonempty-message", "/messages/4/content", "[]"),
    ("m-text-nonempty", "/messages/2/content/1/text", r#""""#),
    ("m-text-whitespace", "/messages/4/content", r#"" \n""#),
    ("m-trailing-space", "/messages/4", r#"{"role":"assistant","content":"x "}"#),
    ("m-prefill", "/messages/4", r#"{"role":"assistant","content":"x"}"#),
    (
        "m-open-server-tool",
        "/messages/1/content/1",
        r#"{"type":"server_tool_use","id":"srvtoolu_a","name":"web_search","input":{}}"#,
    ),
    ("m-thinking-signature", "/messages/1/content/0/signature", r#""""#),
    (
        "m-thinking-last",
        "/messages/3/content/0",
        r#"{"type":"thinking","thinking":"x","signature":"s"}"#,
    ),
    ("m-thinking-budget", "/thinking", r#"{"type":"enabled","budget_tokens":100}"#),
    ("m-server-pair", "/messages/3/content/0", r#"{"type":"server_tool_use","id":"srvtoolu_a"}"#),
    (
        "m-server-pair-back",
        "/messages/3/content/0",
        r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_a"}"#,
    ),
    ("m-mcp", "/messages/4/content", r#"[{"type":"mcp_tool_result","tool_use_id":"a"}]"#),
    ("m-fallback", "/messages/4/content", r#"[{"type":"fallback"}]"#),
    ("m-ondemand-block", "/messages/3/content/0", r#"{"type":"compaction","signature":"s"}"#),
    (
        "m-context-edits",
        "/context_management",
        r#"{"edits":[{"type":"clear_tool_uses_20250919"},{"type":"clear_thinking_20251015"}]}"#,
    ),
    (
        "m-cache-4",
        "/system",
        r#"[{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"a","cache_control":{}}]"#,
    ),
    (
        "m-cache-ttl",
        "/system",
        r#"[{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"b","cache_control":{"ttl":"1h"}}]"#,
    ),
    ("m-cache-empty", "/messages/2/content/1", r#"{"type":"text","text":"","cache_control":{}}"#),
    ("m-cache-where", "/messages/1/content/0/cache_control", "{}"),
    ("m-system-param", "/system", "{}"),
    ("m-document", "/messages/2/content/0/content", r#"[{"type":"document"}]"#),
    ("m-container", "/messages/2/content/1", r#"{"type":"container_upload"}"#),
    ("m-compaction", "/messages/3/content/0", r#"{"type":"compaction"}"#),
    ("m-max-tokens-min", "/max_tokens", "0"),
    ("m-pair-next-only", "/messages/4/content", r#"[{"type":"tool_result","tool_use_id":"a"}]"#),
    (
        "m-citations",
        "/messages/3/content/0",
        r#"{"type":"text","text":"x","citations":[{"document_index":0}]}"#,
    ),
];

/// Rules that permit something, each with a change of a valid body that uses the permission.
const PERMITTED: [(&str, &str, &str); 11] = [
    (
        "m-result-all-one-message",
        "/messages",
        r#"[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"b"}]}]"#,
    ),
    (
        "m-system-vllm",
        "/messages",
        r#"[{"role":"user","content":"go"},{"role":"system","content":"x"}]"#,
    ),
    ("m-merge", "/messages/3/role", r#""user""#),
    (
        "m-pause-turn",
        "/messages/4",
        r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_a","name":"web_search","input":{}}]}"#,
    ),
    ("m-thinking-earlier", "/messages/1/content/0", r#"{"type":"text","text":"x"}"#),
    ("m-bound-free", "/messages/2/content/0/cache_control", r#"{"type":"ephemeral"}"#),
    ("m-bound-server", "/context_management", r#"{"edits":[{"type":"clear_thinking_20251015"}]}"#),
    ("m-bound-model", "/model", r#""other""#),
    ("m-clear-at", "/messages/2/clear_at", r#""next_user_message""#),
    (
        "m-system-empty",
        "/messages",
        r#"[{"role":"user","content":"go"},{"role":"system","content":[],"output_config":{"effort":"low"}}]"#,
    ),
    ("m-mcp-listing", "/messages/3/content/0", r#"{"type":"mcp_tool_listing","tools":[]}"#),
];

#[test]
fn what_a_rule_permits_breaks_no_other() {
    for (id, place, value) in PERMITTED {
        let mut body = valid();
        let value: Value = value.parse().unwrap();
        if let Some(old) = body.pointer_mut(place) {
            *old = value;
        } else {
            let (object, name) = place.rsplit_once('/').unwrap();
            body.pointer_mut(object).unwrap()[name] = value;
        }
        let broken = broken_messages_rules(&body);
        assert!(broken.is_empty(), "{id}: {broken:?}");
    }
}

#[test]
fn each_rule_detects_its_violation() {
    assert!(broken_messages_rules(&valid()).is_empty());
    for (id, place, value) in BREACHES {
        let mut body = valid();
        let value: Value = value.parse().unwrap();
        if let Some(old) = body.pointer_mut(place) {
            *old = value;
        } else {
            let (object, name) = place.rsplit_once('/').unwrap();
            body.pointer_mut(object).unwrap()[name] = value;
        }
        let broken: Vec<&str> = broken_messages_rules(&body).iter().map(|it| it.id).collect();
        assert!(broken.contains(id), "{id}: {broken:?}");
    }
}

#[test]
fn rules_that_depend_on_settings_detect_their_violations() {
    let check = |id: &str, changes: &[(&str, Value)]| {
        let mut body = valid();
        for (name, value) in changes {
            body[*name] = value.clone();
        }
        let broken = broken_messages_rules(&body);
        assert!(broken.iter().any(|it| it.id == id), "{id}: {broken:?}");
    };
    let mut open = valid()["messages"].as_array().unwrap()[..2].to_vec();
    open[1]["content"].as_array_mut().unwrap().swap(0, 1);
    open.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}));
    let enabled = json!({"type": "enabled", "budget_tokens": 1});
    check("m-thinking-loop", &[("thinking", enabled.clone()), ("messages", json!(open))]);
    check("m-thinking-choice", &[("thinking", enabled), ("tool_choice", json!({"type": "any"}))]);
    let last = valid()["messages"].as_array().unwrap()[..2].to_vec();
    check(
        "m-thinking-off",
        &[("thinking", json!({"type": "disabled"})), ("messages", json!(last))],
    );
    let image = json!({"role": "user", "content": vec![json!({"type": "image"}); 601]});
    check("m-images", &[("messages", json!([image]))]);
    let pdf = json!({"type": "document", "source": {"media_type": "application/pdf"}});
    let pdfs = json!({"role": "user", "content": vec![pdf; 601]});
    check("m-pdf", &[("messages", json!([pdfs]))]);
    check(
        "m-count",
        &[("messages", json!(vec![json!({"role": "user", "content": "x"}); 100_001]))],
    );
    let marked = json!([{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"ttl": "1h"}}]}]);
    check("m-cache-auto", &[("cache_control", json!({"ttl": "5m"})), ("messages", marked)]);
}
