//! Replies: events, whole messages and their ends.

use super::*;
use super::{may_add_to, read_end};
use crate::dialect::Dialect;
use crate::dialect::reply::EndFacts;
use crate::overflow::{ClassifierRules, ReplyTail};

fn event<'a>(name: &'a str, data: &'a str) -> Event<'a> {
    Event { name: name.as_bytes(), data: data.as_bytes(), dropped: 0 }
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":40,"cache_read_input_tokens":1000,"output_tokens":1}}}"#;
const DELTA: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}"#;

#[test]
fn only_content_blocks_are_classified_as_content() {
    let check = |data: &str, expect: EventKind| {
        assert_eq!(classify_event(event("", data)).kind, expect, "{data}");
    };
    for data in [
        START,
        DELTA,
        r#"{"type":"ping"}"#,
        r#"{"type":"message","content":[],"stop_reason":"model_context_window_exceeded"}"#,
        "",
    ] {
        check(data, EventKind::Empty);
    }
    for data in [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
        r#"{"type":"message","content":[{"type":"text","text":"a"}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]}"#,
    ] {
        check(data, EventKind::Content);
    }
    for data in [
        r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#,
        r#"{"code":400,"message":"x","type":"exceed_context_size_error"}"#,
        r#"{"error":{"message":"x"}}"#,
        "text",
    ] {
        check(data, EventKind::Error);
    }
    check(r#"{"type":"message_stop"}"#, EventKind::Done);
    assert_eq!(classify_event(event("error", "{}")).kind, EventKind::Error);
}

#[test]
fn the_size_of_a_prompt_is_the_sum_of_its_three_counts() {
    let info = classify_event(event("message_start", START));
    assert_eq!((info.input, info.output), (Some(1_043), None));
    let info = classify_event(event("message_delta", DELTA));
    assert_eq!((info.input, info.output), (None, Some(15)));
    assert_eq!(info.finish, Some(FinishReason::Stop));
    // vLLM counts at the end.
    let late = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":70,"output_tokens":0}}"#;
    let info = classify_event(event("", late));
    assert_eq!((info.input, info.output), (Some(70), Some(0)));
}

#[test]
fn reads_text_and_calls_from_whole_bodies_and_stream_events() {
    let part = |json: &'static str| read_completion(json.as_bytes()).unwrap();
    let whole = part(
        r#"{"type":"message","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"f","input":{}},{"type":"text","text":"b"}],"stop_reason":"tool_use","usage":{"input_tokens":5,"output_tokens":2}}"#,
    );
    assert_eq!(whole.text, "ab");
    assert!(whole.has_tool_calls);
    assert_eq!(whole.finish, Some(FinishReason::ToolCalls));
    assert_eq!(whole.usage.unwrap().input, 5);
    let delta = part(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#);
    assert_eq!(delta.text, "a");
    let thought =
        part(r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}"#);
    assert_eq!(thought.text, "");
    let call = part(
        r#"{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f"}}"#,
    );
    assert!(call.has_tool_calls);
    let error = part(r#"{"type":"error","error":{"message":"x"}}"#);
    assert_eq!(error.error, Some(r#"{"message":"x"}"#));
}

#[test]
fn final_usage_takes_the_prompt_count_from_the_first_event() {
    let start = read_end(START.as_bytes()).usage.unwrap();
    assert_eq!((start.input, start.output), (1_043, None));
    let end = read_end(DELTA.as_bytes());
    let usage = end.usage.unwrap().completed_by(Some(start));
    assert_eq!((usage.input, usage.output), (1_043, Some(15)));
    assert_eq!(end.finish, Some(FinishReason::Stop));
    // As long as the prompt is not counted, an earlier event may count it.
    assert!(may_add_to(end, START.as_bytes()));
    let counted = EndFacts { usage: Some(usage), ..end };
    assert!(!may_add_to(counted, START.as_bytes()));
}

#[test]
fn prompt_count_of_a_long_stream_comes_from_its_first_event() {
    let send = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n");
    let text =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}}"#;
    for deltas in [1, 200] {
        let stream = [
            ": gateway\n\n".to_owned(),
            send("message_start", START),
            send("ping", r#"{"type":"ping"}"#),
            send("content_block_delta", text).repeat(deltas),
            send("message_delta", DELTA),
            send("message_stop", r#"{"type":"message_stop"}"#),
        ]
        .concat();
        let mut tail = ReplyTail::new(Dialect::Messages);
        for chunk in stream.as_bytes().chunks(700) {
            tail.push(chunk);
        }
        assert!(tail.is_complete());
        let end = tail.finish(ClassifierRules::standard(), None);
        let usage = end.usage.unwrap();
        assert_eq!((usage.input, usage.output), (1_043, Some(15)), "{deltas}");
        assert_eq!(end.finish, Some(FinishReason::Stop));
    }
}
