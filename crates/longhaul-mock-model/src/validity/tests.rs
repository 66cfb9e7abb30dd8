//! A refused and an accepted body for each rule, and the completeness of the list.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

fn list() -> Vec<Value> {
    let list = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/validity.json"))
        .parse::<Value>()
        .unwrap();
    list["rules"].as_array().unwrap().clone()
}

fn calling(ids: &[&str]) -> Value {
    let call = |id: &&str| {
        json!({"id": id, "type": "function",
        "function": {"name": "f", "arguments": "{}"}})
    };
    json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "r"})
}

fn user() -> Value {
    json!({"role": "user", "content": "u"})
}

fn reply() -> Value {
    json!({"role": "assistant", "content": "a"})
}

fn head(role: &str) -> Value {
    json!({"role": role, "content": "h"})
}

fn tool() -> Value {
    json!({"type": "function", "function": {"name": "f"}})
}

fn messages(messages: impl IntoIterator<Item = Value>) -> Value {
    let messages: Vec<Value> = messages.into_iter().collect();
    json!({"model": "m", "messages": messages, "tools": [tool()]})
}

fn with(name: &str, value: Value) -> Value {
    let mut body = messages([user()]);
    body[name] = value;
    body
}

fn with_reasoning(mut message: Value, reasoning: &str) -> Value {
    message["reasoning_content"] = json!(reasoning);
    message
}

fn empty(role: &str) -> Value {
    let id = (role == "tool").then_some("abcdefgh1");
    json!({"role": role, "content": "", "tool_call_id": id})
}

fn function(call: &str, answer: &str) -> Value {
    messages([
        user(),
        json!({"role": "assistant", "content": null, "function_call": {"name": call, "arguments": "{}"}}),
        json!({"role": "function", "name": answer, "content": "r"}),
    ])
}

const A: &str = "abcdefgh1";
const B: &str = "abcdefgh2";

fn paired() -> Value {
    messages([user(), calling(&[A, B]), result(B), result(A), reply(), user()])
}

fn of_result(content: &Value) -> Value {
    let result = json!({"role": "tool", "tool_call_id": A, "content": content});
    messages([user(), calling(&[A]), result])
}

fn of_id(id: &str) -> Value {
    messages([user(), calling(&[id]), result(id)])
}

fn pairing_cases(id: &str) -> Option<(Value, Value)> {
    let unanswered = messages([user(), calling(&[A, B]), result(A), user()]);
    let orphan = messages([user(), result(A)]);
    Some(match id {
        "legacy-function" => (function("f", "g"), function("f", "f")),
        "tool-count-gemini"
        | "tool-count-mistral"
        | "tool-pair-anthropic-fwd"
        | "tool-pair-dashscope"
        | "tool-pair-deepseek"
        | "tool-pair-fwd" => (unanswered, paired()),
        "tool-pair-anthropic-back" | "tool-pair-back" => (orphan, paired()),
        _ => return None,
    })
}

fn order_cases(id: &str) -> Option<(Value, Value)> {
    let behind = |roles: &[&str]| messages(roles.iter().map(|role| head(role)).chain([user()]));
    Some(match id {
        "alternation" => (messages([user(), user()]), paired()),
        "anthropic-merge" => (messages(vec![user(); 100_001]), messages(vec![user(); 100_000])),
        "developer-role" => (behind(&["developer"]), behind(&["system"])),
        "first-message" => (messages([head("system"), reply(), user()]), behind(&["system"])),
        "last-message" => (messages([user(), reply()]), of_id(A)),
        "messages" => (messages([]), messages([user()])),
        "role" => (behind(&["narrator"]), behind(&["developer"])),
        "role-order-mistral" => (messages([user(), calling(&[A]), result(A), user()]), paired()),
        "system-first" => (behind(&["system", "system"]), behind(&["system"])),
        "tool-order-gemini" => (messages([user(), reply(), calling(&[A]), result(A)]), paired()),
        _ => return None,
    })
}

fn content_cases(id: &str) -> Option<(Value, Value)> {
    let part = json!([{"type": "text", "text": "a"}]);
    let image = json!([{"type": "image_url", "image_url": {"url": "u"}}]);
    let answer = |content: &Value| {
        messages([user(), json!({"role": "assistant", "content": content}), user()])
    };
    let thought = |signature: &Value| {
        answer(&json!([{"type": "thinking", "thinking": "t", "signature": signature}]))
    };
    let reasoned = with_reasoning(calling(&[A]), "why");
    Some(match id {
        "assistant-array" => (answer(&part), answer(&json!("a"))),
        "assistant-empty" => (of_result(&json!("")), messages([user(), empty("assistant")])),
        "assistant-empty-but-results" => (messages([empty("user")]), of_result(&json!(""))),
        "assistant-null" => (answer(&Value::Null), paired()),
        "content" => (messages([json!({"role": "user", "content": 1})]), paired()),
        "reasoning-content-deepseek" => {
            (answer(&json!("a")), messages([user(), with_reasoning(reply(), ""), user()]))
        }
        "reasoning-content-kimi" => {
            (paired(), messages([user(), reasoned, result(A), reply(), user()]))
        }
        "thinking-signature" => (thought(&Value::Null), thought(&json!("s"))),
        "thought-signature" => {
            (paired(), changed("extra_content", json!({"google": {"thought_signature": "s"}})))
        }
        "tool-content" => (of_result(&image), of_result(&part)),
        _ => return None,
    })
}

fn field_cases(id: &str) -> Option<(Value, Value)> {
    let marked = |count| {
        let part = json!({"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}});
        messages([json!({"role": "user", "content": vec![part; count]})])
    };
    let mut bare = paired();
    bare["tools"] = json!([]);
    let (old, new) = (with("max_tokens", json!(1)), with("max_completion_tokens", json!(1)));
    Some(match id {
        "anthropic-compat" => (with("n", json!(2)), with("n", json!(1))),
        "cache-control-4" => (marked(5), marked(4)),
        "max-tokens-field" => (new, old),
        "max-tokens-field-reasoning" => (old, new),
        "store" => (with("store", json!(true)), with("user", json!("u"))),
        "tool-call-args" => {
            (changed("function", json!({"name": "f", "arguments": "{\"a\": "})), paired())
        }
        "tool-id-anthropic" => (of_id("a b"), of_id("a_b-1")),
        "tool-id-mistral" => (of_id("call_abc1"), of_id(A)),
        "tool-id-openai" => (of_id(&"x".repeat(41)), of_id(&"x".repeat(40))),
        "tools-param" => (bare, paired()),
        _ => return None,
    })
}

/// Returns [`paired`] with a changed member of its first call.
fn changed(name: &str, value: Value) -> Value {
    let mut body = paired();
    body["messages"][1]["tool_calls"][0][name] = value;
    body
}

/// Returns a body that the rule refuses and one that it accepts. They differ only in the subject of
/// the rule.
fn cases(id: &str) -> (Value, Value) {
    let suites = [pairing_cases, order_cases, content_cases, field_cases];
    let found = suites.iter().find_map(|suite| suite(id));
    found.unwrap_or_else(|| panic!("rule {id} has no cases"))
}

#[test]
fn each_rule_refuses_what_breaks_it_and_nothing_else() {
    for rule in RULES {
        let (refused, accepted) = cases(rule.id);
        let validity = ValidityRules::only(rule.id).unwrap();
        let broken =
            |body: &Value| validity.broken_by(body.to_string().as_bytes()).map(|rule| rule.id);
        assert_eq!(broken(&refused), Some(rule.id), "{refused}");
        assert_eq!(broken(&accepted), None, "{}: {accepted}", rule.id);
    }
}

#[test]
fn a_second_answer_to_a_call_is_an_orphan() {
    let twice = messages([user(), calling(&["a"]), result("a"), result("a")]);
    let broken = ValidityRules::standard().broken_by(twice.to_string().as_bytes());
    assert_eq!(broken.map(|rule| rule.id), Some("tool-pair-back"));
}

#[test]
fn results_apart_from_their_calls_are_refused() {
    let apart = messages([user(), calling(&["a", "b"]), result("a"), user(), result("b")]);
    let broken = ValidityRules::standard().broken_by(apart.to_string().as_bytes());
    assert_eq!(broken.map(|rule| rule.id), Some("tool-pair-fwd"));
}

#[test]
fn every_listed_rule_is_enforced_or_excused() {
    let listed: BTreeSet<String> =
        list().iter().map(|rule| rule["id"].as_str().unwrap().to_owned()).collect();
    let enforced: BTreeSet<String> =
        RULES.iter().filter_map(|rule| rule.source).map(str::to_owned).collect();
    let excused: BTreeSet<String> =
        UNCHECKED_RULES.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(listed.len(), 42);
    assert_eq!(&enforced | &excused, listed);
    assert_eq!(enforced.intersection(&excused).count(), 0);
}

#[test]
fn error_texts_are_the_listed_ones_to_the_letter() {
    for listed in list() {
        let Some(text) = listed["error"].as_str() else {
            continue;
        };
        let id = listed["id"].as_str();
        for rule in RULES.iter().filter(|rule| rule.source == id) {
            let (before, behind) = rule.error.split_once("<what>").unwrap_or((rule.error, ""));
            let whole = before.len() == text.len() || rule.error.contains("<what>");
            assert!(
                text.starts_with(before) && text.ends_with(behind) && whole,
                "{rule:?}: {text}"
            );
            assert_eq!(listed["status"], 400, "{rule:?}");
        }
    }
}

#[test]
fn rule_names_are_unique_and_unknown_ones_refused() {
    let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(names.len(), RULES.len());
    assert!(ValidityRules::standard().with("no-such-rule").is_err());
    assert!(ValidityRules::standard().without("no-such-rule").is_err());
}

#[test]
fn an_added_rule_is_checked_first_and_a_removed_one_never() {
    let body = messages([user(), calling(&["abcdefgh1"]), user()]).to_string();
    let broken = |validity: ValidityRules| validity.broken_by(body.as_bytes()).map(|rule| rule.id);
    assert_eq!(broken(ValidityRules::standard()), Some("tool-pair-fwd"));
    let deepseek = ValidityRules::standard().with("tool-pair-deepseek").unwrap();
    assert_eq!(broken(deepseek), Some("tool-pair-deepseek"));
    assert_eq!(broken(ValidityRules::standard().without("tool-pair-fwd").unwrap()), None);
}

#[test]
fn refusal_has_the_error_format_of_the_rules_provider() {
    for (id, place) in [
        ("tool-pair-fwd", "/error/message"),
        ("tool-pair-anthropic-fwd", "/error/message"),
        ("tool-count-mistral", "/message"),
        ("tool-count-gemini", "/0/error/message"),
    ] {
        let refusal = find(id).unwrap().refusal("call_7");
        let body: Value = refusal.body.parse().unwrap();
        let message = body.pointer(place).and_then(Value::as_str).unwrap();
        assert!(find(id).unwrap().error.contains("<what>") == message.contains("call_7"), "{body}");
        assert_eq!(refusal.status, 400);
    }
}
