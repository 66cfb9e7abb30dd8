//! Steps of the classification, one by one.

use serde_json::json;

use crate::overflow::BODY_TOO_LARGE;
use crate::overflow::tests::{judged, read};
use crate::overflow::*;

#[test]
fn a_body_is_released_at_its_first_content() {
    let mut reading =
        ReplyClassifier::new(Dialect::ChatCompletions, 200, ClassifierRules::standard()).unwrap();
    let head = br#" {"id":"\"choices\":[1","a":["choices",[2]],"b":{"choices":[3]},"c":"choices","#;
    assert_eq!(reading.push(head), ClassifierStep::Hold);
    assert_eq!(reading.push(br#""choices" : [ "#), ClassifierStep::Hold);
    let empty = br#"{"message":{"role":"assistant","content":""#;
    assert_eq!(reading.push(empty), ClassifierStep::Hold);
    assert_eq!(reading.push(b"H"), ClassifierStep::Settled(Verdict::Fine));
    let mut other =
        ReplyClassifier::new(Dialect::ChatCompletions, 200, ClassifierRules::standard()).unwrap();
    assert_eq!(other.push(br#"["choices",[{"id":1"#), ClassifierStep::Hold);
}

#[test]
fn a_stream_is_released_at_its_first_content_and_not_before() {
    let mut reading =
        ReplyClassifier::new(Dialect::ChatCompletions, 200, ClassifierRules::standard()).unwrap();
    for held in [
        ": OPENROUTER PROCESSING\n\n",
        "data: {\"choices\":[],\"prompt_filter_results\":[{}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}}]}\n\n",
    ] {
        assert_eq!(
            reading.push(held.as_bytes()),
            ClassifierStep::Hold,
            "{held}"
        );
    }
    let first = b"data: {\"choices\":[{\"delta\":{\"content\":\"H\"}}]}\n\n";
    assert_eq!(reading.push(first), ClassifierStep::Settled(Verdict::Fine));
}

#[test]
fn throttling_inside_a_400_is_not_an_overflow() {
    for body in [
        json!({ "error": { "message": "Prompt is too long", "code": 429 } }),
        json!({ "error": { "message": "Prompt is too long", "code": "402" } }),
        json!({ "error": { "message": "Daily token limit exceeded" } }),
        json!({ "error": { "message": "context_length_exceeded", "type": "rate_limit_error" } }),
    ] {
        assert_eq!(
            read(400, [body.to_string().as_bytes()]),
            Verdict::Fine,
            "{body}"
        );
    }
}

#[test]
fn an_empty_reply_is_a_suspected_overflow_only_under_some_statuses() {
    let silent = Verdict::Overflow(Overflow::from_empty_reply());
    for (status, body) in [
        (200, ""),
        (200, " \n"),
        (200, ": PROCESSING\n\n"),
        (
            200,
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        ),
        (400, ""),
        (400, "{}"),
        (400, r#"{"model":"m","error":{"message":" "}}"#),
    ] {
        assert_eq!(read(status, [body.as_bytes()]), silent, "{status} {body}");
    }
    for body in ["", "\r\n", "{}"] {
        assert_eq!(read(413, [body.as_bytes()]), BODY_TOO_LARGE, "{body}");
    }
    for (status, body) in [
        (204, ""),
        (422, ""),
        (422, "{}"),
        (500, ""),
        (
            200,
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\n",
        ),
        (
            200,
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":9}}\n\n",
        ),
    ] {
        assert_eq!(
            read(status, [body.as_bytes()]),
            Verdict::Fine,
            "{status} {body}"
        );
    }
}

#[test]
fn a_stream_without_generated_tokens_is_a_suspected_overflow() {
    for reason in ["length", "max_tokens"] {
        let reply = format!(
            "data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}],\
             \"usage\":{{\"prompt_tokens\":8192,\"completion_tokens\":0}}}}\n\ndata: [DONE]\n\n"
        );
        let full = Overflow {
            limit: Some(8_192),
            ..Overflow::from_empty_reply()
        };
        let verdict = read(200, [reply.as_bytes()]);
        assert_eq!(verdict, Verdict::Overflow(full), "{reason}");
    }
}

#[test]
fn a_server_error_is_an_overflow_only_by_its_words() {
    let numbered = json!({ "error": { "code": "1261", "message": "internal" } }).to_string();
    assert_eq!(read(500, [numbered.as_bytes()]), Verdict::Fine);
    let bytes = json!({ "error": { "message": "payload too large" } }).to_string();
    for status in [400, 500] {
        assert_eq!(read(status, [bytes.as_bytes()]), BODY_TOO_LARGE);
    }
    let worded = json!({ "error": { "code": "x", "message": "Prompt is too long" } }).to_string();
    assert!(matches!(
        read(500, [worded.as_bytes()]),
        Verdict::Overflow(_)
    ));
}

#[test]
fn an_unknown_refusal_is_unexplained_only_under_400_or_422() {
    let check = |status, message: &str, param: &str, expect| {
        let body = json!({ "error": { "message": message, "param": param } }).to_string();
        assert_eq!(judged(status, [body.as_bytes()]), expect, "{status} {body}");
    };
    for status in [400, 422] {
        check(status, "no", "", Verdict::Unexplained(None));
        check(
            status,
            "no",
            "messages[3].content",
            Verdict::Unexplained(None),
        );
        // The cause is known, and is not the message list.
        check(status, "too many requests", "", Verdict::Fine);
        check(status, "max_tokens is too large", "", Verdict::Fine);
    }
    for status in [404, 408, 409, 424, 500, 502] {
        check(status, "no", "", Verdict::Fine);
    }
    check(413, "no", "", BODY_TOO_LARGE);
    assert_eq!(judged(400, [&b"<html>"[..]]), Verdict::Unexplained(None));
    assert_eq!(judged(422, [&b""[..]]), Verdict::Fine);
    let stated = json!({ "error": { "message": "no", "code": 400 } }).to_string();
    assert_eq!(judged(200, [stated.as_bytes()]), Verdict::Failed);
}

#[test]
fn thousands_separators_and_typographic_apostrophes_are_read() {
    let message = "This model\u{2019}s maximum context length is 128,000\ntokens. However, your messages resulted in 1_204_308 tokens.";
    let body = json!({ "error": { "message": message } }).to_string();
    let found = read(400, [body.as_bytes()]);
    let Verdict::Overflow(Overflow { limit, used, .. }) = found else {
        panic!("{found:?}")
    };
    assert_eq!((limit, used), (Some(128_000), Some(1_204_308)));
}

#[test]
fn nested_wrapping_is_read_only_to_a_limit() {
    let mut body = json!({ "message": "prompt is too long" });
    for _ in 0..12 {
        body = json!({ "error": body.to_string() });
    }
    assert_eq!(read(400, [body.to_string().as_bytes()]), Verdict::Fine);
    let open = "{\"error\":".repeat(20_000);
    assert_eq!(read(400, [open.as_bytes()]), Verdict::Fine);
}

#[test]
fn a_refusal_that_quotes_the_request_is_not_an_overflow() {
    let quoted = "This model's maximum context length is 128000 tokens.";
    let pages = "x ".repeat(4096);
    for error in [
        json!({ "detail": [{ "msg": "not a string", "loc": ["body", "messages", 3], "input": quoted }] }),
        json!({ "error": format!("bad body: {}", json!({ "messages": [{ "content": quoted }] })) }),
        json!({ "error": { "message": format!("not utf-8: {quoted}"), "param": "messages[7].content" } }),
        json!({ "error": { "message": format!("Invalid 'messages[2].content': {quoted}") } }),
        json!({ "error": { "message": format!("bad body: {pages}{quoted}") } }),
    ] {
        assert_eq!(
            read(400, [error.to_string().as_bytes()]),
            Verdict::Fine,
            "{error}"
        );
    }
}
