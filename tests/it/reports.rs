//! Refusals of public reports, played to the proxy as they were received.

use longhaul::Config;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::units::tokens::Tokens;
use serde::Deserialize;
use serde_json::json;

use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;
use crate::recovery::scripted::{self, Reply};

const JSON: &str = "content-type: application/json\r\n";
const EVENTS: &str = "content-type: text/event-stream\r\n";
const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;

/// A line of `fixtures/reports`.
#[derive(Deserialize)]
struct Reported {
    id: String,
    status: u16,
    content_type: String,
    body: String,
}

fn reported(lines: &str) -> Vec<Reported> {
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Builds a chat of about this many tokens: one user turn with 60 tool results.
fn chat(tokens: usize) -> Vec<u8> {
    let mut messages = vec![
        json!({"role": "system", "content": "You write code."}),
        json!({"role": "user", "content": "Read the project."}),
    ];
    for step in 0..60 {
        let id = format!("call_{step}");
        let arguments = format!("{{\"path\":\"src/part_{step}.rs\"}}");
        let function = json!({"name": "read", "arguments": arguments});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": function}]}));
        let line = format!("line {step} of a file\n");
        let text = line.repeat(tokens / 60 * 4 / line.len());
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
    }
    json!({"model": "model-of-the-report", "messages": messages})
        .to_string()
        .into_bytes()
}

/// Sends a chat whose first reply is `reported`, and returns the sizes that the upstream received.
async fn play(reported: &Reported, tokens: usize, change: impl FnOnce(&mut Config)) -> Vec<u32> {
    let head = if reported.content_type.contains("event-stream") {
        EVENTS
    } else {
        JSON
    };
    let refusal = Reply::new(reported.status, head, &*reported.body);
    let replies = vec![refusal, Reply::new(200, JSON, ANSWER)];
    let (address, asked) = scripted::upstream(replies).await;
    let base = format!("http://{address}/v1");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    change(&mut config);
    let proxy = Proxy::with(config).await;
    let reply = Caller::of(proxy.address).ask(chat(tokens)).await;
    let received = String::from_utf8_lossy(&reply.body);
    assert_eq!((reply.status, &*received), (200, ANSWER), "{}", reported.id);
    let asked = asked.await.unwrap();
    let sizes = asked.iter().map(|body| read(body).unwrap().tokens().get());
    sizes.collect()
}

#[tokio::test]
async fn every_reported_refusal_leads_to_a_smaller_request() {
    let all = reported(include_str!("../../fixtures/reports/refusals.jsonl"));
    assert_eq!(all.len(), 32);
    for reported in &all {
        let sizes = play(reported, 150_000, |_| ()).await;
        assert!(sizes[1] < sizes[0] * 9 / 10, "{}: {sizes:?}", reported.id);
    }
}

#[tokio::test]
async fn silent_refusal_near_the_window_leads_to_a_smaller_request() {
    let all = reported(include_str!("../../fixtures/reports/silent_400.jsonl"));
    for reported in &all {
        let sizes = play(reported, 119_000, |config| {
            config.window = Tokens::new(150_000);
            config.window_place = Some("a test".into());
            config.compaction.prune = false;
        })
        .await;
        assert!(sizes[1] < sizes[0] * 9 / 10, "{}: {sizes:?}", reported.id);
    }
}
