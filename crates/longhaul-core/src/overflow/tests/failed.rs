//! Bodies that are not answers despite a success status, and answers in unusual formats.

use crate::overflow::Verdict;
use crate::overflow::tests::judged;

/// Checks a reply of status 200, in one piece and byte by byte.
fn check(body: &str, expect: Verdict) {
    assert_eq!(judged(200, [body.as_bytes()]), expect, "{body}");
    let pieces = body.as_bytes().chunks(1);
    assert_eq!(judged(200, pieces), expect, "{body}, byte by byte");
}

const ROLE: &str = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;

#[test]
fn an_error_that_is_no_overflow_is_a_failure() {
    for error in [
        r#"{"error":{"code":429,"message":"Rate limit exceeded: tokens per minute"}}"#,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        r#"{"error":{"message":"Provider returned error","code":502},"user_id":"u"}"#,
        r#"{"id":"g","error":{"code":502,"message":"Provider returned error"},"choices":[]}"#,
        r#"{"error":"upstream connect error"}"#,
        r#"{"type":"response.failed","response":{"status":"failed"}}"#,
    ] {
        check(error, Verdict::Failed);
        for stream in [
            format!("data: {error}\n\ndata: [DONE]\n\n"),
            format!(": PROCESSING\n\n{ROLE}\n\ndata: {error}\n\n"),
            format!("event: error\ndata: {error}\n\n"),
        ] {
            check(&stream, Verdict::Failed);
        }
    }
    check("event: error\ndata: busy\n\n", Verdict::Failed);
    let beside = r#"data: {"error":{"code":502,"message":"Provider returned error"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#;
    check(&format!("{beside}\n\n"), Verdict::Failed);
}

#[test]
fn a_web_page_or_a_body_without_an_answer_is_a_failure() {
    for body in [
        "<!doctype html><html>Please sign in</html>",
        "upstream connect error",
        r#"{"code":"Throttling","message":"Requests are limited"}"#,
        r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"error":{"code":1}}"#,
        r#"{"choices":[{"message":{"content":""},"error":{"code":502,"message":"busy"}}]}"#,
        r#"{"choices":[],"usage":{"completion_tokens":0}}"#,
        r#"{"id":"a","choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#,
    ] {
        check(body, Verdict::Failed);
    }
}

#[test]
fn an_answer_in_any_format_is_fine() {
    for body in [
        r#"{"choices":[{"message":{"content":"on"}}]}"#,
        r#"{"choices":[{"message":{"content":null},"finish_reason":"content_filter"}]}"#,
        r#"{"choices":[{"index":0,"text":"on"}]}"#,
        r#"{"choices":[],"usage":{"completion_tokens":3}}"#,
        r#"{"id":"m","type":"message","content":[{"type":"text","text":"on"}]}"#,
        r#"{"object":"response","error":null,"output":[{"type":"message"}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"on"}]}}]}"#,
        r#"{"message":{"role":"assistant","content":"on"},"done":true}"#,
        r#"{"code":0,"message":"success","data":{"text":"on"}}"#,
        r#"{"object":"list","data":[]}"#,
    ] {
        check(body, Verdict::Fine);
    }
    let error = r#"{"error":{"code":429,"message":"Rate limit exceeded"}}"#;
    for event in [
        r#"{"choices":[{"delta":{"content":"on"}}]}"#,
        r#"{"choices":[{"text":"on"}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
        r#"{"type":"response.output_text.delta","delta":"on"}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"on"}}"#,
        r#"{"code":0,"message":"Success","choices":[{"delta":{"content":"on"}}]}"#,
    ] {
        let stream = format!("{ROLE}\n\ndata: {event}\n\ndata: {error}\n\n");
        check(&stream, Verdict::Fine);
    }
    let filtered = r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#;
    let stream = format!("{ROLE}\n\ndata: {filtered}\n\ndata: [DONE]\n\n");
    check(&stream, Verdict::Fine);
}
