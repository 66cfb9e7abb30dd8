//! Chats that end before their reply is complete: a call that is charged but not counted has
//! unknown cost, and a call that failed costs nothing.

use super::page::{Metrics, has_counted};
use crate::caller::{chat, talk};
use crate::harness::{Upstream, Wire};
use crate::program::{Admin, Program};

const UNKNOWN: &str = "longhaul_cost_unknown_requests_total";
/// Head of a chunked event stream; each event comes as a chunk.
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                      transfer-encoding: chunked\r\n\r\n";
const EVENT: &str = "data: {\"choices\":[]}\n\n";
const OVERFLOW: &str = r#"{"error":{"message":"This model's maximum context length is 32768 tokens. However, your messages resulted in 44000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;

/// A program without a model for summaries, and its upstream.
async fn pair() -> (Upstream, Program) {
    pair_with(("LONGHAUL_MODE", "on")).await
}

async fn pair_with(setting: (&str, &str)) -> (Upstream, Program) {
    let upstream = Upstream::bind().await;
    let settings = [("LONGHAUL_SUMMARY_MODEL", "none"), setting];
    let program = Program::with_admin(&upstream.base("/v1"), &settings, Admin::Free);
    (upstream, program)
}

/// Builds a complete reply.
fn answer(kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// Sends a chat and returns both ends once the upstream has received all of it.
async fn asked(upstream: &Upstream, program: &Program, body: &[u8]) -> (Wire, Wire) {
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut client = Wire::to(program.address()).await;
    client.send_bytes(&[head.as_bytes(), body].concat()).await;
    (client, heard(upstream).await)
}

/// Accepts a connection and reads a whole request.
async fn heard(upstream: &Upstream) -> Wire {
    let mut server = upstream.accept().await;
    let head = server.until("\r\n\r\n").await.to_ascii_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let (length, _) = length.split_once("\r\n").unwrap();
    server.exactly(length.parse().unwrap()).await;
    server
}

fn chunk(events: &str) -> String {
    format!("{:x}\r\n{events}\r\n", events.len())
}

/// Checks that one chat has ended this way, and the number of chats with unknown cost.
async fn check(program: &Program, ending: &str, unknown: u32) {
    let (admin, ending) = (program.admin(), [("ending", ending)]);
    has_counted(admin, "longhaul_requests_ended_total", &ending).await;
    let metrics = Metrics::of(admin).await;
    metrics.check(UNKNOWN, &[("reason", "not-counted")], unknown);
    metrics.check(UNKNOWN, &[("reason", "not-listed")], 0);
}

#[tokio::test]
async fn cost_is_unknown_if_the_client_leaves_before_the_reply() {
    let (upstream, program) = pair().await;
    let (client, mut server) = asked(&upstream, &program, &chat(1, 100)).await;
    drop(client);
    server.drain().await;
    check(&program, "client-left", 1).await;
}

/// The Python SDK closes its connection at `[DONE]`.
#[tokio::test]
async fn client_leaving_after_the_last_event_counts_as_complete() {
    for (events, ending) in
        [(EVENT.to_owned(), "client-left"), (format!("{EVENT}data: [DONE]\n\n"), "complete")]
    {
        let (upstream, program) = pair().await;
        let (mut client, mut server) = asked(&upstream, &program, &chat(1, 100)).await;
        server.send(&format!("{EVENTS}{}", chunk(&events))).await;
        client.until(&events).await;
        drop(client);
        server.drain().await;
        check(&program, ending, 1).await;
    }
}

#[tokio::test]
async fn cost_is_unknown_if_the_reply_breaks_off() {
    let (upstream, program) = pair().await;
    let (mut client, mut server) = asked(&upstream, &program, &chat(1, 100)).await;
    server.send(&format!("{EVENTS}{}", chunk(EVENT))).await;
    client.until(EVENT).await;
    server.reset();
    client.drain().await;
    check(&program, "upstream-broke", 1).await;
}

#[tokio::test]
async fn cost_is_unknown_if_the_reply_cannot_be_decoded() {
    let (upstream, program) = pair().await;
    let (mut client, mut server) = asked(&upstream, &program, &chat(1, 100)).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 7\r\n\r\n";
    server.send(&format!("{head}no gzip")).await;
    client.until("no gzip").await;
    check(&program, "complete", 1).await;
}

#[tokio::test]
async fn no_cost_if_the_upstream_closes_without_a_reply() {
    let (upstream, program) = pair().await;
    let (mut client, server) = asked(&upstream, &program, &chat(1, 100)).await;
    drop(server);
    let head = client.until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    drop(client);
    check(&program, "complete", 0).await;
}

#[tokio::test]
async fn no_cost_if_the_upstream_closes_without_a_reply_to_the_retry() {
    let (upstream, program) = pair().await;
    let (mut client, mut server) = asked(&upstream, &program, &talk(20, 2_000)).await;
    let length = OVERFLOW.len();
    let head = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json";
    let refusal = format!("{head}\r\ncontent-length: {length}\r\n\r\n{OVERFLOW}");
    server.send(&refusal).await;
    drop(heard(&upstream).await);
    let reply = client.until(OVERFLOW).await;
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
    check(&program, "complete", 0).await;
    let second = [("kind", "compacted"), ("outcome", "unreachable")];
    let metrics = Metrics::of(program.admin()).await;
    metrics.check("longhaul_retries_total", &second, 1);
}

#[tokio::test]
async fn cost_is_unknown_if_the_reply_is_not_inspected() {
    let counted = r#"{"choices":[{"message":{"content":"ok"}}],"usage":{"prompt_tokens":90,"completion_tokens":1,"cost":0.5}}"#;
    for (setting, unknown) in [
        (("LONGHAUL_MODE", "on"), 0),
        (("LONGHAUL_MODE", "shadow"), 1),
        (("DISABLE_COMPACT_ON_OVERFLOW", "1"), 1),
    ] {
        let (upstream, program) = pair_with(setting).await;
        let (mut client, mut server) = asked(&upstream, &program, &chat(1, 100)).await;
        server.send(&answer("application/json", counted)).await;
        client.until(counted).await;
        check(&program, "complete", unknown).await;
    }
}

#[tokio::test]
async fn failed_reply_has_unknown_cost_only_after_output_or_usage() {
    let failed = r#"{"error":{"code":502,"message":"Provider returned error"}}"#;
    let thought = r#"{"choices":[{"delta":{"reasoning":"well"}}]}"#;
    let counts = r#"{"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":0}}"#;
    let page = "<html><body>Please sign in</body></html>".to_owned();
    let events = |events: &[&str]| -> String {
        let events = events.iter().map(|event| format!("data: {event}\n\n"));
        events.collect()
    };
    let stream = "text/event-stream";
    for (what, kind, body, unknown) in [
        ("an error", stream, events(&[failed]), 0),
        ("behind a thought", stream, events(&[thought, failed]), 1),
        ("beside a count", stream, events(&[counts, failed]), 1),
        ("a page", "text/html", page.clone(), 0),
        ("a long page", "text/html", page.repeat(2_000), 0),
    ] {
        let (upstream, program) = pair().await;
        let (mut client, mut server) = asked(&upstream, &program, &chat(1, 100)).await;
        server.send(&answer(kind, &body)).await;
        client.until(&body).await;
        let (admin, ending) = (program.admin(), [("ending", "complete")]);
        has_counted(admin, "longhaul_requests_ended_total", &ending).await;
        let metrics = Metrics::of(admin).await;
        let reasons = ["not-counted", "not-listed"];
        let told = reasons.map(|reason| metrics.number(UNKNOWN, &[("reason", reason)]));
        let told = told.iter().sum::<f64>();
        assert!((told - f64::from(unknown)).abs() < 0.5, "{what}: {told}");
    }
}
