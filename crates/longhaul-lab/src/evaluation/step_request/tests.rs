//! Tests of requests for a step, in each dialect.

use super::*;
use serde_json::json;

const ALL: [Dialect; 3] = [Dialect::ChatCompletions, Dialect::Messages, Dialect::Responses];

fn edited(dialect: Dialect, body: &Value, key: OutputKey) -> Value {
    let text = step_request(dialect, &body.to_string(), Tokens::new(64), key);
    serde_json::from_str(&text.unwrap()).unwrap()
}

#[test]
fn a_step_of_chat_completions_is_short_whole_and_not_stored() {
    let body = json!({"model": "m", "stream": true, "stream_options": {}, "n": 3, "store": true,
        "reasoning_effort": "high", "tool_choice": "auto", "messages": []});
    let expect = json!({"model": "m", "tool_choice": "auto", "messages": [], "max_tokens": 64});
    let dialect = Dialect::ChatCompletions;
    assert_eq!(edited(dialect, &body, OutputKey::Recorded), expect);
    let newer = json!({"messages": [], "max_completion_tokens": 9_000, "reasoning_effort": "low"});
    let expect = json!({"messages": [], "max_completion_tokens": 64, "reasoning_effort": "low"});
    assert_eq!(edited(dialect, &newer, OutputKey::Recorded), expect);
    let older = json!({"max_tokens": 9_000, "messages": []});
    let expect = json!({"messages": [], "max_completion_tokens": 64});
    assert_eq!(edited(dialect, &older, OutputKey::Newer), expect);
}

#[test]
fn a_step_of_messages_loses_thinking_and_what_depends_on_it() {
    let body = json!({"model": "m", "max_tokens": 32_000, "stream": true, "context_management": {},
        "thinking": {"type": "enabled", "budget_tokens": 9_000}, "messages": []});
    let expect = json!({"model": "m", "max_tokens": 64, "messages": []});
    let dialect = Dialect::Messages;
    assert_eq!(edited(dialect, &body, OutputKey::Recorded), expect);
    let plain = json!({"context_management": {}, "thinking": {"type": "disabled"}, "messages": []});
    let expect = json!({"context_management": {}, "thinking": {"type": "disabled"}, "messages": [],
        "max_tokens": 64});
    assert_eq!(edited(dialect, &plain, OutputKey::Recorded), expect);
}

#[test]
fn a_step_of_responses_is_neither_stored_nor_truncated() {
    let body = json!({"model": "m", "stream": true, "truncation": "auto", "background": true,
        "reasoning": {"effort": "high"}, "input": []});
    let expect = json!({"model": "m", "input": [], "max_output_tokens": 64, "store": false});
    assert_eq!(edited(Dialect::Responses, &body, OutputKey::Recorded), expect);
    let stored = json!({"store": true, "max_output_tokens": 5, "input": []});
    let expect = json!({"store": false, "max_output_tokens": 64, "input": []});
    assert_eq!(edited(Dialect::Responses, &stored, OutputKey::Recorded), expect);
}

#[test]
fn another_model_replaces_the_recorded_one_and_its_fallbacks() {
    let body =
        r#"{ "model": "old", "models": ["a"], "stream": true, "stream_options": {}, "x":1 }"#;
    for dialect in [Dialect::ChatCompletions, Dialect::Responses] {
        let found = body_for_model(dialect, body, "ne\"w").unwrap();
        assert_eq!(found, r#"{"model":"ne\"w","x":1}"#);
    }
    let found = body_for_model(Dialect::Messages, "{}", "m").unwrap();
    assert_eq!(found, r#"{"model":"m"}"#);
    assert_eq!(body_for_model(Dialect::Messages, "[]", "m"), None);
}

#[test]
fn only_a_true_member_asks_for_a_stream() {
    assert!(asks_for_stream(r#"{"a":1,"stream": true}"#));
    for not in [r#"{"stream":false}"#, r#"{"a":{"stream":true}}"#, "{}", "x"] {
        assert!(!asks_for_stream(not), "{not}");
    }
}

#[test]
fn an_error_that_names_the_newer_key_asks_for_it() {
    let error = br#"{"error":{"message":"Use 'max_completion_tokens' instead."}}"#;
    assert!(asks_for_newer_output_key(Dialect::ChatCompletions, error));
    assert!(!asks_for_newer_output_key(Dialect::ChatCompletions, b"max_tokens is too large"));
    assert!(!asks_for_newer_output_key(Dialect::Messages, error));
}

#[test]
fn a_reply_without_an_answer_is_no_step() {
    for dialect in ALL {
        for reply in [
            "",
            "{}",
            r#"{"error":{"message":"x"}}"#,
            r#"{"choices":[]}"#,
            r#"{"content":"x"}"#,
            r#"{"object":"response","output":null}"#,
        ] {
            assert!(read_step(dialect, reply.as_bytes()).is_none(), "{reply}");
        }
    }
}
