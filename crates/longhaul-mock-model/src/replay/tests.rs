//! The parts of the recording that a replay preserves.

use serde_json::Value;

use super::*;

const SESSION: &str = r#"{"model": "m", "messages": [
 {"role": "system", "content": "head"},
 {"role": "user", "content": "do \"it\""},
 {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
 {"role": "tool", "tool_call_id": "a", "content": "one"},
 {"role": "tool", "tool_call_id": "b", "content": "LONG"},
 {"role": "assistant", "content": "did it"},
 {"role": "user", "content": [{"type": "text", "text": "go on"}]}
 ], "tools": [{"type": "function", "function": {"name": "f"}}]}"#;

fn session() -> SessionRecording {
    SessionRecording::parse(long_session().as_bytes()).unwrap()
}

fn long_session() -> String {
    SESSION.replace("LONG", &r#"é\"\u00e9 "#.repeat(1_500))
}

fn roles(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let messages = body["messages"].as_array().unwrap().clone();
    messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn requests_follow_user_messages_and_complete_batches() {
    let session = session();
    let counts: Vec<usize> = session.requests().map(|request| request.messages()).collect();
    assert_eq!(counts, [2, 5, 7]);
    assert_eq!(roles(&session.requests().next().unwrap().body()), ["system", "user"]);
}

#[test]
fn the_last_request_is_the_recording_to_the_byte() {
    let last = session().requests().next_back().unwrap().body();
    assert_eq!(last, long_session().as_bytes());
}

#[test]
fn each_request_begins_with_the_one_before() {
    let session = session();
    let bodies: Vec<Vec<u8>> = session.requests().map(|request| request.body()).collect();
    for pair in bodies.windows(2) {
        let end = pair[0].len() - session.tail.len();
        assert_eq!(pair[1][..end], pair[0][..end]);
    }
}

#[test]
fn returns_the_recorded_reply_of_each_request() {
    let session = session();
    let replies: Vec<Option<&[u8]>> = session.requests().map(|request| request.reply()).collect();
    assert!(replies[0].unwrap().starts_with(br#"{"role": "assistant", "content": null"#));
    assert_eq!(replies[1].unwrap(), br#"{"role": "assistant", "content": "did it"}"#);
    assert_eq!(replies[2], None);
}

#[test]
fn an_incomplete_batch_is_no_request() {
    let cut = SESSION.replace(r#"{"role": "tool", "tool_call_id": "b", "content": "LONG"},"#, "");
    let session = SessionRecording::parse(cut.as_bytes()).unwrap();
    let counts: Vec<usize> = session.requests().map(|request| request.messages()).collect();
    assert_eq!(counts, [2, 6]);
}

#[test]
fn a_field_goes_to_the_end_of_every_body() {
    let session = session().with_field("stream", "true");
    for request in session.requests() {
        let body = request.body();
        assert!(body.ends_with(br#", "stream": true}"#));
        assert!(serde_json::from_slice::<Value>(&body).is_ok());
    }
}

#[test]
fn the_cache_mark_moves_with_the_newest_message() {
    let said = r#"the \"cache_control\": {} of the API"#;
    let block = |mark: &str| {
        format!(r#"{{"role":"user","content":[{{{mark}"type":"text","text":"{said}"}}]}}"#)
    };
    let body = |marks: [&str; 2], system: usize, end: &str| {
        let mark = r#"{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}"#;
        let [first, last] = marks.map(block);
        format!(
            r#"{{"system":[{}],"messages":[{first}, {last}],"max_tokens":9{end}}}"#,
            vec![mark; system].join(",")
        )
    };
    let hour = r#""cache_control": {"type":"ephemeral","ttl":"1h"} , "#;
    let check = |recorded: [&str; 2], system: usize, expect: ([&str; 2], &str)| {
        let session = SessionRecording::parse(body(recorded, system, "").as_bytes()).unwrap();
        let session = session.with_moving_mark();
        let last = session.requests().next_back().unwrap().body();
        let expected = body(expect.0, system, expect.1);
        assert_eq!(String::from_utf8(last).unwrap(), expected);
        // The first request has the mark too.
        let first: Value =
            serde_json::from_slice(&session.requests().next().unwrap().body()).unwrap();
        assert_eq!(first["cache_control"].is_object(), !expect.1.is_empty());
    };
    let automatic = r#", "cache_control": {"type":"ephemeral","ttl":"1h"}"#;
    check(["", hour], 2, (["", ""], automatic));
    check(["", ""], 1, (["", ""], r#", "cache_control": {"type":"ephemeral"}"#));
    check(
        ["", r#""cache_control":null,"#],
        1,
        (["", ""], r#", "cache_control": {"type":"ephemeral"}"#),
    );
    check(["", ""], 4, (["", ""], ""));
    let session = session().with_moving_mark();
    assert_eq!(session.requests().next_back().unwrap().body(), long_session().as_bytes());
}

#[test]
fn headless_has_one_user_message_and_all_steps() {
    let session = session().headless().unwrap();
    let last = session.requests().next_back().unwrap();
    assert_eq!(roles(&last.body()), ["system", "user", "assistant", "tool", "tool"]);
}

#[test]
fn plants_facts_in_all_four_positions() {
    let (planted, facts) = session().planted(&PlantedFact::one_each()).unwrap();
    assert_eq!(facts.len(), 4);
    let body: Value =
        serde_json::from_slice(&planted.requests().next_back().unwrap().body()).unwrap();
    let text = |at: usize| body["messages"][at]["content"].as_str().unwrap().to_owned();
    assert_eq!(text(1), "Remember FACT-u1k7. do \"it\"");
    assert_eq!(text(5), "I noted FACT-a3q9. did it");
    assert_eq!(body["messages"][6]["content"][0]["text"], "Remember FACT-u2m4. go on");
    let result = text(4);
    let (before, behind) = result.split_once(" build_id=FACT-t4z2").unwrap();
    assert!(before.chars().count() >= 1_200, "{}", before.chars().count());
    assert!(behind.chars().count() >= 1_200, "{}", behind.chars().count());
    assert_eq!(format!("{before}{behind}"), "é\"é ".repeat(1_500));
}

#[test]
fn plants_only_where_there_is_room() {
    let short = SessionRecording::parse(SESSION.as_bytes()).unwrap();
    let (_, facts) = short.planted(&PlantedFact::one_each()).unwrap();
    assert!(!facts.iter().any(|plant| plant.place == PlantPosition::ToolResult));
    assert_eq!(facts.len(), 3);
}

#[test]
fn rejects_a_body_that_is_no_session() {
    for body in ["", "[]", "{}", r#"{"messages": []}"#, r#"{"messages": [1]}"#] {
        assert!(SessionRecording::parse(body.as_bytes()).is_err(), "{body}");
    }
}
