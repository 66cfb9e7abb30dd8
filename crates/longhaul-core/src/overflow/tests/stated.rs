//! Selection of the events and bodies that are read: an error must state that it is one.

use super::*;
use crate::overflow::tests::unseen::{LARGE, judge_by};

const WORDS: &str = "prompt is too long";

fn event<'a>(name: &'a str, data: &'a str) -> Event<'a> {
    Event { name: name.as_bytes(), ..Event::unnamed(data.as_bytes()) }
}

/// Checks whether an event of a successful stream is read as an error.
fn check(name: &str, data: &str, expect: Verdict) {
    let found = classify_stated_error(
        Dialect::ChatCompletions,
        event(name, data),
        RuleSet::table_only(ClassifierRules::standard()),
    );
    assert_eq!(found, expect, "{name}: {data}");
}

fn too_long() -> Verdict {
    Verdict::Overflow(Overflow::stated(None, None))
}

#[test]
fn an_event_named_error_is_an_error_with_any_data() {
    check("error", WORDS, too_long());
    check("error", &json!(WORDS).to_string(), too_long());
    check("error", &json!({ "message": WORDS }).to_string(), too_long());
    check("error", "upstream is busy", Verdict::Failed);
}

#[test]
fn an_unnamed_event_must_state_an_error() {
    for name in ["", "message"] {
        check(name, &json!({ "error": WORDS }).to_string(), too_long());
        check(name, &json!([{ "error": WORDS }]).to_string(), too_long());
        check(name, &json!({ "message": WORDS }).to_string(), Verdict::Fine);
        check(name, &json!(WORDS).to_string(), Verdict::Fine);
        check(name, WORDS, Verdict::Fine);
        check(name, &format!(r#"{{"error":"{WORDS}""#), Verdict::Fine);
    }
}

#[test]
fn an_error_beside_content_is_ignored() {
    let with = |content: &str| {
        json!({ "error": WORDS, "choices": [{ "delta": { "content": content } }] }).to_string()
    };
    check("", &with("The"), Verdict::Fine);
    check("", &with(""), too_long());
}

#[test]
fn a_body_with_status_200_must_state_an_error() {
    let body = |body: Value| read(200, [body.to_string().as_bytes()]);
    assert_eq!(body(json!({ "message": WORDS })), Verdict::Fine);
    assert_eq!(body(json!({ "error": WORDS })), too_long());
    assert_eq!(body(json!({ "code": 1261, "message": WORDS })), too_long());
}

#[test]
fn an_error_sent_as_a_stream_is_read_by_event() {
    let halves = "data: {\"message\":\ndata: \"prompt is\\u0020too long\"}\n\n";
    for begin in ["", ": a comment\n", "event: error\n", "id: 7\n", "retry: 1\n"] {
        let body = format!("{begin}{halves}");
        assert_eq!(read(400, [body.as_bytes()]), too_long(), "{body}");
    }
    let page = format!("<p>{halves}");
    assert_eq!(read(400, [page.as_bytes()]), Verdict::Fine);
}

#[test]
fn keep_alives_and_empty_events_do_not_end_the_hold() {
    let refused = r#"{"error":{"message":"prompt is too long: 208732 tokens > 200000 maximum"}}"#;
    for before in [
        ": OPENROUTER PROCESSING",
        "event: ping\ndata: {\"type\":\"ping\"}",
        "event: keepalive\ndata: {}",
        "data: {\"type\":\"keepalive\",\"sequence_number\":3}",
        "data: {\"type\":\"codex.rate_limits\",\"rate_limits\":{\"primary\":{}}}",
        "data: keep-alive",
        "data: null",
        "data:",
        "retry: 3000",
        "id: 7",
        "data: {\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":null}],\"usage\":null}",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}}]}",
    ] {
        let stream = format!("{before}\n\n{before}\n\ndata: {refused}\n\n");
        let verdict = judged(200, [stream.as_bytes()]);
        let expect = Verdict::Overflow(Overflow::stated(Some(200_000), Some(208_732)));
        assert_eq!(verdict, expect, "{before}");
    }
}

#[test]
fn an_answer_in_another_api_format_is_not_an_error() {
    let said = "Your error means: prompt is too long: 208732 tokens > 200000 maximum";
    for body in [
        json!({"response": said, "done": true}),
        json!({"message": {"role": "assistant", "content": said}, "done": false}),
        json!({"result": {"response": said}, "success": true}),
        json!({"data": [{"text": said}], "ready": false}),
        json!({"note": said, "status": "done"}),
        json!({"prompt_eval_count": 150_321, "eval_count": 1024, "truncated": false, "text": "a"}),
    ] {
        let body = body.to_string();
        let verdict = judge_by(ClassifierRules::standard(), 200, &body, LARGE);
        assert_eq!(verdict, Verdict::Fine, "{body}");
    }
    let failed = json!({"erfolg": false, "grund": "Kontext", "token": 150_321, "maximal": 128_000});
    let verdict = judge_by(ClassifierRules::standard(), 200, &failed.to_string(), LARGE);
    let expect = Verdict::Overflow(Overflow::stated(Some(128_000), Some(150_321)));
    assert_eq!(verdict, expect);
}
