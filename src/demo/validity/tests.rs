//! Each rule with a body that it refuses and one that it accepts; the list, whole.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

fn list() -> Vec<Value> {
    let list = include_str!("../../../fixtures/validity.json")
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

fn messages(messages: Vec<Value>) -> Value {
    json!({"model": "m", "messages": messages, "tools": [tool()]})
}

fn with(name: &str, value: Value) -> Value {
    let mut body = messages(vec![user()]);
    body[name] = value;
    body
}

fn thinking(signature: &Value) -> Value {
    messages(vec![
        user(),
        json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "t", "signature": signature}]}),
        user(),
    ])
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
    messages(vec![
        user(),
        json!({"role": "assistant", "content": null, "function_call": {"name": call, "arguments": "{}"}}),
        json!({"role": "function", "name": answer, "content": "r"}),
    ])
}

/// A body that a rule refuses, and one that it accepts and that differs in what the rule is about.
fn cases(id: &str) -> (Value, Value) {
    const A: &str = "abcdefgh1";
    const B: &str = "abcdefgh2";
    let paired = || {
        messages(vec![
            user(),
            calling(&[A, B]),
            result(B),
            result(A),
            reply(),
            user(),
        ])
    };
    let unanswered = || messages(vec![user(), calling(&[A, B]), result(A), user()]);
    let orphan = || messages(vec![user(), result(A)]);
    let of_id = |id: &str| messages(vec![user(), calling(&[id]), result(id)]);
    let of_result = |content: Value| {
        messages(vec![
            user(),
            calling(&[A]),
            json!({"role": "tool", "tool_call_id": A, "content": content}),
        ])
    };
    match id {
        "alternation" => (messages(vec![user(), user()]), paired()),
        "anthropic-compat" => (with("n", json!(2)), with("n", json!(1))),
        "anthropic-merge" => (
            messages(vec![user(); 100_001]),
            messages(vec![user(); 100_000]),
        ),
        "assistant-array" => {
            let parts = json!({"role": "assistant", "content": [{"type": "text", "text": "a"}]});
            (
                messages(vec![user(), parts]),
                messages(vec![user(), reply()]),
            )
        }
        "assistant-empty" => (
            of_result(json!("")),
            messages(vec![user(), empty("assistant")]),
        ),
        "assistant-empty-but-results" => (messages(vec![empty("user")]), of_result(json!(""))),
        "assistant-null" => {
            let silent = json!({"role": "assistant", "content": null});
            (messages(vec![user(), silent, user()]), paired())
        }
        "cache-control-4" => {
            let part = json!({"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}});
            let marked = |n| {
                messages(vec![
                    json!({"role": "user", "content": vec![part.clone(); n]}),
                ])
            };
            (marked(5), marked(4))
        }
        "content" => (
            messages(vec![json!({"role": "user", "content": 1})]),
            paired(),
        ),
        "developer-role" => (
            messages(vec![head("developer"), user()]),
            messages(vec![head("system"), user()]),
        ),
        "first-message" => (
            messages(vec![head("system"), reply(), user()]),
            messages(vec![head("system"), user()]),
        ),
        "last-message" => (messages(vec![user(), reply()]), of_id(A)),
        "legacy-function" => (function("f", "g"), function("f", "f")),
        "max-tokens-field" => (
            with("max_completion_tokens", json!(1)),
            with("max_tokens", json!(1)),
        ),
        "max-tokens-field-reasoning" => (
            with("max_tokens", json!(1)),
            with("max_completion_tokens", json!(1)),
        ),
        "messages" => (messages(vec![]), messages(vec![user()])),
        "reasoning-content-deepseek" => (
            messages(vec![user(), reply(), user()]),
            messages(vec![user(), with_reasoning(reply(), ""), user()]),
        ),
        "reasoning-content-kimi" => (
            paired(),
            messages(vec![
                user(),
                with_reasoning(calling(&[A]), "why"),
                result(A),
                reply(),
                user(),
            ]),
        ),
        "role" => (
            messages(vec![head("narrator")]),
            messages(vec![head("developer"), user()]),
        ),
        "role-order-mistral" => (
            messages(vec![user(), calling(&[A]), result(A), user()]),
            paired(),
        ),
        "store" => (with("store", json!(true)), with("user", json!("u"))),
        "system-first" => (
            messages(vec![head("system"), head("system"), user()]),
            messages(vec![head("system"), user()]),
        ),
        "thinking-signature" => (thinking(&Value::Null), thinking(&json!("s"))),
        "thought-signature" => {
            let mut signed = paired();
            signed["messages"][1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"] =
                json!("s");
            (paired(), signed)
        }
        "tool-call-args" => {
            let mut torn = paired();
            torn["messages"][1]["tool_calls"][0]["function"]["arguments"] = json!("{\"a\": ");
            (torn, paired())
        }
        "tool-content" => (
            of_result(json!([{"type": "image_url", "image_url": {"url": "u"}}])),
            of_result(json!([{"type": "text", "text": "t"}])),
        ),
        "tool-count-gemini"
        | "tool-count-mistral"
        | "tool-pair-anthropic-fwd"
        | "tool-pair-dashscope"
        | "tool-pair-deepseek"
        | "tool-pair-fwd" => (unanswered(), paired()),
        "tool-id-anthropic" => (of_id("a b"), of_id("a_b-1")),
        "tool-id-mistral" => (of_id("call_abc1"), of_id(A)),
        "tool-id-openai" => (of_id(&"x".repeat(41)), of_id(&"x".repeat(40))),
        "tool-order-gemini" => (
            messages(vec![user(), reply(), calling(&[A]), result(A)]),
            paired(),
        ),
        "tool-pair-anthropic-back" | "tool-pair-back" => (orphan(), paired()),
        "tools-param" => {
            let mut bare = paired();
            bare.as_object_mut().unwrap().remove("tools");
            (bare, paired())
        }
        other => panic!("rule {other} has no cases"),
    }
}

#[test]
fn each_rule_refuses_what_breaks_it_and_nothing_else() {
    for rule in RULES {
        let (refused, accepted) = cases(rule.id);
        let dialect = Dialect::only(rule.id).unwrap();
        let broken = |body: &Value| {
            dialect
                .broken_by(body.to_string().as_bytes())
                .map(|rule| rule.id)
        };
        assert_eq!(broken(&refused), Some(rule.id), "{refused}");
        assert_eq!(broken(&accepted), None, "{}: {accepted}", rule.id);
    }
}

#[test]
fn a_second_answer_to_a_call_is_an_orphan() {
    let twice = messages(vec![user(), calling(&["a"]), result("a"), result("a")]);
    let broken = Dialect::standard().broken_by(twice.to_string().as_bytes());
    assert_eq!(broken.map(|rule| rule.id), Some("tool-pair-back"));
}

#[test]
fn results_apart_from_their_calls_are_refused() {
    let apart = messages(vec![
        user(),
        calling(&["a", "b"]),
        result("a"),
        user(),
        result("b"),
    ]);
    let broken = Dialect::standard().broken_by(apart.to_string().as_bytes());
    assert_eq!(broken.map(|rule| rule.id), Some("tool-pair-fwd"));
}

#[test]
fn every_listed_rule_is_enforced_or_excused() {
    let listed: BTreeSet<String> = list()
        .iter()
        .map(|rule| rule["id"].as_str().unwrap().to_owned())
        .collect();
    let enforced: BTreeSet<String> = RULES
        .iter()
        .filter_map(|rule| rule.source)
        .map(str::to_owned)
        .collect();
    let excused: BTreeSet<String> = ELSEWHERE.iter().map(|(id, _)| (*id).to_owned()).collect();
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
    assert!(Dialect::standard().with("no-such-rule").is_err());
    assert!(Dialect::standard().without("no-such-rule").is_err());
}

#[test]
fn an_added_rule_is_asked_first_and_a_removed_one_never() {
    let body = messages(vec![user(), calling(&["abcdefgh1"]), user()]).to_string();
    let broken = |dialect: Dialect| dialect.broken_by(body.as_bytes()).map(|rule| rule.id);
    assert_eq!(broken(Dialect::standard()), Some("tool-pair-fwd"));
    let deepseek = Dialect::standard().with("tool-pair-deepseek").unwrap();
    assert_eq!(broken(deepseek), Some("tool-pair-deepseek"));
    assert_eq!(
        broken(Dialect::standard().without("tool-pair-fwd").unwrap()),
        None
    );
}

#[test]
fn answers_in_the_shape_of_whose_rule_it_is() {
    for (id, place) in [
        ("tool-pair-fwd", "/error/message"),
        ("tool-pair-anthropic-fwd", "/error/message"),
        ("tool-count-mistral", "/message"),
        ("tool-count-gemini", "/0/error/message"),
    ] {
        let refusal = find(id).unwrap().refusal("call_7");
        let body: Value = refusal.body.parse().unwrap();
        let message = body.pointer(place).and_then(Value::as_str).unwrap();
        assert!(
            find(id).unwrap().error.contains("<what>") == message.contains("call_7"),
            "{body}"
        );
        assert_eq!(refusal.status, 400);
    }
}
