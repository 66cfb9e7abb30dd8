//! Classification of chunks.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn classifies_any_bytes_without_panic(data: Vec<u8>, name: Vec<u8>) {
        classify_event(Event { name: &name, data: &data, dropped: 0 });
    }
}

/// Checks the kind of each chunk.
fn check_kind(kind: EventKind, chunks: &[&str]) {
    for chunk in chunks {
        assert_eq!(classify_event(Event::unnamed(chunk.as_bytes())).kind, kind, "{chunk}");
    }
}

#[test]
fn any_non_empty_delta_member_except_role_is_content() {
    check_kind(
        EventKind::Content,
        &[
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":null,"reasoning":" "}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"\n"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"x"}]}}]}"#,
            r#"{"choices":[{"delta":{"refusal":"no"}}]}"#,
            r#"{"choices":[{"delta":{"role":"assistant","tool_calls":[{"index":0}]}}]}"#,
            r#"{"choices":[{"delta":{}},{"index":1,"delta":{"c\u006fntent":"a"}}]}"#,
            r#"{"choices":[{"text":"a"}]}"#,
            r#"{"error":{"code":1},"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"type":"content_block_delta","delta":{}}"#,
        ],
    );
}

#[test]
fn events_with_only_a_role_finish_reason_or_metadata_are_empty() {
    check_kind(
        EventKind::Empty,
        &[
            "",
            "{}",
            r#"{"choices":[],"prompt_filter_results":[{}]}"#,
            r#"{"choices":[{"delta":{"role":"assistant","content":"","tool_calls":[],"x":null}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null,"error":null}"#,
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}],"obfuscation":"abc"}"#,
            r#"{"type":"response.created","response":{"error":null}}"#,
        ],
    );
}

#[test]
fn errors_and_unrecognised_events_are_classified_as_errors() {
    check_kind(
        EventKind::Error,
        &[
            r#"{"error":{"message":"x"}}"#,
            r#"{"error":"x","choices":[]}"#,
            r#"{"choices":null,"error_type":"x","error_message":"y"}"#,
            r#"{"type":"error"}"#,
            r#"[{"error":{}}]"#,
            "plain words",
            r#"{"choices":[{"delta"#,
        ],
    );
    let named = Event { name: b"error", ..Event::unnamed(br#"{"code":"Throttling"}"#) };
    assert_eq!(classify_event(named).kind, EventKind::Error);
}

#[test]
fn numbers_and_true_count_as_non_empty() {
    for filled in ["true", "0", "7", "-7", "0.5", r#""a""#, "[0]", r#"{"a":0}"#] {
        let delta = format!(r#"{{"choices":[{{"delta":{{"content":{filled}}}}}]}}"#);
        check_kind(EventKind::Content, &[&delta]);
        check_kind(EventKind::Error, &[&format!(r#"{{"error":{filled}}}"#)]);
    }
    for empty in ["null", "false", r#""""#, "[]", "{}"] {
        let delta = format!(r#"{{"choices":[{{"delta":{{"content":{empty}}}}}]}}"#);
        check_kind(EventKind::Empty, &[&delta, &format!(r#"{{"error":{empty}}}"#)]);
    }
}

#[test]
fn usage_and_done_events_are_distinguished() {
    check_kind(EventKind::Usage, &[r#"{"choices":[],"usage":{"prompt_tokens":3}}"#]);
    check_kind(EventKind::Done, &["[DONE]", " [DONE] "]);
}

#[test]
fn finish_reasons_and_counts_are_read() {
    let seen = classify_event(Event::unnamed(
        br#"{"choices":[{"delta":{},"finish_reason":"length","native_finish_reason":"model_context_window_exceeded"}],
             "usage":{"prompt_tokens":262144,"completion_tokens":0,"total_tokens":262144}}"#,
    ));
    assert_eq!(seen.finish, Some(FinishReason::WindowFull));
    assert_eq!((seen.input, seen.output), (Some(262_144), Some(0)));
}

#[test]
fn a_truncated_event_counts_as_content() {
    let long = Event { dropped: 1, ..Event::unnamed(b"{\"choices\":[{\"delta\":{\"content\":\"a") };
    assert_eq!(classify_event(long).kind, EventKind::Content);
}

#[test]
fn invalid_values_are_skipped_and_invalid_choices_are_errors() {
    check_kind(
        EventKind::Content,
        &[
            r#"{"choices":[{"delta":{"content":"a"},"finish_reason":7}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":"none"}"#,
        ],
    );
    check_kind(
        EventKind::Error,
        &[r#"{"error":{"message":"x"},"choices":[null]}"#, r#"{"choices":["a"]}"#],
    );
}
