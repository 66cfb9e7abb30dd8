//! Reasoning that a provider drops behind an edit, counted by a provider's rule and by longhaul.

use std::collections::HashSet;

use longhaul_mock_model::{Model, ModelOptions, RequestKind, Verdict};
use serde_json::{Value, json};

use super::RecordedInput;
use super::served::PATH;
use crate::admin::get;
use crate::caller::Caller;
use crate::harness::Upstream;
use crate::program::{Admin, Program, fed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_that_a_provider_drops_is_counted() {
    let (mut dropped, mut counted) = (0, 0);
    for mut session in RecordedInput::all().into_iter().take(12) {
        session.body["model"] = json!("gpt-6.2-sol");
        // Some recorded items are alike.
        for (at, item) in session.body["input"].as_array_mut().unwrap().iter_mut().enumerate() {
            if item["type"] == "reasoning" {
                item["encrypted_content"] = json!(format!("sealed {at}"));
            }
        }
        session.body["max_output_tokens"] = json!(1_000);
        let model = Model::start(ModelOptions::with_window(32_000)).await.unwrap();
        let settings = [("LONGHAUL_WINDOW", "32000"), ("LONGHAUL_SUMMARY_MODEL", "none")];
        let program = Program::with_admin(&model.url(), &settings, Admin::Free);
        let caller = Caller::of(program.address());
        let mut lost = HashSet::new();
        for point in session.points() {
            // A refusal ends the agent's work.
            if caller.ask_at(PATH, &[], session.request(point)).await.status != 200 {
                break;
            }
            let seen = model.seen();
            let accepted = seen
                .iter()
                .rfind(|it| it.kind == RequestKind::Chat && it.verdict == Verdict::Accepted);
            lost.extend(accepted.unwrap().dropped.iter().map(|it| it.key.clone()));
        }
        let metrics = get(program.admin(), "/metrics").await;
        let line = "longhaul_lost_reasoning_total{by=\"provider\"} ";
        let count = metrics.lines().find_map(|it| it.strip_prefix(line)).unwrap();
        let count: usize = count.parse().unwrap();
        assert!(count >= lost.len(), "{}: {count}", session.name);
        dropped += lost.len();
        counted += count;
    }
    // A request between two calls of one step is not found again, so its edits count twice.
    assert!(dropped > 20 && counted * 4 <= dropped * 5, "{counted} of {dropped}");
}

/// Plays one request to a provider that answers with `body`, whole or as a stream. Returns the metric of reported
/// drops, and the page of `longhaul explain --last`.
async fn reported(path: &str, request: &Value, kind: &str, body: &str) -> (String, String) {
    let upstream = Upstream::bind().await;
    let program = Program::with_admin(&upstream.base("/v1"), &[], Admin::Free);
    let caller = Caller::of(program.address());
    let answered = async {
        let mut wire = upstream.accept().await;
        wire.until("And now?").await;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        wire.send(&(head + body)).await;
        wire
    };
    let (reply, _wire) = tokio::join!(caller.ask_at(path, &[], request.to_string()), answered);
    assert_eq!(reply.body, body, "the reply is unchanged");
    let metrics = get(program.admin(), "/metrics").await;
    let count = metrics.lines().find_map(|it| it.strip_prefix("longhaul_dropped_reasoning_total "));
    let address = program.admin().to_string();
    let page = fed(&["explain", "--last", "--admin", &address], &[], b"").stdout;
    (count.unwrap().to_owned(), String::from_utf8(page).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drops_that_a_reply_reports_are_shown() {
    let responses = json!({"model": "gpt-6.2-sol", "input": [
        {"role": "user", "content": "Look."},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        {"role": "user", "content": "And now?"}]});
    let messages = json!({"model": "claude-opus-5-5", "max_tokens": 9, "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "Done."}]},
        {"role": "user", "content": "And now?"}]});
    let chat =
        json!({"model": "gpt-6.2-sol", "messages": [{"role": "user", "content": "And now?"}]});
    let report = r#""input_transformations":[{"id":"rs_1","reason":"prefix_mismatch"}]"#;
    let thinking =
        r#""input_transformations":[{"type":"thinking_dropped","path":"messages.1.content.0"}]"#;
    let event = |name: &str, data: String| format!("event: {name}\ndata: {data}\n\n");
    let stream = |facts: &str| {
        let response = format!(r#""response":{{"object":"response",{facts},"output":[]}}"#);
        event("response.created", format!(r#"{{"type":"response.created",{response}}}"#))
            + &event("response.completed", format!(r#"{{"type":"response.completed",{response}}}"#))
    };
    let start = format!(
        r#"{{"type":"message_start","message":{{"type":"message","content":[],{thinking}}}}}"#
    );
    let whole = |facts: &str| format!("{{{facts},\"output\":[],\"content\":[]}}");
    for (path, request, kind, body, expect) in [
        (PATH, &responses, "application/json", whole(report), "1"),
        (PATH, &responses, "text/event-stream", stream(report), "1"),
        (PATH, &responses, "application/json", whole(r#""input_transformations":[]"#), "0"),
        ("/v1/messages", &messages, "application/json", whole(thinking), "1"),
        ("/v1/messages", &messages, "text/event-stream", event("message_start", start), "1"),
        // A chat has no reasoning that could be dropped.
        ("/v1/chat/completions", &chat, "application/json", whole(report), "0"),
    ] {
        let (count, page) = reported(path, request, kind, &body).await;
        assert_eq!(count, expect, "{path} {body}");
        assert_eq!(page.contains("a reply reports 1 as dropped"), expect == "1", "{page}");
    }
}
