//! Steps of the classification, one by one.

use serde_json::json;

use crate::overflow::BODY_TOO_LARGE;
use crate::overflow::tests::{judged, read};
use crate::overflow::*;

fn reading_of_success() -> ReplyClassifier<'static> {
    ReplyClassifier::new(Dialect::ChatCompletions, 200, ClassifierRules::standard(), None).unwrap()
}

fn check(status: u16, body: &str, expect: Verdict) {
    assert_eq!(read(status, [body.as_bytes()]), expect, "{status} {body}");
}

#[test]
fn a_body_is_released_at_its_first_content() {
    let mut reading = reading_of_success();
    let head = br#" {"id":"\"choices\":[1","a":["choices",[2]],"b":{"choices":[3]},"c":"choices","#;
    assert_eq!(reading.push(head), ClassifierStep::Hold);
    assert_eq!(reading.push(br#""choices" : [ "#), ClassifierStep::Hold);
    let empty = br#"{"message":{"role":"assistant","content":""#;
    assert_eq!(reading.push(empty), ClassifierStep::Hold);
    assert_eq!(reading.push(b"H"), ClassifierStep::Settled(Verdict::Fine));
    let in_array = reading_of_success().push(br#"["choices",[{"id":1"#);
    assert_eq!(in_array, ClassifierStep::Hold);
}

#[test]
fn a_stream_is_released_at_its_first_content_and_not_before() {
    let mut reading = reading_of_success();
    for held in [
        ": OPENROUTER PROCESSING\n\n",
        "data: {\"choices\":[],\"prompt_filter_results\":[{}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}}]}\n\n",
    ] {
        let step = reading.push(held.as_bytes());
        assert_eq!(step, ClassifierStep::Hold, "{held}");
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
        check(400, &body.to_string(), Verdict::Fine);
    }
}

#[test]
fn an_empty_reply_is_a_suspected_overflow_only_under_some_statuses() {
    let silent = Verdict::Overflow(Overflow::from_empty_reply());
    let ended = |reason| {
        format!(r#"data: {{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#) + "\n\n"
    };
    for body in ["", " \n", ": PROCESSING\n\n", &(ended("stop") + "data: [DONE]\n\n")] {
        check(200, body, silent);
    }
    for body in ["", "{}", r#"{"model":"m","error":{"message":" "}}"#] {
        check(400, body, silent);
    }
    for body in ["", "\r\n", "{}"] {
        check(413, body, BODY_TOO_LARGE);
    }
    let counted = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":9}}\n\n";
    for (status, body) in [
        (204, ""),
        (422, ""),
        (422, "{}"),
        (500, ""),
        (200, &*ended("content_filter")),
        (200, counted),
    ] {
        check(status, body, Verdict::Fine);
    }
}

#[test]
fn a_stream_without_generated_tokens_is_a_suspected_overflow() {
    for reason in ["length", "max_tokens"] {
        let reply = format!(
            "data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}],\
             \"usage\":{{\"prompt_tokens\":8192,\"completion_tokens\":0}}}}\n\ndata: [DONE]\n\n"
        );
        let full = Overflow { limit: Some(8_192), ..Overflow::from_empty_reply() };
        check(200, &reply, Verdict::Overflow(full));
    }
}

#[test]
fn a_server_error_is_an_overflow_only_by_its_words() {
    let numbered = json!({ "error": { "code": "1261", "message": "internal" } }).to_string();
    check(500, &numbered, Verdict::Fine);
    let bytes = json!({ "error": { "message": "payload too large" } }).to_string();
    for status in [400, 500] {
        check(status, &bytes, BODY_TOO_LARGE);
    }
    let worded = json!({ "error": { "code": "x", "message": "Prompt is too long" } }).to_string();
    check(500, &worded, Verdict::Overflow(Overflow::stated(None, None)));
}

#[test]
fn an_unknown_refusal_is_unexplained_only_under_400_or_422() {
    let check = |status, message: &str, param: &str, expect| {
        let body = json!({ "error": { "message": message, "param": param } }).to_string();
        assert_eq!(judged(status, [body.as_bytes()]), expect, "{status} {body}");
    };
    for status in [400, 422] {
        check(status, "no", "", Verdict::Unexplained(None));
        check(status, "no", "messages[3].content", Verdict::Unexplained(None));
        // The cause is known, and is not the message list.
        check(status, "too many requests", "", Verdict::Fine);
        check(status, "max_tokens is too large", "", Verdict::Fine);
    }
    for status in [404, 408, 409, 424, 500, 502] {
        check(status, "no", "", Verdict::Fine);
    }
    check(413, "no", "", BODY_TOO_LARGE);
    assert_eq!(judged(400, [&b"<html>"[..]]), Verdict::Unexplained(None));
    let silent = Verdict::Unexplained(Some(Suspicion::Words(0)));
    for status in [422, 500] {
        assert_eq!(judged(status, [&b""[..]]), silent);
    }
    let stated = json!({ "error": { "message": "no", "code": 400 } }).to_string();
    assert_eq!(judged(200, [stated.as_bytes()]), Verdict::Failed);
}

#[test]
fn thousands_separators_and_typographic_apostrophes_are_read() {
    let message = "This model\u{2019}s maximum context length is 128,000\ntokens. However, your messages resulted in 1_204_308 tokens.";
    let body = json!({ "error": { "message": message } }).to_string();
    let expect = Overflow::stated(Some(128_000), Some(1_204_308));
    check(400, &body, Verdict::Overflow(expect));
}

#[test]
fn nested_wrapping_is_read_only_to_a_limit() {
    let mut body = json!({ "message": "prompt is too long" });
    for _ in 0..12 {
        body = json!({ "error": body.to_string() });
    }
    check(400, &body.to_string(), Verdict::Fine);
    check(400, &"{\"error\":".repeat(20_000), Verdict::Fine);
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
        check(400, &error.to_string(), Verdict::Fine);
    }
}

#[test]
fn only_the_limit_of_an_items_text_is_read() {
    for (at, limit, expect) in [
        (
            "'input[2].output': string too long.",
            "10485760, but got a string with length 11000000",
            10_485_760,
        ),
        ("'messages[3].content': string too long.", "10,485,760.", 10_485_760),
        ("'input[1].call_id': string too long.", "64, but got a string with length 70", 0),
        ("'input':", "10485760.", 0),
        ("string too long,", "99999999999", 0),
    ] {
        let message = format!("Invalid {at} Expected a string with maximum length {limit}");
        let body = json!({ "error": { "message": message } }).to_string();
        let expect = match expect {
            0 => Verdict::Fine,
            characters => Verdict::TextTooLong { characters },
        };
        check(400, &body, expect);
    }
}

#[test]
fn recognises_a_binding_mismatch_by_its_wording_or_its_code() {
    let check_error = |code: &str, message: &str, expect| {
        let error = json!({ "error": { "message": message, "code": code } });
        check(400, &error.to_string(), expect);
    };
    let at = "messages.1.content.0: Invalid `signature` in `thinking` block.";
    for stated in [
        "The block is bound to a different conversation.",
        "The block is bound to another conversation.",
        "This block was bound to a different request prefix when it was created.",
        "The `thinking` block that preceded this one is missing from this request.",
        "The block v1.2 is bound to a request other than this. Remove it.",
    ] {
        check_error("invalid_request_error", &format!("{at} {stated}"), Verdict::StaleThinking);
    }
    for other in [
        at,
        &format!("{at} The signature is not valid base64."),
        &format!("{at} The block is bound to this organization. Try another request."),
        "The session is bound to a different conversation.",
        "thinking.block_binding: Extra inputs are not permitted",
    ] {
        check_error("invalid_request_error", other, Verdict::Fine);
    }
    check_error("prefix_binding_mismatch", "refused", Verdict::StaleThinking);
}
