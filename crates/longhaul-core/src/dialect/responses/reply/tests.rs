//! Reader of replies: events in the order of the API, and whole responses.

use super::*;

#[track_caller]
fn check_kind(expect: EventKind, events: &[&str]) {
    for event in events {
        let seen = classify_event(Event::unnamed(event.as_bytes()));
        assert_eq!(seen.kind, expect, "{event}");
    }
}

#[test]
fn stream_events_before_the_first_item_are_empty() {
    check_kind(
        EventKind::Empty,
        &[
            r#"{"type":"response.created","sequence_number":0,"response":{"status":"in_progress","error":null,"output":[],"instructions":"error: too long","usage":null}}"#,
            r#"{"type":"response.in_progress","response":{"status":"in_progress","output":[]}}"#,
            r#"{"type":"response.metadata","headers":{"x-codex-turn-state":"t"}}"#,
            r#"{"type":"response.queued","response":{"status":"queued"}}"#,
            r#"{"type":"codex.rate_limits","rate_limits":{}}"#,
            r#"{"type":"keepalive","sequence_number":3}"#,
        ],
    );
    check_kind(
        EventKind::Content,
        &[
            r#"{"type":"response.output_item.added","item":{"type":"reasoning"}}"#,
            r#"{"type":"response.output_text.delta","delta":""}"#,
            r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message"}]}}"#,
            r#"{"type":"response.compaction.in_progress"}"#,
            r#"{"object":"response","status":"completed","output":[{"type":"message"}]}"#,
            r#"{"object":"response","status":"queued","output":[]}"#,
        ],
    );
}

#[test]
fn detects_nested_and_flat_errors() {
    check_kind(
        EventKind::Error,
        &[
            r#"{"type":"error","sequence_number":2,"error":{"code":"context_length_exceeded","message":"x"}}"#,
            r#"{"type":"error","code":"context_length_exceeded","message":"x","param":null}"#,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"x","message":"y"}}}"#,
            r#"{"object":"response","status":"failed","error":{"code":"x","message":"y"},"output":[]}"#,
            r#"{"error":{"message":"x"}}"#,
        ],
    );
    let named = Event { name: b"error", ..Event::unnamed(br#"{"code":"Throttling"}"#) };
    assert_eq!(classify_event(named).kind, EventKind::Error);
}

#[test]
fn a_closing_event_without_an_item_is_usage() {
    let closing = |event_type: &str, members: &str| {
        let event = format!(
            r#"{{"type":"{event_type}","response":{{{members},"output":[],"usage":{{"input_tokens":4096,"output_tokens":0,"total_tokens":4096}}}}}}"#
        );
        classify_event(Event::unnamed(event.as_bytes()))
    };
    let full = closing(
        "response.incomplete",
        r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#,
    );
    assert_eq!(full.kind, EventKind::Usage);
    assert_eq!(full.finish, Some(FinishReason::Length));
    assert_eq!((full.input, full.output), (Some(4_096), Some(0)));
    let empty = closing("response.completed", r#""status":"completed""#);
    assert_eq!((empty.kind, empty.finish), (EventKind::Usage, Some(FinishReason::Stop)));
    check_kind(EventKind::Done, &["[DONE]"]);
}

/// Reads events one by one, and joins the text of the smallest extent that states any.
fn read(events: &[&str]) -> (String, Option<FinishReason>, bool) {
    let (mut finish, mut has_calls) = (None, false);
    let (mut pieces, mut items, mut whole) = (String::new(), String::new(), String::new());
    for event in events {
        if let Some(part) = read_completion(event.as_bytes()) {
            match part.extent {
                TextExtent::Piece => pieces.push_str(&part.text),
                TextExtent::Item => items.push_str(&part.text),
                TextExtent::Reply => whole.push_str(&part.text),
            }
            finish = part.finish.or(finish);
            has_calls |= part.has_tool_calls;
        }
    }
    let text = [pieces, items, whole].into_iter().find(|it| !it.is_empty());
    (text.unwrap_or_default(), finish, has_calls)
}

#[test]
fn stream_text_is_read_without_its_repetitions() {
    let output = r#"[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"a\"b"},{"type":"refusal","refusal":"no"}]}]"#;
    let closing = format!(
        r#"{{"type":"response.completed","response":{{"object":"response","status":"completed","output":{output}}}}}"#
    );
    let events = [
        r#"{"type":"response.output_text.delta","delta":"a\""}"#,
        r#"{"type":"response.output_text.delta","delta":"b"}"#,
        r#"{"type":"response.output_text.done","text":"a\"b"}"#,
        r#"{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"a\"b"}]}}"#,
        &closing,
    ];
    let expect = ("a\"b".to_owned(), Some(FinishReason::Stop), false);
    assert_eq!(read(&events), expect);
    let whole = format!(r#"{{"object":"response","status":"completed","output":{output}}}"#);
    assert_eq!(read(&[&whole]), expect);
}

#[test]
fn calls_and_errors_yield_no_text() {
    let call = r#"{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}}"#;
    assert_eq!(read(&[call]), (String::new(), None, true));
    let hosted = r#"{"type":"response.output_item.done","item":{"type":"web_search_call"}}"#;
    assert_eq!(read(&[hosted]), (String::new(), None, false));
    for (event, error) in [
        (r#"{"type":"error","error":{"code":"x"}}"#, r#"{"code":"x"}"#),
        (
            r#"{"type":"error","code":"x","message":"y"}"#,
            r#"{"type":"error","code":"x","message":"y"}"#,
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"x"}}}"#,
            r#"{"code":"x"}"#,
        ),
    ] {
        let part = read_completion(event.as_bytes()).unwrap();
        assert_eq!(part.error, Some(error));
    }
}
