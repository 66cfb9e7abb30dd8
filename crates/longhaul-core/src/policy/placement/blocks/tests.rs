//! Cuts within and next to objects that hold several messages.

use super::*;
use crate::dialect::messages::read;
use crate::planning::plan::Replacement;
use crate::planning::splice::Splice;
use serde_json::{Value, json};

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn reminder() -> Value {
    text("<system-reminder>rules</system-reminder>")
}

fn user(blocks: &[Value]) -> Value {
    json!({"role": "user", "content": blocks})
}

/// Builds a step whose result is followed by `behind`.
fn step(id: &str, behind: &[Value]) -> [Value; 2] {
    let call = json!({"type": "tool_use", "id": id, "name": "f", "input": {"a": "x".repeat(200)}});
    let mut answer = vec![json!({"type": "tool_result", "tool_use_id": id, "content": "long"})];
    answer.extend_from_slice(behind);
    [json!({"role": "assistant", "content": [call]}), user(&answer)]
}

/// Returns the messages after "sum" replaced those in `range`.
fn cut(messages: &[Value], range: (usize, usize), placement: Placement) -> Vec<Value> {
    let body = json!({"messages": messages}).to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let cut = Replacement::History { from: range.0, to: range.1, text: "sum".into(), placement };
    let splice = Splice::new(&conversation, &[cut]).unwrap();
    let out: Value = serde_json::from_slice(&splice.apply()).unwrap();
    out["messages"].as_array().unwrap().clone()
}

/// A first message with a reminder, and two steps. The first one ends with the user's words.
fn session() -> Vec<Value> {
    let [calls, answers] = step("a", &[text("faster")]);
    let [calls_again, answers_again] = step("b", &[]);
    let first = user(&[reminder(), text("port it")]);
    vec![first, calls, answers, calls_again, answers_again]
}

#[test]
fn between_two_messages_the_summary_is_a_separate_message() {
    let messages = session();
    let out = cut(&messages, (2, 5), Placement::Separate);
    let own = json!({"role": "user", "content": "sum"});
    assert_eq!(out, [&[messages[0].clone(), own], &messages[3..]].concat());
}

#[test]
fn within_a_message_the_summary_joins_the_remaining_user_text() {
    let messages = session();
    let out = cut(&messages, (2, 4), Placement::Separate);
    let joined = user(&[text("sum"), text("faster")]);
    assert_eq!(out, [&[messages[0].clone(), joined], &messages[3..]].concat());
}

#[test]
fn a_cut_behind_a_reminder_leaves_the_reminder() {
    let messages = session();
    let out = cut(&messages, (1, 5), Placement::Separate);
    let joined = user(&[reminder(), text("sum")]);
    assert_eq!(out, [&[joined], &messages[3..]].concat());
    let out = cut(&messages, (1, 4), Placement::Separate);
    let joined = user(&[reminder(), text("sum"), text("faster")]);
    assert_eq!(out, [&[joined], &messages[3..]].concat());
}

#[test]
fn merged_summary_joins_the_messages_on_both_sides() {
    let mut messages = session();
    messages.push(json!({"role": "assistant", "content": "done"}));
    messages.push(json!({"role": "user", "content": "next"}));
    let out = cut(&messages, (2, 8), Placement::Merged);
    let joined = user(&[reminder(), text("port it"), text("sum"), text("next")]);
    assert_eq!(out, [joined]);
    let out = cut(&messages, (2, 5), Placement::Merged);
    let joined = user(&[reminder(), text("port it"), text("sum")]);
    assert_eq!(out, [&[joined], &messages[3..]].concat());
}

#[test]
fn merged_string_messages_become_an_array_of_blocks() {
    let [calls, answers] = step("a", &[]);
    let plain = |text: &str| json!({"role": "user", "content": text});
    let marked =
        json!({"type": "text", "text": "long ago", "cache_control": {"type": "ephemeral"}});
    let says = json!({"role": "assistant", "content": [marked]});
    let messages = [plain("port it"), calls, answers, says, plain("next")];
    let out = cut(&messages, (1, 4), Placement::Merged);
    let mut sum = text("sum");
    sum["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(out, [user(&[text("port it"), sum, text("next")])]);
}

#[test]
fn cache_mark_of_removed_messages_moves_to_the_summary() {
    let mut messages = session();
    messages[2]["content"][0]["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"});
    let out = cut(&messages, (2, 5), Placement::Separate);
    let mut sum = text("sum");
    sum["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(out[1], user(&[sum]));
}

#[test]
fn objects_whose_keys_stand_in_different_orders_are_not_joined() {
    let mut messages = session();
    messages[2] = json!({"content": messages[2]["content"], "role": "user"});
    let body = json!({"messages": messages}).to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let cut =
        Replacement::History { from: 1, to: 4, text: "sum".into(), placement: Placement::Separate };
    let splice = Splice::new(&conversation, &[cut]).unwrap();
    let out = String::from_utf8(splice.apply()).unwrap();
    assert_eq!(out.matches("\"role\":\"user\"").count(), 3, "{out}");
    let out: Value = out.parse().unwrap();
    assert_eq!(out["messages"][0], user(&[reminder()]));
    let joined = user(&[text("sum"), text("faster")]);
    assert_eq!(out["messages"][1], joined);
}
