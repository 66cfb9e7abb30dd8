//! Summary calls: the whole body, and a prompt after a forwarded body.

use super::*;
use serde_json::{Value, json};

fn value(body: &str) -> Value {
    body.parse().unwrap()
}

fn client(changes: &Value) -> String {
    let mut body = json!({
        "model": "claude-x", "max_tokens": 128_000, "stream": false, "stop_sequences": ["x"],
        "system": [{"type": "text", "text": "s"}], "tools": [{"name": "f", "input_schema": {}}],
        "metadata": {"user_id": "u"}, "thinking": {"type": "adaptive"},
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "r"},
                {"type": "text", "text": "more"}]}]});
    for (key, value) in changes.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string()
}

#[test]
fn a_transcript_call_has_the_keys_that_the_api_demands_and_no_more() {
    let sent =
        client(&json!({"output_config": {"effort": "low"}, "thinking": {"type": "disabled"}}));
    let conversation = read(sent.as_bytes()).unwrap();
    let own = RequestTemplate::from_request(&conversation, None);
    let asked = value(&own.render("sys", "user", Tokens::new(7)));
    assert_eq!(
        asked,
        json!({"model": "claude-x", "metadata": {"user_id": "u"}, "thinking": {"type": "disabled"},
            "output_config": {"effort": "low"}, "max_tokens": 7, "system": "sys", "stream": true,
            "messages": [{"role": "user", "content": "user"}]})
    );
    let other = RequestTemplate::from_request(&conversation, Some("small")).for_other_endpoint();
    let asked = value(&other.render("sys", "user", Tokens::new(7)));
    assert_eq!(
        asked,
        json!({"model": "small", "max_tokens": 7, "system": "sys", "stream": true,
            "messages": [{"role": "user", "content": "user"}]})
    );
}

/// Returns the body of a call that repeats the first `messages` messages.
fn appended(sent: &str, messages: usize) -> Value {
    let conversation = read(sent.as_bytes()).unwrap();
    let (upto, _) = conversation.object_end(messages - 1).unwrap();
    value(&append_prompt(sent, upto, "\"sum up\"", Tokens::new(9)).unwrap())
}

#[test]
fn prompt_follows_the_repeated_messages() {
    let sent = client(&json!({}));
    let (asked, before) = (appended(&sent, 2), value(&sent));
    let prompt = json!({"role": "user", "content": [{"type": "text", "text": "sum up"}]});
    assert_eq!(asked["messages"][2], prompt);
    assert_eq!(asked["messages"][1], before["messages"][1]);
    for key in ["model", "system", "tools", "metadata", "thinking"] {
        assert_eq!(asked[key], before[key], "{key}");
    }
    assert_eq!(asked["max_tokens"], 9);
    assert_eq!(asked["stream"], true);
    assert_eq!(asked["stop_sequences"], Value::Null);
}

#[test]
fn prompt_becomes_the_last_block_if_the_cut_is_within_a_message() {
    let asked = appended(&client(&json!({})), 3);
    let expect = json!([{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "a", "content": "r"},
        {"type": "text", "text": "sum up"}]}]);
    assert_eq!(asked["messages"].as_array().unwrap()[2..], *expect.as_array().unwrap());
}

#[test]
fn the_prompt_is_marked_if_the_client_marks_and_a_mark_is_left() {
    let marked = |count: usize| {
        let block = json!({"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}});
        let asked = appended(&client(&json!({"system": vec![block; count]})), 2);
        asked["messages"][2]["content"][0]["cache_control"].is_object()
    };
    assert_eq!([0, 1, 3, 4].map(marked), [false, true, true, false]);
    let automatic = client(&json!({"cache_control": {"type": "ephemeral"}}));
    let asked = appended(&automatic, 2);
    assert_eq!(asked["messages"][2]["content"][0]["cache_control"], Value::Null);
}
